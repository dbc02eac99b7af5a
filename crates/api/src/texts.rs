//! The input of embedding routes: one text, or a list of texts.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{ErrorCode, Invalid, Limits, Result};

/// Most texts that are kept; further texts are only counted. Upper bound of `limits.embedding_inputs_max`.
pub const INPUTS_MAX: usize = 65_536;

/// Most token ids that are kept of one request; a request with more is refused.
const TOKEN_IDS_MAX: usize = 1 << 20;

/// One text, or a list of texts; or token ids instead of texts, which are to be [decoded](Texts::decode).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    kept: Vec<String>,
    /// The token ids of each text, before they are decoded.
    tokens: Vec<Vec<u32>>,
    count: usize,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    List,
    /// Token ids of one text or of several.
    Tokens,
}

impl Texts {
    /// The texts, in order; complete once [`Texts::check`] has passed.
    pub fn as_slice(&self) -> &[String] {
        &self.kept
    }

    /// One text.
    pub fn one(text: String) -> Texts {
        Texts { kept: vec![text], tokens: Vec::new(), count: 1, shape: Shape::One }
    }

    /// These texts as a list.
    pub fn list(kept: Vec<String>) -> Texts {
        Texts { count: kept.len(), kept, tokens: Vec::new(), shape: Shape::List }
    }

    /// The texts, in order; complete once [`Texts::check`] has passed.
    pub fn into_vec(self) -> Vec<String> {
        self.kept
    }

    /// Whether they are token ids.
    pub fn are_tokens(&self) -> bool {
        self.shape == Shape::Tokens
    }

    /// Turns token ids into texts by `decode`, which fails with a message; `field` is their name in the request.
    ///
    /// # Errors
    /// `batch_too_large` for more than 2^20 ids; `invalid_parameter` with the message of `decode`.
    pub fn decode(&mut self, field: &str, decode: impl Fn(&[u32]) -> Result<String, String>) -> Result<()> {
        if !self.are_tokens() {
            return Ok(());
        }
        if self.tokens.iter().map(Vec::len).sum::<usize>() > TOKEN_IDS_MAX {
            let message =
                format!("`{field}` has more than {TOKEN_IDS_MAX} token ids; send fewer in a request");
            return Err(Invalid::at(ErrorCode::BatchTooLarge, &[field], message));
        }
        let decoded = std::mem::take(&mut self.tokens).into_iter().enumerate().map(|(index, ids)| {
            decode(&ids)
                .map_err(|message| Invalid::at_item(ErrorCode::InvalidParameter, field, index, message))
        });
        *self = Texts::list(decoded.collect::<Result<Vec<String>>>()?);
        Ok(())
    }

    /// An error of one text, with its position in the request.
    pub fn invalid(&self, field: &str, index: usize, code: ErrorCode, message: String) -> Invalid {
        match self.shape {
            Shape::One => Invalid::at(code, &[field], message),
            Shape::List | Shape::Tokens => Invalid::at_item(code, field, index, message),
        }
    }

    /// Validates the number and the length of the texts; `field` is their name in the request.
    ///
    /// # Errors
    /// `token_input_unsupported`, `batch_too_large`, `empty_input` and `payload_too_large`, with the position.
    pub fn check(&self, field: &str, limits: &Limits) -> Result<()> {
        if !self.are_tokens() && self.count == 0 {
            return Err(Invalid::at(ErrorCode::EmptyInput, &[field], format!("`{field}` is an empty list")));
        }
        self.check_sizes(field, limits)?;
        match self.kept.iter().position(String::is_empty) {
            None => Ok(()),
            Some(index) => {
                Err(self.invalid(field, index, ErrorCode::EmptyInput, "the text is empty".to_owned()))
            }
        }
    }

    /// The same for an API in which texts and the list of them may be empty.
    ///
    /// # Errors
    /// Those of [`Texts::check`] but `empty_input`.
    pub fn check_sizes(&self, field: &str, limits: &Limits) -> Result<()> {
        if self.are_tokens() {
            let message = format!("`{field}` contains token ids, which are specific to another tokenizer");
            return Err(Invalid::at(ErrorCode::TokenInputUnsupported, &[field], message));
        }
        let (count, most) = (self.count, limits.embedding_inputs_max);
        if count > most {
            let message =
                format!("`{field}` has {count} texts; the limit `limits.embedding_inputs_max` is {most}");
            return Err(Invalid::at(ErrorCode::BatchTooLarge, &[field], message));
        }
        let bytes_max = limits.embedding_input_bytes_max;
        let mut lengths = self.kept.iter().map(String::len).enumerate();
        match lengths.find(|(_, bytes)| *bytes > bytes_max) {
            None => Ok(()),
            Some((index, bytes)) => {
                let message = format!(
                    "the text has {bytes} bytes; the limit `limits.embedding_input_bytes_max` is {bytes_max}"
                );
                Err(self.invalid(field, index, ErrorCode::PayloadTooLarge, message))
            }
        }
    }

