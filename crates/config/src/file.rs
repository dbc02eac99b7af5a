//! The TOML file: settings and models with their lines, and problems.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::llm::{self, LlmConfig, Places};
use crate::models::{FIELDS, ModelConfig, Prompts, RawModel};
use crate::problem::{Location, Problem};
use crate::table::{SECTIONS, SETTINGS, Setting};
use crate::value::Scalar;

/// The content of a file.
#[derive(Default)]
pub(super) struct FileSettings {
    /// Values of settings, with their lines.
    pub(super) values: Vec<(&'static Setting, Scalar, usize)>,
    /// The valid `[[models]]` tables, with their lines.
    pub(super) models: Vec<(ModelConfig, usize)>,
    /// The tables of the LLM gateway.
    pub(super) llm: LlmConfig,
    /// Where they are.
    pub(super) llm_places: Places,
    /// The names of the other models: id and aliases.
    pub(super) invalid_models: Vec<Vec<String>>,
    /// Whether an unreadable part may contain settings or models.
    pub(super) is_incomplete: bool,
    /// Problems of the invalid parts.
    pub(super) problems: Vec<Problem>,
}

type Key<'a> = Spanned<Cow<'a, str>>;
type Value<'a> = Spanned<DeValue<'a>>;

/// Parses the TOML `text` of the file at `path`.
pub(super) fn read(path: &Path, text: &str) -> FileSettings {
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { path, text, found: FileSettings::default() };
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        reader.report(&span, format!("not valid TOML: {}", error.message()));
    }
    if reader.found.problems.is_empty() {
        reader.read_root(root.get_ref());
    } else {
        reader.found.is_incomplete = true;
    }
    reader.found.values.sort_by_key(|(_, _, line)| *line);
    reader.found.problems.sort_by_key(|problem| match problem.location {
        Location::File { line, .. } => line,
        Location::Variable(_) | Location::Flag(_) | Location::General => 0,
    });
    reader.found
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    found: FileSettings,
}

