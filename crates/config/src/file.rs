//! The TOML file: read into assignments, each with its line, and complaints.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::models::{FIELDS, ModelConfig, Prompts, TypedModel};
use crate::problem::{Place, Problem};
use crate::table::{SECTIONS, SETTINGS, Setting};
use crate::value::Scalar;

/// What a file says.
#[derive(Default)]
pub(super) struct FileSettings {
    /// Settings that exist, with the line of their value.
    pub(super) values: Vec<(&'static Setting, Scalar, usize)>,
    /// The `[[models]]` tables that are well-formed, with their lines.
    pub(super) models: Vec<(ModelConfig, usize)>,
    /// The id and every alias of the others.
    pub(super) spoilt_models: Vec<Vec<String>>,
    /// Whether something may have been meant for a setting or a list of models, and could not be read so.
    pub(super) is_unclear: bool,
    /// Everything else.
    pub(super) problems: Vec<Problem>,
}

type Key<'a> = Spanned<Cow<'a, str>>;
type Value<'a> = Spanned<DeValue<'a>>;

/// Reads the TOML `text` of the file at `path`.
pub(super) fn read(path: &Path, text: &str) -> FileSettings {
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { path, text, found: FileSettings::default() };
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        reader.complain(&span, format!("not valid TOML: {}", error.message()));
    }
    if reader.found.problems.is_empty() {
        reader.read_root(root.get_ref());
    } else {
        reader.found.is_unclear = true;
    }
    reader.found.values.sort_by_key(|(_, _, line)| *line);
    reader.found.problems.sort_by_key(|problem| match problem.place {
        Place::File { line, .. } => line,
        Place::Variable(_) | Place::Flag(_) | Place::Nowhere => 0,
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

    fn place(&self, span: &Range<usize>) -> Place {
        Place::File { path: self.path.to_owned(), line: self.line(span) }
    }

    fn complain(&mut self, span: &Range<usize>, message: impl Into<String>) {
        let problem = Problem::new(self.place(span), message);
        self.found.problems.push(problem);
    }

    fn complain_unknown(&mut self, key: &Key<'_>, what: &str, accepted: &[String]) {
        let problem = Problem::unknown(self.place(&key.span()), what, key.get_ref(), accepted);
        self.found.problems.push(problem);
    }

    fn read_root(&mut self, root: &DeTable<'_>) {
        for (key, value) in root {
            let name = key.get_ref().as_ref();
            if name == "models" {
                self.read_models(value);
            } else if SECTIONS.iter().any(|(section, _)| *section == name) {
                self.read_section(name, value);
            } else {
                let accepted: Vec<String> = SECTIONS
                    .iter()
                    .map(|(section, _)| (*section).to_owned())
                    .chain(["models".to_owned()])
                    .collect();
                self.found.is_unclear = true;
                self.complain_unknown(key, "section", &accepted);
            }
        }
    }

    fn read_section(&mut self, section: &str, value: &Value<'_>) {
        let DeValue::Table(table) = value.get_ref() else {
            let message =
                format!("`{section}` must be a section: write `[{section}]` and its settings below");
            self.found.is_unclear = true;
            return self.complain(&value.span(), message);
        };
        let names =
            || SETTINGS.iter().filter_map(|setting| setting.name.strip_prefix(section)?.strip_prefix('.'));
        for (key, value) in table {
            let Some(setting) = Setting::named(&format!("{section}.{}", key.get_ref())) else {
                let accepted: Vec<String> = names().map(str::to_owned).collect();
                self.found.is_unclear = true;
                self.complain_unknown(key, &format!("setting in `[{section}]`"), &accepted);
                continue;
            };
            match scalar_of(value.get_ref()) {
                Some(scalar) => {
                    let line = self.line(&value.span());
                    self.found.values.push((setting, scalar, line));
                }
                None => {
                    self.found.is_unclear = true;
                    self.complain(&value.span(), format!("`{}` must be a single value", setting.name));
                }
            }
        }
    }

    fn read_models(&mut self, value: &Value<'_>) {
        let DeValue::Array(models) = value.get_ref() else {
            self.found.is_unclear = true;
            return self
                .complain(&value.span(), "`models` must be a list: write `[[models]]` above each model");
        };
        for model in models.iter() {
            if let DeValue::Table(table) = model.get_ref() {
                self.read_model(table, &model.span());
            } else {
                self.found.is_unclear = true;
                self.complain(&model.span(), "a model must be a table");
            }
        }
    }

    fn read_model(&mut self, table: &DeTable<'_>, span: &Range<usize>) {
        let problems_before = self.found.problems.len();
        let mut typed = TypedModel::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "id" => typed.id = self.text(key, value),
                "alias" => typed.alias = self.texts(key, value),
                "kind" => typed.kind = self.text(key, value),
                "folder" => typed.folder = self.text(key, value),
                "task" => typed.task = self.text(key, value),
                "precision" => typed.precision = self.text(key, value),
                "dimension" => typed.dimension = self.integer(key, value),
                "dimensions" => typed.dimensions = self.integers(key, value),
                "prompts" => typed.prompts = self.prompts(value),
                "url" => typed.upstream.url = self.text(key, value),
                "model" => typed.upstream.model = self.text(key, value),
                "api_key" => typed.upstream.api_key = self.text(key, value),
                "normalize" => typed.upstream.normalize = self.boolean(key, value),
                "texts_per_request_max" => typed.upstream.texts_per_request_max = self.integer(key, value),
                "bytes_per_request_max" => typed.upstream.bytes_per_request_max = self.integer(key, value),
                "concurrent_requests_max" => {
                    typed.upstream.concurrent_requests_max = self.integer(key, value);
                }
                "timeout_ms" => typed.upstream.timeout_ms = self.integer(key, value),
                "retries_max" => typed.upstream.retries_max = self.integer(key, value),
                _ => self.complain_unknown(key, "field of a model", &field_names("")),
            }
        }
        let names: Vec<String> = typed.id.iter().chain(&typed.alias).cloned().collect();
        if self.found.problems.len() > problems_before {
            return self.found.spoilt_models.push(names);
        }
        match typed.resolve() {
            Ok(model) => {
                let line = self.line(span);
                self.found.models.push((model, line));
            }
            Err(wrong) => {
                self.found.spoilt_models.push(names);
                for (field, message) in wrong {
                    let at = table.iter().find(|(key, _)| key.get_ref() == field).map(|(key, _)| key.span());
                    self.complain(&at.unwrap_or_else(|| span.clone()), format!("`models.{field}` {message}"));
                }
            }
        }
    }

    fn prompts(&mut self, value: &Value<'_>) -> Prompts {
        let mut prompts = Prompts::default();
        let DeValue::Table(table) = value.get_ref() else {
            self.complain(
                &value.span(),
                "`models.prompts` must be a table: { query = \"…\", document = \"…\" }",
            );
            return prompts;
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "query" => prompts.query = self.text(key, value).unwrap_or_default(),
                "document" => prompts.document = self.text(key, value).unwrap_or_default(),
                _ => self.complain_unknown(key, "prompt", &field_names("prompts.")),
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
        self.complain(&value.span(), format!("`models.{}` must be {expected}", key.get_ref()));
        None
    }
}

/// The names of the fields of a model that begin with `prefix`, without it and up to the next dot.
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