    /// Whether there is nothing to embed: no text, or a single empty one that is not in a list.
    pub fn is_nothing(&self) -> bool {
        match self.shape {
            Shape::One => self.kept.iter().all(String::is_empty),
            Shape::List => self.count == 0,
            Shape::Tokens => false,
        }
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        deserializer.deserialize_any(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Texts, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Texts, E> {
        Ok(Texts::one(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
        let (mut kept, mut ids, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        let (mut count, mut all_ids) = (0, 0);
        while let Some(item) = items.next_element::<Item>()? {
            count += 1;
            match item {
                Item::Text(text) if kept.len() < INPUTS_MAX => kept.push(text),
                Item::Id(id) if ids.len() <= TOKEN_IDS_MAX => ids.push(id),
                // the first list beyond the limit is kept, for the error
                Item::Ids(list) if tokens.len() < INPUTS_MAX && all_ids <= TOKEN_IDS_MAX => {
                    all_ids += list.len();
                    tokens.push(list);
                }
                Item::Text(_) | Item::Id(_) | Item::Ids(_) => {}
            }
        }
        match (kept.is_empty(), ids.is_empty(), tokens.is_empty()) {
            (_, true, true) => Ok(Texts { kept, tokens, count, shape: Shape::List }),
            (true, false, true) => Ok(Texts { kept, tokens: vec![ids], count: 1, shape: Shape::Tokens }),
            (true, true, false) => Ok(Texts { kept, tokens, count, shape: Shape::Tokens }),
            _ => Err(A::Error::custom("strings and token ids are mixed, expected a list of strings")),
        }
    }
}

/// One item of a list.
enum Item {
    /// A text.
    Text(String),
    /// A token id of a single text.
    Id(u32),
    /// The token ids of one of several texts; one more than the limit if there are more.
    Ids(Vec<u32>),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Item, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or an object with a `text`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Item, E> {
        Ok(Item::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Item, E> {
        Ok(Item::Text(text))
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Item, E> {
        let id = u32::try_from(id).map_err(|_| E::custom(format!("the token id {id} is too large")))?;
        Ok(Item::Id(id))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<Item, A::Error> {
        let mut kept = Vec::new();
        while let Some(id) = ids.next_element::<u32>()? {
            if kept.len() <= TOKEN_IDS_MAX {
                kept.push(id);
            }
        }
        Ok(Item::Ids(kept))
    }

    /// `{"text": …}`, as clients of Jina send it.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Item, A::Error> {
        let mut text = None;
        while let Some(field) = fields.next_key::<Cow<'_, str>>()? {
            if field != "text" {
                let field = field.escape_debug();
                return Err(A::Error::custom(format!(
                    "an input has the field `{field}`, and texts alone are embedded; send a string, or an object with a `text`"
                )));
            }
            text = Some(fields.next_value()?);
        }
        text.map(Item::Text).ok_or_else(|| A::Error::custom("an object without a `text`"))
    }
}

impl JsonSchema for Texts {
    fn schema_name() -> Cow<'static, str> {
        "Texts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "One text, or a list of texts. A text of a list may stand in an object, `{\"text\": …}`.",
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "minItems": 1, "items": {"anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}},
                ]}},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Request {
        input: Texts,
    }

    /// Parses and validates `{"input": …}`; `expected` is `code param`, or the texts joined by `|`.
    fn check(input: &str, expected: &str) {
        let body = format!("{{\"input\":{input}}}");
        let limits = Limits { embedding_inputs_max: 3, embedding_input_bytes_max: 5, ..Limits::default() };
        let read = crate::parse::<Request>(body.as_bytes());
        let checked = read.and_then(|request| request.input.check("input", &limits).map(|()| request.input));
        let seen = match checked {
            Ok(texts) => texts.as_slice().join("|"),
            Err(invalid) => format!("{} {}", invalid.code, invalid.param.unwrap_or_default()),
        };
        assert_eq!(seen, expected, "{body}");
    }

    #[test]
    fn input_is_a_text_or_a_list_of_texts() {
        check(r#""a""#, "a");
        check(r#""\u00e9\"""#, "é\"");
        check(r#"["a"]"#, "a");
        check(r#"["a","b"," "]"#, "a|b| ");
        check(r#"[{"text":"a"},"b",{"text":"\u00e9"}]"#, "a|b|é");
    }

    #[test]
    fn other_types_are_refused_with_the_parameter() {
        check("null", "invalid_parameter input");
        check("7", "invalid_parameter input");
        check("{}", "invalid_parameter input");
        check("[null]", "invalid_parameter input[0]");
        check(r#"["a",true]"#, "invalid_parameter input[1]");
        check(r#"["a",{}]"#, "invalid_parameter input[1]");
        check(r#"["a",{"image":"https://a/b.png"}]"#, "invalid_parameter input[1]");
        check(r#"["a",{"text":"b","image":"i"}]"#, "invalid_parameter input[1]");
        check(r#"["a",{"text":7}]"#, "invalid_parameter input[1].text");
        check(r#"["a",7]"#, "invalid_parameter input");
        check(r#"[[1],"a"]"#, "invalid_parameter input");
        check("[1,[2]]", "invalid_parameter input");
        check("[-1]", "invalid_parameter input[0]");
        check("[4294967296]", "invalid_parameter input[0]");
    }

    #[test]
    fn token_ids_are_recognised() {
        check("[1]", "token_input_unsupported input");
        check("[[57668,53901],[1]]", "token_input_unsupported input");
        check("[1,2,3,4,5]", "token_input_unsupported input");
        check("[[]]", "token_input_unsupported input");
    }

    #[test]
    fn token_ids_become_texts_by_a_decoder() {
        let decoded = |input: &str| {
            let mut input =
                crate::parse::<Request>(format!("{{\"input\":{input}}}").as_bytes()).unwrap().input;
            input
                .decode("input", |ids| match ids {
                    [9] => Err("no such token".to_owned()),
                    ids => Ok(format!("{ids:?}")),
                })
                .map(|()| input.into_vec().join("|"))
                .map_err(|invalid| invalid.param.unwrap_or_default())
        };
        assert_eq!(decoded("[1,2]"), Ok("[1, 2]".to_owned()));
        assert_eq!(decoded("[[1,2],[],[3]]"), Ok("[1, 2]|[]|[3]".to_owned()));
        assert_eq!(decoded(r#"["a"]"#), Ok("a".to_owned()));
        assert_eq!(decoded("[[1],[9]]"), Err("input[1]".to_owned()));
        let many = format!("[[{}1],[1]]", "1,".repeat(TOKEN_IDS_MAX));
        assert_eq!(decoded(&many), Err("input".to_owned()));
    }

    #[test]
    fn empty_and_too_large_inputs_are_refused() {
        check(r#""""#, "empty_input input");
        check("[]", "empty_input input");
        check(r#"["a",""]"#, "empty_input input[1]");
        check(r#"["a","b","c","d"]"#, "batch_too_large input");
        check(r#"["a","12345"]"#, "a|12345");
        check(r#"["a","123456"]"#, "payload_too_large input[1]");
        check(r#""123456""#, "payload_too_large input");
    }

    #[test]
    fn an_api_may_allow_empty_texts() {
        let check = |input: &str, is_nothing: bool| {
            let texts = crate::parse::<Request>(format!("{{\"input\":{input}}}").as_bytes()).unwrap().input;
            assert_eq!(texts.check_sizes("input", &Limits::default()), Ok(()), "{input}");
            assert_eq!(texts.is_nothing(), is_nothing, "{input}");
        };
        check(r#""""#, true);
        check("[]", true);
        check(r#"[""]"#, false);
        check(r#"["","a"]"#, false);
        check(r#""a""#, false);
    }

    #[test]
    fn texts_beyond_the_maximum_are_counted_but_not_kept() {
        let body = format!("{{\"input\":[{}\"a\"]}}", "\"a\",".repeat(INPUTS_MAX));
        let texts = crate::parse::<Request>(body.as_bytes()).unwrap().input;
        assert_eq!((texts.count, texts.kept.len()), (INPUTS_MAX + 1, INPUTS_MAX));
        let limits = Limits { embedding_inputs_max: INPUTS_MAX, ..Limits::default() };
        assert_eq!(texts.check("input", &limits).unwrap_err().code, ErrorCode::BatchTooLarge);
    }
}