impl Reader<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn location(&self, span: &Range<usize>) -> Location {
        Location::File { path: self.path.to_owned(), line: self.line(span) }
    }

    fn report(&mut self, span: &Range<usize>, message: impl Into<String>) {
        let problem = Problem::new(self.location(span), message);
        self.found.problems.push(problem);
    }

    fn report_unknown(&mut self, key: &Key<'_>, what: &str, accepted: &[String]) {
        let problem = Problem::unknown(self.location(&key.span()), what, key.get_ref(), accepted);
        self.found.problems.push(problem);
    }

    fn read_root(&mut self, root: &DeTable<'_>) {
        for (key, value) in root {
            let name = key.get_ref().as_ref();
            if name == "models" {
                self.read_models(value);
            } else if llm::TABLES.contains(&name) {
                self.read_llm(name, value);
            } else if SECTIONS.iter().any(|(section, _)| *section == name) {
                self.read_section(name, value);
            } else {
                let accepted: Vec<String> = SECTIONS
                    .iter()
                    .map(|(section, _)| (*section).to_owned())
                    .chain(["models"].into_iter().chain(llm::TABLES).map(str::to_owned))
                    .collect();
                self.found.is_incomplete = true;
                self.report_unknown(key, "section", &accepted);
            }
        }
    }

    fn read_section(&mut self, section: &str, value: &Value<'_>) {
        let DeValue::Table(table) = value.get_ref() else {
            let message =
                format!("`{section}` must be a section: write `[{section}]` and its settings below");
            self.found.is_incomplete = true;
            return self.report(&value.span(), message);
        };
        let names =
            || SETTINGS.iter().filter_map(|setting| setting.name.strip_prefix(section)?.strip_prefix('.'));
        for (key, value) in table {
            let Some(setting) = Setting::named(&format!("{section}.{}", key.get_ref())) else {
                let accepted: Vec<String> = names().map(str::to_owned).collect();
                self.found.is_incomplete = true;
                let mut problem =
                    Problem::unknown(self.location(&key.span()), "setting", key.get_ref(), &accepted);
                problem.message += &format!(" in `[{section}]`");
                self.found.problems.push(problem);
                continue;
            };
            match scalar_of(value.get_ref()) {
                Some(scalar) => {
                    let line = self.line(&value.span());
                    self.found.values.push((setting, scalar, line));
                }
                None => {
                    self.found.is_incomplete = true;
                    self.report(&value.span(), format!("`{}` must be a single value", setting.name));
                }
            }
        }
    }

    fn read_models(&mut self, value: &Value<'_>) {
        let DeValue::Array(models) = value.get_ref() else {
            self.found.is_incomplete = true;
            return self
                .report(&value.span(), "`models` must be a list: write `[[models]]` above each model");
        };
        for model in models.iter() {
            if let DeValue::Table(table) = model.get_ref() {
                self.read_model(table, &model.span());
            } else {
                self.found.is_incomplete = true;
                self.report(&model.span(), "a model must be a table");
            }
        }
    }

    fn read_llm(&mut self, name: &str, value: &Value<'_>) {
        match name {
            "upstreams" => self.found.llm.upstreams = self.tables(name, value),
            "routes" => self.found.llm.routes = self.tables(name, value),
            "prices" => self.found.llm.prices = self.tables(name, value),
            _ => self.found.llm.guardrails = self.tables(name, value),
        }
    }

    /// The valid tables of the list `name`.
    fn tables<T: DeserializeOwned>(&mut self, name: &str, value: &Value<'_>) -> Vec<T> {
        let DeValue::Array(tables) = value.get_ref() else {
            self.found.is_incomplete = true;
            self.report(
                &value.span(),
                format!("`{name}` must be a list: write `[[{name}]]` above each table"),
            );
            return Vec::new();
        };
        let mut read = Vec::new();
        for table in tables.iter() {
            match T::deserialize(ValueDeserializer::from(table.clone())) {
                Ok(one) => {
                    read.push(one);
                    let place = self.location(&table.span());
                    self.found.llm_places.add(name, place);
                }
                Err(error) => {
                    self.found.is_incomplete = true;
                    let span = error.span().unwrap_or_else(|| table.span());
                    self.report_table(&span, name, error.message());
                }
            }
        }
        read
    }

    /// Reports why a table of the list `name` can't be read. Wrong names get the hints of settings.
    fn report_table(&mut self, span: &Range<usize>, name: &str, message: &str) {
        let what = if message.starts_with("unknown field `") { "field" } else { "value" };
        let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
        let Some(unknown) = quoted.next().filter(|_| message.starts_with("unknown ")) else {
            let field =
                field_before(&self.text[..span.start]).map_or(String::new(), |field| format!(" `{field}`:"));
            return self.report(span, format!("`[[{name}]]`:{field} {}", in_toml_terms(message)));
        };
        let accepted: Vec<String> = quoted.collect();
        let mut problem = Problem::unknown(self.location(span), what, &unknown, &accepted);
        problem.message += &format!(" in `[[{name}]]`");
        self.found.problems.push(problem);
    }

    fn read_model(&mut self, table: &DeTable<'_>, span: &Range<usize>) {
        let problems_before = self.found.problems.len();
        let mut raw = RawModel::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "id" => raw.id = self.text(key, value),
                "alias" => raw.alias = self.texts(key, value),
                "kind" => raw.kind = self.text(key, value),
                "folder" => raw.folder = self.text(key, value),
                "task" => raw.task = self.text(key, value),
                "precision" => raw.precision = self.text(key, value),
                "dimension" => raw.dimension = self.integer(key, value),
                "dimensions" => raw.dimensions = self.integers(key, value),
                "prompts" => raw.prompts = self.prompts(value),
                "decode_token_ids" => raw.decode_token_ids = self.text(key, value),
                "url" => raw.upstream.url = self.text(key, value),
                "model" => raw.upstream.model = self.text(key, value),
                "api_key" => raw.upstream.api_key = self.text(key, value),
                "ca_file" => raw.upstream.ca_file = self.text(key, value),
                "normalize" => raw.upstream.normalize = self.boolean(key, value),
                "texts_per_request_max" => raw.upstream.texts_per_request_max = self.integer(key, value),
                "bytes_per_request_max" => raw.upstream.bytes_per_request_max = self.integer(key, value),
                "concurrent_requests_max" => {
                    raw.upstream.concurrent_requests_max = self.integer(key, value);
                }
                "timeout_ms" => raw.upstream.timeout_ms = self.integer(key, value),
                "retries_max" => raw.upstream.retries_max = self.integer(key, value),
                _ => self.report_unknown(key, "field of a model", &field_names("")),
            }
        }
        let names: Vec<String> = raw.id.iter().chain(&raw.alias).cloned().collect();
        if self.found.problems.len() > problems_before {
            return self.found.invalid_models.push(names);
        }
        match raw.resolve(|field| table.keys().any(|key| key.get_ref() == field)) {
            Ok(model) => {
                let line = self.line(span);
                self.found.models.push((model, line));
            }
            Err(errors) => {
                self.found.invalid_models.push(names);
                for (field, message) in errors {
                    let key = table.keys().find(|key| key.get_ref() == field);
                    let span = key.map_or_else(|| span.clone(), Spanned::span);
                    self.report(&span, format!("`models.{field}` {message}"));
                }
            }
        }
    }

    fn prompts(&mut self, value: &Value<'_>) -> Prompts {
        let mut prompts = Prompts::default();
        let DeValue::Table(table) = value.get_ref() else {
            self.report(
                &value.span(),
                "`models.prompts` must be a table: { query = \"…\", document = \"…\" }",
            );
            return prompts;
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "query" => prompts.query = self.text(key, value).unwrap_or_default(),
                "document" => prompts.document = self.text(key, value).unwrap_or_default(),
                _ => self.report_unknown(key, "prompt", &field_names("prompts.")),
            }
        }
        prompts
    }

    fn text(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<String> {
        match scalar_of(value.get_ref()) {
            Some(Scalar::Text(text)) => Some(text),
            Some(_) | None => self.wrong_type(key, value, "a text in quotes"),
        }
    }

    fn texts(&mut self, key: &Key<'_>, value: &Value<'_>) -> Vec<String> {
        let DeValue::Array(items) = value.get_ref() else {
            return self.wrong_type(key, value, "a list of texts").unwrap_or_default();
        };
        items.iter().filter_map(|item| self.text(key, item)).collect()
    }

    fn integer(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<i64> {
        match scalar_of(value.get_ref()) {
            Some(Scalar::Integer(number)) => Some(number),
            Some(_) | None => self.wrong_type(key, value, "a whole number"),
        }
    }

    fn boolean(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<bool> {
        match scalar_of(value.get_ref()) {
            Some(Scalar::Bool(value)) => Some(value),
            Some(_) | None => self.wrong_type(key, value, "true or false"),
        }
    }

    fn integers(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<Vec<i64>> {
        let DeValue::Array(items) = value.get_ref() else {
            return self.wrong_type(key, value, "a list of whole numbers");
        };
        Some(items.iter().filter_map(|item| self.integer(key, item)).collect())
    }

    fn wrong_type<T>(&mut self, key: &Key<'_>, value: &Value<'_>, expected: &str) -> Option<T> {
        self.report(&value.span(), format!("`models.{}` must be {expected}", key.get_ref()));
        None
    }
}

/// The field whose value begins after `text`.
fn field_before(text: &str) -> Option<&str> {
    let before = text.trim_end().strip_suffix('=')?.trim_end();
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    Some(&before[start..]).filter(|field| !field.is_empty())
}

/// A message of serde about a type, in the words of a configuration file.
fn in_toml_terms(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "a whole number of 0 or more",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        expected => expected,
    };
    format!("{found}, expected {expected}")
}

/// The names of model fields that start with `prefix`: the part after it, up to the next dot.
fn field_names(prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = FIELDS
        .iter()
        .filter_map(|(name, ..)| name.strip_prefix(prefix)?.split('.').next().map(str::to_owned))
        .collect();
    names.dedup();
    names
}

fn scalar_of(value: &DeValue<'_>) -> Option<Scalar> {
    match value {
        DeValue::String(text) => Some(Scalar::Text(text.clone().into_owned())),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(Scalar::Integer)
        }
        DeValue::Float(number) => number.as_str().parse().ok().map(Scalar::Float),
        DeValue::Boolean(value) => Some(Scalar::Bool(*value)),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
