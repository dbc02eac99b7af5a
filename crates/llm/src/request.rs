//! The fields of a request that decide something. The rest of the body is passed on as it is: changes are made to its bytes.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use weir_api::{ChatRetrieval, SourcesAs};
use weir_translate::TokenUsage;

use crate::shortened::Shortened;
use crate::{Api, LlmError};

/// The fields; those that are not named here are skipped. A field that is given twice is an error: servers differ in which one counts.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    stream: Option<bool>,
    #[serde(borrow, default, deserialize_with = "raw_value")]
    stream_options: Option<&'a RawValue>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    n: Option<u64>,
    best_of: Option<u64>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    weir: Option<&'a RawValue>,
}

/// A request whose fields were read.
pub(crate) struct Request {
    body: Bytes,
    /// The name of the model, as the caller sent it.
    pub(crate) model: String,
    /// The bytes of the value of `model`.
    model_at: Range<usize>,
    pub(crate) is_stream: bool,
    stream_options: Option<(Range<usize>, Map<String, Value>)>,
    pub(crate) metadata: Map<String, Value>,
    /// Upper bounds of the tokens of a completion, if the caller set them.
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    /// How many completions are asked for.
    choices: u64,
    /// The field `weir`, which is for the gateway.
    weir: Option<Range<usize>>,
}

/// What a caller asks for.
pub(crate) enum Asked {
    /// Sources of a collection.
    Retrieval(Box<ChatRetrieval>),
    /// Another form of the sources of the route.
    SourcesAs(SourcesAs),
}

#[derive(Deserialize)]
struct FormAlone {
    sources_as: SourcesAs,
}

/// Bytes of a prompt per token, for the estimate before the provider has counted: common for English text in JSON.
const BYTES_PER_TOKEN: u64 = 4;
/// Tokens that are reserved for a completion without a limit.
pub(crate) const COMPLETION_TOKENS_DEFAULT: u64 = 1_024;
/// Most completions that a request may ask for, for the reservation.
const CHOICES_MAX: u64 = 128;

/// Bytes of a body from which it is read without its long strings.
const SHORTENED_FROM: usize = 4 * 1024;

