//! Limits of a `tokenizer.json`: checked before the `tokenizers` crate reads it.
//!
//! A rule that replaces `a` by `aa`, forty times in sequence, turns a letter into a terabyte. Texts come from clients, so the limits are
//! on the file, not on what a trial shows.

use base64::Engine as _;
use serde::Deserialize;
use serde_json::Value;

use super::charsmap;

/// Factor by which all rules together may lengthen a text.
const GROWTH_MAX: usize = 16;

/// Bytes that a rule may put before each text.
const PREPENDED_BYTES_MAX: usize = 64;

/// The time for a word grows with the cube of its length. Every published vocabulary has 100.
const WORD_CHARS_MAX: u64 = 256;

/// The parts of `tokenizer.json` that can make a text long, slow or random.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    model: Model,
}

#[derive(Default, Deserialize)]
struct Model {
    max_input_chars_per_word: Option<u64>,
    dropout: Option<f64>,
}

/// Checks the rules of a `tokenizer.json`.
///
/// # Errors
/// The rule and its limit.
pub(super) fn check(json: &[u8]) -> Result<(), String> {
    let File { normalizer, pre_tokenizer, decoder, model } =
        serde_json::from_slice(json).map_err(|error| error.to_string())?;
    for (name, rules) in
        [("normalizer", [&normalizer, &pre_tokenizer]), ("decoder", [&decoder, &Value::Null])]
    {
        let mut found = Found { growth: 1, charsmaps: 0 };
        rules.into_iter().try_for_each(|rules| found.add(rules))?;
        if found.growth > GROWTH_MAX {
            return Err(format!(
                "the rules of its {name} can make a text {} times as long; the limit of Weir is {GROWTH_MAX}",
                found.growth
            ));
        }
        if found.charsmaps > 1 {
            return Err(format!("its {name} has {} character maps; Weir supports one", found.charsmaps));
        }
    }
    if let Some(chars) = model.max_input_chars_per_word.filter(|chars| *chars > WORD_CHARS_MAX) {
        return Err(format!("`max_input_chars_per_word` is {chars}; the limit of Weir is {WORD_CHARS_MAX}"));
    }
    match model.dropout {
        Some(dropout) if dropout != 0.0 => {
            Err(format!("`dropout` is {dropout}, which makes embeddings random; set it to null"))
        }
        _ => Ok(()),
    }
}

/// The combined effect of the rules of one part.
struct Found {
    growth: usize,
    charsmaps: usize,
}

impl Found {
    /// Adds a rule, and the rules inside of it. The depth is bounded by the JSON parser.
    fn add(&mut self, rule: &Value) -> Result<(), String> {
        match rule {
            Value::Array(rules) => return rules.iter().try_for_each(|rule| self.add(rule)),
            Value::Object(parts) => parts.values().try_for_each(|part| self.add(part))?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(()),
        }
        match rule["type"].as_str().unwrap_or_default() {
            "Replace" => self.growth = self.growth.saturating_mul(replacement_growth(rule)),
            // every byte of a character beyond ASCII becomes two
            "ByteLevel" => self.growth = self.growth.saturating_mul(2),
            "Prepend" => match rule["prepend"].as_str().map_or(0, str::len) {
                0..=PREPENDED_BYTES_MAX => {}
                bytes => {
                    let limit = format!("the limit of Weir is {PREPENDED_BYTES_MAX}");
                    return Err(format!("it puts {bytes} bytes before each text; {limit}"));
                }
            },
            "Precompiled" => {
                self.charsmaps += 1;
                check_charsmap(rule).map_err(|defect| format!("its character map is damaged: {defect}"))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The largest factor by which a rule `Replace` lengthens a text.
fn replacement_growth(rule: &Value) -> usize {
    let content = rule["content"].as_str().map_or(0, str::len);
    match rule["pattern"]["String"].as_str().map(str::len) {
        Some(pattern @ 1..) => content.div_ceil(pattern).max(1),
        // an expression may match the empty text between any two bytes
        Some(0) | None => content + 1,
    }
}

fn check_charsmap(rule: &Value) -> Result<(), String> {
    let encoded = rule["precompiled_charsmap"].as_str().unwrap_or_default();
    let map = base64::engine::general_purpose::STANDARD.decode(encoded).map_err(|error| error.to_string())?;
    charsmap::check(&map)
}

#[cfg(test)]
mod tests {
    use super::check;

    fn replace(pattern: &str, content: &str) -> String {
        format!(r#"{{"type":"Replace","pattern":{pattern},"content":"{content}"}}"#)
    }

    #[test]
    fn rules_that_make_texts_long_slow_or_random_are_refused() {
        let seen = |file: String| check(file.as_bytes()).err().unwrap_or_default();
        let sequence = |rules: &[String]| {
            format!(r#"{{"normalizer":{{"type":"Sequence","normalizers":[{}]}}}}"#, rules.join(","))
        };
        let twice = || replace(r#"{"String":"a"}"#, "aa");
        assert_eq!(seen(sequence(&[twice(), twice(), twice(), twice()])), "");
        assert!(seen(sequence(&[twice(), twice(), twice(), twice(), twice()])).contains("32 times as long"));
        assert!(seen(sequence(&vec![twice(); 31])).contains("2147483648 times as long"));
        assert!(seen(sequence(&vec![twice(); 99])).contains(&format!("{} times", usize::MAX)));
        assert_eq!(seen(sequence(&[replace(r#"{"Regex":" {2,}"}"#, "\u{2581}")])), "");
        assert!(seen(sequence(&[replace(r#"{"Regex":""}"#, &"x".repeat(16))])).contains("17 times"));
        assert!(seen(sequence(&[replace(r#"{"String":""}"#, &"x".repeat(16))])).contains("17 times"));
        assert_eq!(seen(sequence(&[replace(r#"{"String":"abc"}"#, &"x".repeat(48))])), "");
        let byte_level = || r#"{"type":"ByteLevel"}"#.to_owned();
        assert!(seen(sequence(&vec![byte_level(); 5])).contains("32 times"));
        let prepend = |bytes| format!(r#"{{"type":"Prepend","prepend":"{}"}}"#, "x".repeat(bytes));
        assert_eq!(seen(sequence(&[prepend(64)])), "");
        assert!(seen(sequence(&[prepend(65)])).contains("puts 65 bytes before each text"));
        assert!(
            seen(format!(r#"{{"decoder":{}}}"#, replace(r#"{"String":"a"}"#, &"x".repeat(17))))
                .contains("decoder")
        );
        assert!(seen(r#"{"model":{"max_input_chars_per_word":257}}"#.to_owned()).contains("is 257"));
        assert_eq!(seen(r#"{"model":{"max_input_chars_per_word":100,"dropout":null}}"#.to_owned()), "");
        assert!(seen(r#"{"model":{"dropout":0.1}}"#.to_owned()).contains("random"));
        let map = r#"{"type":"Precompiled","precompiled_charsmap":"////fw=="}"#;
        assert!(seen(sequence(&[map.to_owned()])).contains("its character map is damaged: its trie has"));
    }
}
