//! The front matter of Markdown files: fields above the text, in the part of YAML that such files use, or in TOML.

use serde_json::{Map, Value};

use super::markup::plain;
use super::table::number_of;

/// Bytes of a front matter, at most; a file that has no end of one before it has none.
const FRONT_MATTER_BYTES_MAX: usize = 64 << 10;

/// Deepest nesting of fields.
const DEPTH_MAX: usize = 16;

/// Fields that are lists, also where they are written as one text with commas.
const LISTS: [&str; 3] = ["tags", "keywords", "categories"];

/// The front matter of a file.
#[derive(Debug, PartialEq)]
pub(crate) struct FrontMatter {
    /// The field `title`.
    pub(crate) title: Option<String>,
    /// All other fields.
    pub(crate) metadata: Map<String, Value>,
}

impl FrontMatter {
    /// The front matter and the text behind it. `None` where the text does not begin with fields between lines of `---` or
    /// `+++`: such lines are also written as rules.
    pub(crate) fn split(text: &str) -> Option<(FrontMatter, &str)> {
        let (first, rest) = text.split_once('\n')?;
        let ends: &[&str] = match first.trim_end() {
            "---" => &["---", "..."],
            "+++" => &["+++"],
            _ => return None,
        };
        let mut end = 0;
        let line = rest.split_inclusive('\n').find(|line| {
            end += line.len();
            ends.contains(&line.trim_end()) || end > FRONT_MATTER_BYTES_MAX
        })?;
        if !ends.contains(&line.trim_end()) {
            return None;
        }
        let (fields, body) = (&rest[..end - line.len()], &rest[end..]);
        let mut metadata = if ends.contains(&"---") { yaml(fields)? } else { toml(fields)? };
        for name in LISTS {
            if let Some(Value::String(list)) = metadata.get(name)
                && list.contains(',')
            {
                let items: Vec<Value> =
                    list.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect();
                metadata.insert(name.to_owned(), items.into());
            }
        }
        let title = match metadata.remove("title") {
            Some(Value::String(title)) => Some(plain(&title)),
            Some(Value::Number(title)) => Some(title.to_string()),
            Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
        };
        let title = title.filter(|title| !title.is_empty());
        Some((FrontMatter { title, metadata }, body.trim_start_matches(['\r', '\n'])))
    }
}

fn toml(fields: &str) -> Option<Map<String, Value>> {
    let fields: Map<String, Value> = toml::from_str(fields).ok()?;
    Some(fields.into_iter().map(|(name, value)| (name, without_dates(value))).collect())
}