impl Request {
    /// Reads the fields.
    ///
    /// # Errors
    /// `Json`, `Utf8`, `Invalid`.
    pub(crate) fn read(body: Bytes) -> Result<Request, LlmError> {
        if body.is_empty() {
            return Err(LlmError::Json("it is empty, and must be a JSON object".to_owned()));
        }
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(LlmError::Json("it must be a JSON object".to_owned()));
        }
        if body.len() >= SHORTENED_FROM
            && let Some(copy) = Shortened::of(&body)
            && let Ok(fields) = serde_json::from_slice::<Fields<'_>>(&copy.json)
        {
            return Request::of(&body, &fields, |raw| copy.original(range_of(&copy.json, raw)));
        }
        // also for the error of a long one, which tells the place
        let fields = serde_json::from_slice(&body).map_err(|error| match std::str::from_utf8(&body) {
            Ok(_) => wrong_type(&body).unwrap_or_else(|| LlmError::Json(error.to_string())),
            Err(invalid) => LlmError::Utf8(invalid.valid_up_to()),
        })?;
        Request::of(&body, &fields, |raw| range_of(&body, raw))
    }

    /// Reads the values that stand in the body at `place`.
    fn of(
        body: &Bytes,
        fields: &Fields<'_>,
        place: impl Fn(&RawValue) -> Range<usize>,
    ) -> Result<Request, LlmError> {
        let Some(model_at) = fields.model.map(&place) else {
            let reason = "is missing: name the model".to_owned();
            return Err(LlmError::Invalid { field: "model".to_owned(), reason });
        };
        let Ok(model) = serde_json::from_slice(&body[model_at.clone()]) else {
            let reason = "must be a text: the name of a model".to_owned();
            return Err(LlmError::Invalid { field: "model".to_owned(), reason });
        };
        let is_stream = fields.stream.unwrap_or_default();
        let stream_options = match fields.stream_options.map(&place) {
            None => None,
            Some(range) => {
                let options: Option<Map<String, Value>> = serde_json::from_slice(&body[range.clone()])
                    .map_err(|_| LlmError::Invalid {
                        field: "stream_options".to_owned(),
                        reason: "must be an object".to_owned(),
                    })?;
                Some((range, options))
            }
        };
        let has_options = matches!(stream_options, Some((_, Some(_))));
        if has_options && !is_stream {
            let reason = "is only for streams: send `\"stream\": true`, or leave it out".to_owned();
            return Err(LlmError::Invalid { field: "stream_options".to_owned(), reason });
        }
        let metadata = fields.metadata.map(|raw| read_field("metadata", &body[place(raw)])).transpose()?;
        let metadata = match metadata {
            Some(Value::Object(metadata)) => metadata,
            Some(_) | None => Map::new(),
        };
        Ok(Request {
            model,
            model_at,
            is_stream,
            stream_options: stream_options.map(|(range, options)| (range, options.unwrap_or_default())),
            metadata,
            weir: fields.weir.map(&place),
            max_tokens: fields.max_tokens,
            max_completion_tokens: fields.max_completion_tokens,
            max_output_tokens: fields.max_output_tokens,
            choices: fields
                .n
                .max(fields.best_of)
                .unwrap_or(1)
                .clamp(1, CHOICES_MAX)
                .saturating_mul(prompts(fields.prompt)),
            body: body.clone(),
        })
    }

    /// What the caller asks for in the field `weir`.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn asked(&self) -> Result<Option<Asked>, LlmError> {
        let Some(range) = &self.weir else { return Ok(None) };
        let value = &self.body[range.clone()];
        // only a form that is alone in its object is read as such, for errors that name the missing collection
        if let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(value)
            && fields.len() == 1
            && fields.contains_key("sources_as")
        {
            let FormAlone { sources_as } = read_field("weir", value)?;
            return Ok(Some(Asked::SourcesAs(sources_as)));
        }
        Ok(Some(Asked::Retrieval(Box::new(read_field("weir", value)?))))
    }

    /// All of the body.
    ///
    /// # Errors
    /// `Json`.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, LlmError> {
        serde_json::from_slice(&self.body).map_err(|error| LlmError::Json(error.to_string()))
    }

    /// The body as the caller sent it.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether the caller asked for a chunk with the usage.
    pub(crate) fn includes_usage(&self) -> bool {
        let options = self.stream_options.as_ref();
        options.is_some_and(|(_, options)| options.get("include_usage") == Some(&Value::Bool(true)))
    }

    /// Estimated tokens of the prompt.
    pub(crate) fn prompt_tokens(&self) -> u64 {
        self.body.len() as u64 / BYTES_PER_TOKEN + 1
    }

    /// Tokens to reserve: those of the prompt, and the maximum of the completion, which is `open` where the field of the API that limits it is
    /// not given. Fields of other APIs do not limit it: providers ignore them.
    pub(crate) fn usage_max(&self, api: Api, open: u64) -> TokenUsage {
        let limit = match api {
            Api::ChatCompletions => self.max_completion_tokens.or(self.max_tokens),
            Api::Completions | Api::Messages | Api::CountTokens => self.max_tokens,
            Api::Responses => self.max_output_tokens,
        };
        let completion = limit.unwrap_or(open).saturating_mul(self.choices);
        TokenUsage { prompt: self.prompt_tokens(), completion, ..TokenUsage::default() }
    }

    /// The body with another name of the model, and with the usage asked for if `adds_usage`. Without a change, the caller's bytes.
    pub(crate) fn rendered(&self, model: &str, adds_usage: bool) -> Bytes {
        let mut edits: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
        if model != self.model {
            edits.push((self.model_at.clone(), json!(model).to_string().into_bytes()));
        }
        if adds_usage && !self.includes_usage() {
            match &self.stream_options {
                Some((range, options)) => {
                    let mut options = options.clone();
                    options.insert("include_usage".to_owned(), Value::Bool(true));
                    edits.push((range.clone(), Value::Object(options).to_string().into_bytes()));
                }
                None => {
                    let end = memchr::memrchr(b'}', &self.body).unwrap_or(self.body.len());
                    edits.push((end..end, br#","stream_options":{"include_usage":true}"#.to_vec()));
                }
            }
        }
        if edits.is_empty() {
            return self.body.clone();
        }
        edits.sort_by_key(|(range, _)| range.start);
        let mut rendered = Vec::with_capacity(self.body.len() + 64);
        let mut at = 0;
        for (range, bytes) in edits {
            rendered.extend_from_slice(&self.body[at..range.start]);
            rendered.extend_from_slice(&bytes);
            at = range.end;
        }
        rendered.extend_from_slice(&self.body[at..]);
        rendered.into()
    }
}

/// A value as it stands there, also `null`.
fn raw_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The error of the first field of a wrong type, for a body that can't be read as [`Fields`].
fn wrong_type(body: &[u8]) -> Option<LlmError> {
    let fields: HashMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    let value = |name: &str| fields.get(name).map(|raw| raw.get());
    let invalid = |field: &str, reason: &str| {
        Some(LlmError::Invalid { field: field.to_owned(), reason: reason.to_owned() })
    };
    if value("stream").is_some_and(|value| serde_json::from_str::<Option<bool>>(value).is_err()) {
        return invalid("stream", "must be true or false");
    }
    let numbers = ["max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of"];
    let is_wrong = |value: &str| serde_json::from_str::<Option<u64>>(value).is_err();
    let wrong = numbers.into_iter().find(|name| value(name).is_some_and(is_wrong))?;
    invalid(wrong, "must be a whole number, 0 or more")
}

/// Reads the value of a field.
///
/// # Errors
/// `Invalid`.
fn read_field<T: DeserializeOwned>(field: &str, value: &[u8]) -> Result<T, LlmError> {
    serde_json::from_slice(value).map_err(|error| {
        let text = error.to_string();
        // the place is counted within the field
        let reason = text.split(" at line ").next().unwrap_or_default();
        LlmError::Invalid { field: field.to_owned(), reason: format!("can't be read: {reason}") }
    })
}

/// How many prompts a completion has: a list of texts, or of lists of tokens, has several.
fn prompts(prompt: Option<&RawValue>) -> u64 {
    let list = prompt.and_then(|prompt| serde_json::from_str::<Vec<&RawValue>>(prompt.get()).ok());
    let parts = list.unwrap_or_default().into_iter().filter(|part| part.get().starts_with(['"', '[']));
    (parts.count() as u64).max(1)
}

/// Where a value that was read without a copy stands in the text.
fn range_of(text: &[u8], raw: &RawValue) -> Range<usize> {
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + raw.get().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Request, LlmError> {
        Request::read(Bytes::copy_from_slice(body.as_bytes()))
    }

    fn check(body: &str, model: &str, adds_usage: bool, expected: &str) {
        let rendered = read(body).unwrap().rendered(model, adds_usage);
        assert_eq!(std::str::from_utf8(&rendered).unwrap(), expected);
    }

    #[test]
    fn only_what_changes_is_changed() {
        let body = r#"{ "messages":[{"content":"\u00e9 \"model\":1}"}],"model" : "a" , "stream":true }"#;
        check(body, "a", false, body);
        check(body, "b\"c", false, &body.replace(r#""a""#, r#""b\"c""#));
        check(body, "a", true, &body.replace("true }", r#"true ,"stream_options":{"include_usage":true}}"#));
        let asked = r#"{"stream_options":{"include_usage":true},"stream":true,"model":"a"}"#;
        check(asked, "a", true, asked);
        let other = r#"{"stream_options":{"x":1},"stream":true,"model":"a"}"#;
        check(
            other,
            "bb",
            true,
            r#"{"stream_options":{"include_usage":true,"x":1},"stream":true,"model":"bb"}"#,
        );
        let null = other.replace(r#"{"x":1}"#, "null");
        check(&null, "a", false, &null);
        // a field that is given twice would be read differently by different servers
        check(&null, "a", true, asked);
    }

    #[test]
    fn fields_that_decide_something_are_checked() {
        let check = |body: &str, expected: &str| {
            let error = read(body).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("", "it is empty");
        check("[\"model\"]", "must be a JSON object");
        let invalid = Request::read(Bytes::from_static(b"{\"model\":\"m\xff\"}"));
        assert_eq!(invalid.err(), Some(LlmError::Utf8(11)));
        check("{", "EOF");
        check(r#"{"model":"m","stream":"yes"}"#, "`stream` must be true or false");
        check(r#"{"max_tokens":-5,"model":"m"}"#, "`max_tokens` must be a whole number");
        check(r#"{"max_tokens":9,"n":1.5,"model":"m"}"#, "`n` must be a whole number");
        check(r#"{"n":1,"n":-1,"model":"m"}"#, "`n` must be a whole number");
        check(r#"{"n":1,"n":2,"model":"m"}"#, "duplicate field `n`");
        check(r#"{"model":1}"#, "`model` must be a text");
        check("{}", "`model` is missing");
        check(r#"{"model":"a","model":"b"}"#, "duplicate field `model`");
        check(r#"{"model":"a","stream_options":{}}"#, "`stream_options` is only for streams");
        check(r#"{"model":"a","metadata":{"x":1e999}}"#, "`metadata` can't be read: number out of range");
    }

    #[test]
    fn a_long_body_is_read_as_without_the_copy() {
        // escapes that are cut out and one that is not, and a cut within a character
        let long = format!("\\u00e9{}\\u00e9{}", "\\n\\\"\\\\ ".repeat(1_000), "\u{e9}".repeat(1_000));
        let parts = |request: Result<Request, LlmError>| {
            request
                .map(|found| (found.model, found.model_at, found.stream_options, found.weir, found.metadata))
                .map_err(|error| error.to_string())
        };
        let whole = |body: &Bytes| {
            let fields = serde_json::from_slice(body).map_err(|error| LlmError::Json(error.to_string()))?;
            Request::of(body, &fields, |raw| range_of(body, raw))
        };
        let check = |fields: &str| {
            let body =
                Bytes::from(format!(r#"{{"messages":["{long}","model",{{"model":"{long}"}}],{fields}}}"#));
            let (found, expected) = (parts(Request::read(body.clone())), parts(whole(&body)));
            assert_eq!(found, expected, "{fields}");
            let copy = Shortened::of(&body);
            assert!(copy.is_none_or(|copy| copy.json.len() < body.len() / 10));
            found.is_ok()
        };
        assert!(check(r#""model":"a""#));
        assert!(check(&format!(r#""model":"{long}","metadata":{{"{long}":"{long}"}},"stream":true"#)));
        assert!(check(&format!(
            r#""weir":{{"text":"{long}"}},"model":"b","stream_options":{{"{long}":1}},"stream":true"#
        )));
        assert!(check(&format!(r#""x":"{long}","metadata":null,"model":"b","n":2"#)));
        for wrong in [
            r#""model":"a","model":"b""#,
            r#""model":"a\x""#,
            "\"model\":\"a\n\"",
            r#""model":"a"#,
            r#""x":"\"#,
        ] {
            assert!(!check(wrong));
            assert!(!check(&wrong.replace(r#":"a"#, &format!(r#":"{long}"#))));
        }
        let mut body = format!(r#"{{"model":"a","{long}?" :1}}"#).into_bytes();
        assert!(Request::read(body.clone().into()).is_ok());
        *body.iter_mut().find(|byte| **byte == b'?').unwrap() = 0xff;
        assert!(Request::read(body.into()).is_err(), "the name of a field is no UTF-8");
    }

    #[test]
    fn the_reservation_is_the_prompt_and_the_allowed_output() {
        let check = |api: Api, fields: &str, completion: u64| {
            let body = format!(r#"{{"model":"a"{fields}}}"#);
            assert_eq!(
                read(&body).unwrap().usage_max(api, 1_000).total(),
                body.len() as u64 / 4 + 1 + completion,
                "{fields}"
            );
        };
        check(Api::ChatCompletions, "", 1_000);
        check(Api::ChatCompletions, r#","n":2"#, 2_000);
        check(Api::ChatCompletions, r#","max_tokens":7"#, 7);
        check(Api::ChatCompletions, r#","max_tokens":7,"max_completion_tokens":5,"n":3"#, 15);
        check(Api::ChatCompletions, r#","max_output_tokens":9"#, 1_000);
        check(Api::Responses, r#","max_output_tokens":9,"max_tokens":1"#, 9);
        check(Api::Messages, r#","max_completion_tokens":5"#, 1_000);
        check(Api::Completions, r#","max_tokens":7,"max_completion_tokens":5"#, 7);
        check(Api::Completions, r#","max_tokens":7,"n":2,"best_of":3,"prompt":["a","b"]"#, 42);
        check(Api::Completions, r#","max_tokens":7,"prompt":[[1,2],[3]]"#, 14);
        check(Api::Completions, r#","max_tokens":7,"prompt":[1,2,3]"#, 7);
        check(Api::Completions, r#","max_tokens":7,"prompt":"[]""#, 7);
    }
}