/// TOML's dates are objects with one field when they become JSON.
fn without_dates(value: Value) -> Value {
    match value {
        Value::Object(mut fields) => match fields.remove("$__toml_private_datetime") {
            Some(date) => date,
            None => fields.into_iter().map(|(name, value)| (name, without_dates(value))).collect(),
        },
        Value::Array(items) => items.into_iter().map(without_dates).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// `None` where a line is no field.
fn yaml(fields: &str) -> Option<Map<String, Value>> {
    let mut reader = Yaml { lines: fields.lines().map(str::to_owned).collect(), at: 0 };
    let map = reader.map(0, 0)?;
    (reader.peek().is_none() && !map.is_empty()).then_some(map)
}

/// Reads fields, lists and texts by their indentation. Anchors and types are text, and keys of several lines are not read.
struct Yaml {
    lines: Vec<String>,
    at: usize,
}

impl Yaml {
    /// The next line with content: its indentation, and its text.
    fn peek(&mut self) -> Option<(usize, String)> {
        while let Some(line) = self.lines.get(self.at) {
            let text = line.trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Some((line.len() - line.trim_start().len(), text.to_owned()));
            }
            self.at += 1;
        }
        None
    }

    fn map(&mut self, indent: usize, depth: usize) -> Option<Map<String, Value>> {
        let mut map = Map::new();
        while let Some((found, line)) = self.peek().filter(|(found, _)| *found >= indent) {
            let (key, rest) = key_of(&line)?;
            if found > indent || depth > DEPTH_MAX {
                return None;
            }
            self.at += 1;
            let value = self.value(rest, indent, depth)?;
            if !value.is_null() {
                map.insert(key, value);
            }
        }
        Some(map)
    }

    fn list(&mut self, indent: usize, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        while let Some((found, line)) = self.peek() {
            let Some(rest) = line.strip_prefix('-').filter(|_| found == indent) else { break };
            if !rest.is_empty() && !rest.starts_with(' ') || depth > DEPTH_MAX {
                return None;
            }
            let item = rest.trim_start();
            if key_of(item).is_some() && !item.starts_with(['"', '\'', '[', '{']) {
                let inner = indent + line.len() - item.len();
                self.lines[self.at] = format!("{}{item}", " ".repeat(inner));
                items.push(self.map(inner, depth + 1)?.into());
                continue;
            }
            self.at += 1;
            items.push(self.value(item, indent, depth + 1)?);
        }
        Some(items.into())
    }

    /// The value that begins with `rest`, behind a key or a hyphen at `indent`.
    fn value(&mut self, rest: &str, indent: usize, depth: usize) -> Option<Value> {
        let rest = without_comment(rest);
        match rest.chars().next() {
            None => match self.peek() {
                Some((found, line)) if line.starts_with('-') && found >= indent => {
                    self.list(found, depth + 1)
                }
                Some((found, _)) if found > indent => self.map(found, depth + 1).map(Value::from),
                Some(_) | None => Some(Value::Null),
            },
            Some(style @ ('|' | '>')) if rest.len() <= 3 => Some(self.block(indent, style).into()),
            Some('"' | '\'') => {
                let (text, after) = quoted(rest)?;
                without_comment(after).is_empty().then(|| text.into())
            }
            Some('[') => {
                let mut whole = rest.to_owned();
                while !whole.ends_with(']') {
                    let (_, line) = self.peek()?;
                    self.at += 1;
                    whole = format!("{whole} {}", without_comment(&line));
                }
                inline_list(&whole)
            }
            Some(_) => {
                let mut whole = rest.to_owned();
                while let Some((_, line)) = self.peek().filter(|(found, _)| *found > indent) {
                    if key_of(&line).is_some() {
                        return None;
                    }
                    self.at += 1;
                    whole = format!("{whole} {}", without_comment(&line));
                }
                Some(scalar(&whole))
            }
        }
    }

    /// The lines below `indent`: kept as they are, or joined.
    fn block(&mut self, indent: usize, style: char) -> String {
        let mut lines: Vec<&str> = Vec::new();
        while let Some(line) = self.lines.get(self.at) {
            let is_in = line.trim().is_empty() || line.len() - line.trim_start().len() > indent;
            if !is_in {
                break;
            }
            lines.push(line.trim());
            self.at += 1;
        }
        lines.join(if style == '|' { "\n" } else { " " }).trim().to_owned()
    }
}

/// A key, and what follows its colon.
fn key_of(line: &str) -> Option<(String, &str)> {
    if line.starts_with(['"', '\'']) {
        let (key, rest) = quoted(line)?;
        return Some((key, rest.trim_start().strip_prefix(':')?.trim_start()));
    }
    let at = line.find(": ").or_else(|| line.len().checked_sub(1).filter(|_| line.ends_with(':')))?;
    let key = line[..at].trim_end();
    let is_key = !key.is_empty()
        && !key.starts_with(['-', '?', '[', '{', '#', '&', '*', '!', '|', '>', '%', '@', '`']);
    is_key.then(|| (key.to_owned(), line[at + 1..].trim_start()))
}

/// The text in quotes at the begin of `text`, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next()?;
    let mut found = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote == '"' {
            found.push(match chars.next()?.1 {
                'n' => '\n',
                't' => '\t',
                other => other,
            });
        } else if c == quote && quote == '\'' && chars.next_if(|(_, next)| *next == quote).is_some() {
            found.push(quote);
        } else if c == quote {
            return Some((found, &text[at + 1..]));
        } else {
            found.push(c);
        }
    }
    None
}

/// The text without ` # …` at its end, unless that may be in quotes.
fn without_comment(text: &str) -> &str {
    let text = text.trim();
    if text.starts_with('#') {
        return "";
    }
    match text.find(" #") {
        Some(at) if !text[at..].contains(['"', '\'']) => text[..at].trim_end(),
        Some(_) | None => text,
    }
}

fn inline_list(text: &str) -> Option<Value> {
    let mut rest = text.strip_prefix('[')?.strip_suffix(']')?.trim_start();
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, after) = if rest.starts_with(['"', '\'']) {
            let (item, after) = quoted(rest)?;
            (item.into(), after)
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            (scalar(rest[..end].trim()), &rest[end..])
        };
        items.push(item);
        let after = after.trim_start();
        rest = if after.is_empty() { "" } else { after.strip_prefix(',')?.trim_start() };
    }
    items.retain(|item| !item.is_null());
    Some(items.into())
}

/// A text without quotes. A number is one only if it is written the same way: `1.10` is a version.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ => match number_of(text) {
            Some(number) if number.to_string() == text => Value::Number(number),
            Some(_) | None => text.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, title: Option<&str>, metadata: Value, body: &str) {
        let (found, rest) = FrontMatter::split(text).unwrap();
        assert_eq!(
            (found.title.as_deref(), Value::from(found.metadata), rest),
            (title, metadata, body),
            "{text}"
        );
    }

    #[test]
    fn fields_are_title_and_metadata() {
        check(
            "---\ntitle: Boat safety handbook\ntags: [harbour, safety]\nauthor: Ada\ndate: 2026-06-12\n---\n\nText",
            Some("Boat safety handbook"),
            json!({"tags": ["harbour", "safety"], "author": "Ada", "date": "2026-06-12"}),
            "Text",
        );
        check(
            "+++\ntitle = '*A* `b`'\ndate = 2026-06-12\nweight = 3\n[extra]\ndraft = false\n+++\r\nText",
            Some("A b"),
            json!({"date": "2026-06-12", "weight": 3, "extra": {"draft": false}}),
            "Text",
        );
    }

    #[test]
    fn the_part_of_yaml_that_files_use_is_read() {
        let fields = "# a comment\n'key one': \"a: \\\"b\\\" # c\"  # d\ntags:\n- a\n- 'it''s'\n\nauthors:\n  - name: Ada\n    url: https://example.org/#x\n  - Bob\n\
            nested:\n  deep:\n    version: 1.10\n    year: 2026\nempty:\nlist: [\n  a, \"b, c\",\n]\nnone: []\n\
            text: |\n  one\n   two\nfolded: >-\n  one\n  two\nlong: one\n  two\ndone: true\nkeywords: x, y z\n";
        check(
            &format!("---\r\n{}...\nText", fields.replace('\n', "\r\n")),
            None,
            json!({
                "key one": "a: \"b\" # c", "tags": ["a", "it's"],
                "authors": [{"name": "Ada", "url": "https://example.org/#x"}, "Bob"],
                "nested": {"deep": {"version": "1.10", "year": 2026}}, "list": ["a", "b, c"], "none": [],
                "text": "one\ntwo", "folded": "one two", "long": "one two", "done": true, "keywords": ["x", "y z"],
            }),
            "Text",
        );
    }

    #[test]
    fn no_text_is_cut_within_a_character() {
        let sample = "---\né: 'é''é'\nlist: [é, \"é\\\"\", x]\nmap:\n  - é: é # é\n    b: |\n      é\n\n  - >-\né: é\n---\né";
        for at in (0..sample.len()).filter(|at| sample.is_char_boundary(*at)) {
            let after = at + sample[at..].chars().next().map_or(1, char::len_utf8);
            for text in [sample[..at].to_owned(), format!("{}{}", &sample[..at], &sample[after..])] {
                FrontMatter::split(&text);
                FrontMatter::split(&format!("{text}\n---\n"));
                plain(&text);
            }
        }
    }

    #[test]
    fn other_texts_have_no_front_matter() {
        for text in [
            "",
            "---",
            "---\n---\ntext",
            "---\nprose\n---\ntext",
            "---\na: b\n",
            "text\n---\na: b\n---",
            "---\na: \"b\n---\n",
            "---\na: b\n  c: d\n e: f\n---\n",
            "+++\nno toml\n+++\n",
            "----\na: b\n----\n",
            "---\na: [b\n---\n",
            "---\n- a\n---\n",
        ] {
            assert_eq!(FrontMatter::split(text), None, "{text}");
        }
        let deep: String = (0..40).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        assert_eq!(FrontMatter::split(&format!("---\n{deep}---\n")), None);
        let long = format!("---\na: {}\n---\n", "b".repeat(FRONT_MATTER_BYTES_MAX));
        assert_eq!(FrontMatter::split(&long), None);
    }
}
