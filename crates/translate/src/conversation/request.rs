//! The fields of a request that decide something. The rest of the body is passed on as it is: changes are made to its bytes.

use std::ops::Range;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::Api;
use crate::json::{self, JsonError, Kind, Tape, folded};
use crate::{PromptSize, ServiceTier};

/// Fields that decide something. A server that takes names in any case would read another value than the gateway did.
const DECIDING: [&str; 20] = [
    "background",
    "best_of",
    "fallbacks",
    "input",
    "instructions",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "models",
    "n",
    "prompt",
    "service_tier",
    "stream",
    "stream_options",
    "system",
    "tools",
    "weir",
];

/// Names of fields of messages. Together with those that decide something, two of them may not differ in case alone within an object.
const OF_MESSAGES: [&str; 8] =
    ["arguments", "content", "function", "parts", "refusal", "role", "text", "tool_calls"];

/// A request whose fields were read.
pub struct Request {
    body: Bytes,
    /// The name of the model, as the caller sent it.
    pub model: String,
    /// The bytes of the value of `model`.
    model_at: Range<usize>,
    /// Whether the reply is streamed.
    pub is_stream: bool,
    stream_options: Option<StreamOptions>,
    /// The bytes of the value of `metadata`, which has many times their memory when it is read.
    metadata_at: Option<Range<usize>>,
    /// Upper bounds of the tokens of a completion, if the caller set them.
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    /// Tokens of reasoning that the caller sets, which some servers count beside the limit of the completion.
    thinking_tokens: u64,
    /// Whether the caller says how much the model thinks.
    pub sets_thinking: bool,
    /// How many completions are asked for.
    choices: u64,
    /// How large the prompt is.
    pub size: PromptSize,
    /// The service tier that is asked for.
    pub tier: Option<ServiceTier>,
    /// The field `weir`, which is for the gateway.
    weir: Option<Range<usize>>,
}

/// Why a request can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// The body is no JSON object.
    #[error("{0}")]
    Json(String),
    /// The body is no UTF-8 from this byte on.
    #[error("byte {0} is the first invalid byte of UTF-8")]
    Utf8(usize),
    /// A field that decides something is missing or has a wrong value.
    #[error("`{field}` {reason}")]
    Field {
        /// The field.
        field: String,
        /// The problem and its remedy.
        reason: String,
    },
}

/// Longest value of `metadata`: several times what any provider takes.
const METADATA_BYTES_MAX: usize = 64 << 10;
/// Longest value of `stream_options`.
const OPTIONS_BYTES_MAX: usize = 1024;

/// Tokens that are reserved for a completion without a limit.
pub const COMPLETION_TOKENS_DEFAULT: u64 = 1_024;

impl Request {
    /// Reads the fields.
    ///
    /// # Errors
    /// `Json`, `Utf8`, `Invalid`.
    pub fn read(body: Bytes) -> Result<Request, InvalidRequest> {
        if body.is_empty() {
            return Err(InvalidRequest::Json("it is empty, and must be a JSON object".to_owned()));
        }
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(InvalidRequest::Json("it must be a JSON object".to_owned()));
        }
        let tape = Tape::parse(&body).map_err(|error| not_json(&body, error))?;
        let fields = tape.root(&body);
        check_keys(&tape, fields)?;
        let Some(model) = fields.get("model") else {
            return Err(invalid("model", "is missing: name the model"));
        };
        let Some(name) = model.as_str() else {
            return Err(invalid("model", "must be a text: the name of a model"));
        };
        let is_stream = match fields.get("stream").filter(|value| !value.is_null()) {
            Some(value) => value.as_bool().ok_or_else(|| invalid("stream", "must be true or false"))?,
            None => false,
        };
        let is_asked_for = |value: json::Value<'_>| !value.is_null() && value.as_bool() != Some(false);
        if fields.get("background").is_some_and(is_asked_for) {
            let reason =
                "is set, and the gateway has no route by which the answer could be fetched: leave it out";
            return Err(invalid("background", reason));
        }
        for name in OTHER_MODELS {
            if fields.get(name).is_some_and(is_asked_for) {
                let reason = "names models past the limits and prices of the key: leave it out, and use a route with several targets";
                return Err(invalid(name, reason));
            }
        }
        let options = StreamOptions::read(fields)?;
        let has_options = fields.get("stream_options").is_some_and(|options| !options.is_null());
        if has_options && !is_stream {
            let reason = "is only for streams: send `\"stream\": true`, or leave it out";
            return Err(invalid("stream_options", reason));
        }
        let metadata = fields.get("metadata");
        metadata
            .map(|value| bounded("metadata", value, METADATA_BYTES_MAX).and_then(read_metadata))
            .transpose()?;
        let choices = number(fields, "n")?.max(number(fields, "best_of")?).unwrap_or(1);
        Ok(Request {
            model: name.into_owned(),
            model_at: model.range(),
            is_stream,
            stream_options: options,
            metadata_at: metadata.map(json::Value::range),
            weir: fields.get("weir").map(json::Value::range),
            max_tokens: number(fields, "max_tokens")?,
            max_completion_tokens: number(fields, "max_completion_tokens")?,
            max_output_tokens: number(fields, "max_output_tokens")?,
            thinking_tokens: thinking_tokens(fields),
            sets_thinking: fields.get("thinking").or(fields.get("reasoning_effort")).is_some(),
            size: PromptSize::of(fields),
            tier: ServiceTier::of(fields.get("service_tier")),
            choices: choices.max(1).saturating_mul(prompts(fields.get("prompt"))),
            body: body.clone(),
        })
    }

    /// The field `metadata`; empty unless it is an object.
    pub fn metadata(&self) -> Map<String, Value> {
        let bytes = self.metadata_at.clone().map(|range| &self.body[range]);
        bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
    }

    /// The value of the field `weir`, which is for the gateway.
    pub fn weir(&self) -> Option<&[u8]> {
        self.weir.clone().map(|range| &self.body[range])
    }

    /// All of the body.
    ///
    /// # Errors
    /// `Json`.
    pub fn object(&self) -> Result<Map<String, Value>, InvalidRequest> {
        serde_json::from_slice(&self.body).map_err(|error| InvalidRequest::Json(error.to_string()))
    }

    /// The body as the caller sent it.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether the caller asked for a chunk with the usage.
    pub fn includes_usage(&self) -> bool {
        let options = self.stream_options.as_ref();
        options.is_some_and(|options| options.fields.get(INCLUDE_USAGE) == Some(&Value::Bool(true)))
    }

    /// Estimated tokens of the prompt.
    pub fn prompt_tokens(&self) -> u64 {
        self.size.tokens()
    }

    /// The most tokens of all completions: where the fields of the API that limit one are not given, `open` for each. Of two limits the larger
    /// counts, because servers differ in which one they read. Fields of other APIs do not limit it: providers ignore them.
    pub fn completion_max(&self, api: Api, open: u64) -> u64 {
        let limit = match api {
            Api::ChatCompletions => self.max_completion_tokens.max(self.max_tokens),
            Api::Completions | Api::Messages | Api::CountTokens => self.max_tokens,
            Api::Responses => self.max_output_tokens,
            Api::Embeddings => return 0,
        };
        // Anthropic's limit includes the reasoning
        let beside = if api == Api::Messages { 0 } else { self.thinking_tokens };
        // some servers take 0 as none
        limit.filter(|&limit| limit > 0).unwrap_or(open).saturating_add(beside).saturating_mul(self.choices)
    }

    /// The body with another name of the model, and with the usage asked for or not. Without a change, the caller's bytes.
    pub fn rendered(&self, model: &str, asks_for_usage: bool) -> Bytes {
        let mut edits: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
        if model != self.model {
            edits.push((self.model_at.clone(), Value::from(model).to_string().into_bytes()));
        }
        match &self.stream_options {
            _ if self.includes_usage() == asks_for_usage => {}
            None => {
                let end = memchr::memrchr(b'}', &self.body).unwrap_or(self.body.len());
                edits.push((end..end, br#","stream_options":{"include_usage":true}"#.to_vec()));
            }
            Some(options) if !asks_for_usage && options.fields.len() == 1 => {
                edits.push((options.entry_at.clone(), Vec::new()));
            }
            Some(StreamOptions { at, fields, .. }) => {
                let mut fields = fields.clone();
                match asks_for_usage {
                    true => drop(fields.insert(INCLUDE_USAGE.to_owned(), Value::Bool(true))),
                    false => drop(fields.remove(INCLUDE_USAGE)),
                }
                edits.push((at.clone(), Value::Object(fields).to_string().into_bytes()));
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

/// The error of a body that is not read: with the words and the place of serde_json, unless it would take the body.
fn not_json(body: &[u8], error: JsonError) -> InvalidRequest {
    match (error, serde_json::from_slice::<IgnoredAny>(body)) {
        (JsonError::Utf8(at), _) => InvalidRequest::Utf8(at),
        (_, Err(reason)) => InvalidRequest::Json(reason.to_string()),
        (error, Ok(_)) => InvalidRequest::Json(error.to_string()),
    }
}

/// Refuses names that servers read differently: those that are given twice, and those that are a deciding one but for their case.
fn check_keys(tape: &Tape, fields: json::Value<'_>) -> Result<(), InvalidRequest> {
    let known = |name: &str| DECIDING.contains(&name) || OF_MESSAGES.contains(&name);
    if let Some(name) = tape.repeated_key(fields.document(), known) {
        return Err(invalid(
            &name,
            "is given twice in one object, and servers differ in which one counts: send it once",
        ));
    }
    for (key, _) in fields.entries() {
        let name = key.string();
        let folded = folded(&name);
        if folded != name && DECIDING.contains(&&*folded) {
            let reason = format!("is read as `{folded}` by servers that ignore case: write `{folded}`");
            return Err(invalid(&name, &reason));
        }
    }
    Ok(())
}

fn invalid(field: &str, reason: &str) -> InvalidRequest {
    InvalidRequest::Field { field: field.to_owned(), reason: reason.to_owned() }
}

fn number(fields: json::Value<'_>, name: &str) -> Result<Option<u64>, InvalidRequest> {
    match fields.get(name).filter(|value| !value.is_null()) {
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(invalid(name, "must be a whole number, 0 or more")),
        },
        None => Ok(None),
    }
}

/// `stream_options`, and where they stand; `null` is as if there were none.
struct StreamOptions {
    /// With their name and a comma.
    entry_at: Range<usize>,
    at: Range<usize>,
    fields: Map<String, Value>,
}

/// Fields by which OpenRouter and LiteLLM choose another model than `model`.
const OTHER_MODELS: [&str; 2] = ["models", "fallbacks"];

const INCLUDE_USAGE: &str = "include_usage";

impl StreamOptions {
    fn read(request: json::Value<'_>) -> Result<Option<StreamOptions>, InvalidRequest> {
        let name = "stream_options";
        let Some((value, entry_at)) = request.get(name).zip(request.entry_range(name)) else {
            return Ok(None);
        };
        let fields: Option<Map<String, Value>> =
            serde_json::from_slice(bounded(name, value, OPTIONS_BYTES_MAX)?.raw())
                .map_err(|_| invalid(name, "must be an object"))?;
        Ok(Some(StreamOptions { entry_at, at: value.range(), fields: fields.unwrap_or_default() }))
    }
}

/// A value of at most this many bytes.
fn bounded<'a>(
    field: &str,
    value: json::Value<'a>,
    bytes_max: usize,
) -> Result<json::Value<'a>, InvalidRequest> {
    match value.raw().len() {
        bytes if bytes > bytes_max => {
            Err(invalid(field, &format!("has {bytes} bytes; it may have {bytes_max}: send less in it")))
        }
        _ => Ok(value),
    }
}

/// Refuses a value of `metadata` that can't be read.
fn read_metadata(value: json::Value<'_>) -> Result<(), InvalidRequest> {
    serde_json::from_slice::<Value>(value.raw()).map(drop).map_err(|error| {
        let text = error.to_string();
        // the place is counted within the field
        let reason = text.split(" at line ").next().unwrap_or_default();
        invalid("metadata", &format!("can't be read: {reason}"))
    })
}

/// Tokens of reasoning that a request sets, in the fields of Anthropic, OpenRouter and Alibaba.
fn thinking_tokens(fields: json::Value<'_>) -> u64 {
    let paths: [&[&str]; 3] =
        [&["thinking", "budget_tokens"], &["reasoning", "max_tokens"], &["thinking_budget"]];
    paths.iter().filter_map(|path| fields.at(path)?.as_u64()).max().unwrap_or(0)
}

/// How many prompts a completion has: a list of texts, or of lists of tokens, has several.
fn prompts(prompt: Option<json::Value<'_>>) -> u64 {
    let parts = prompt.into_iter().flat_map(json::Value::items);
    (parts.filter(|part| part.is_string() || part.kind() == Kind::Array).count() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Request, InvalidRequest> {
        Request::read(Bytes::copy_from_slice(body.as_bytes()))
    }

    fn check(body: &str, model: &str, asks_for_usage: bool, expected: &str) {
        let rendered = read(body).unwrap().rendered(model, asks_for_usage);
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
        check(asked, "a", false, r#"{"stream":true,"model":"a"}"#);
        let both = asked.replace("true}", r#"true,"x":1}"#);
        check(&both, "a", false, other);
        let last = r#"{"stream":true,"model":"a","stream_options":{"include_usage":true}}"#;
        check(last, "b", false, r#"{"stream":true,"model":"b"}"#);
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
        assert_eq!(invalid.err(), Some(InvalidRequest::Utf8(11)));
        check("{", "EOF");
        check(r#"{"model":"m","stream":"yes"}"#, "`stream` must be true or false");
        check(r#"{"max_tokens":-5,"model":"m"}"#, "`max_tokens` must be a whole number");
        check(r#"{"max_tokens":9,"n":1.5,"model":"m"}"#, "`n` must be a whole number");
        check(r#"{"n":1,"n":2,"model":"m"}"#, "`n` is given twice");
        check(r#"{"model":"m","messages":[{"content":"a","c\u006fntent":"b"}]}"#, "`content` is given twice");
        check(r#"{"model":"m","messages":[{"content":"a","Content":"b"}]}"#, "`Content` is given twice");
        check(r#"{"model":"m","Model":"n"}"#, "`Model` is given twice");
        check(r#"{"model":"m","Max_Tokens":5}"#, "`Max_Tokens` is read as `max_tokens`");
        check(r#"{"model":"m","me\u017f\u017fages":[]}"#, "`meſſages` is read as `messages`");
        assert!(read(r#"{"model":"m","tools":[{"a":1,"A":2}]}"#).is_ok());
        check(r#"{"model":1}"#, "`model` must be a text");
        check("{}", "`model` is missing");
        check(r#"{"model":"a","model":"b"}"#, "`model` is given twice");
        check(r#"{"model":"a","models":["b"]}"#, "`models` names models past the limits");
        check(r#"{"model":"a","fallbacks":[{"model":"b"}]}"#, "`fallbacks` names models past");
        check(r#"{"model":"a","stream_options":{}}"#, "`stream_options` is only for streams");
        check(r#"{"model":"a","metadata":{"x":1e999}}"#, "`metadata` can't be read: number out of range");
        let many = r#"{"":0},"#.repeat(10_000);
        check(&format!(r#"{{"model":"a","metadata":{{"a":[{many}1]}}}}"#), "`metadata` has 70009 bytes");
        let options = format!(r#"{{"model":"a","stream":true,"stream_options":{{"a":[{many}1]}}}}"#);
        check(&options, "`stream_options` has 70009 bytes");
    }

    #[test]
    fn the_reservation_is_the_prompt_and_the_largest_allowed_output() {
        let check = |api: Api, fields: &str, completion: u64| {
            let body = format!(r#"{{"model":"a"{fields}}}"#);
            assert_eq!(
                (read(&body).unwrap().completion_max(api, 1_000), read(&body).unwrap().prompt_tokens()),
                (completion, body.len() as u64 / 4 + 1),
                "{fields}"
            );
        };
        check(Api::ChatCompletions, "", 1_000);
        check(Api::ChatCompletions, r#","n":2"#, 2_000);
        check(Api::ChatCompletions, r#","max_tokens":7"#, 7);
        check(Api::ChatCompletions, r#","max_tokens":7,"max_completion_tokens":5,"n":3"#, 21);
        check(Api::ChatCompletions, r#","max_tokens":5,"max_completion_tokens":7,"n":300"#, 2_100);
        check(Api::ChatCompletions, r#","thinking":{"type":"enabled","budget_tokens":50}"#, 1_050);
        check(Api::ChatCompletions, r#","max_tokens":7,"reasoning":{"max_tokens":50}"#, 57);
        check(Api::Messages, r#","max_tokens":70,"thinking":{"budget_tokens":50}"#, 70);
        check(Api::ChatCompletions, r#","max_output_tokens":9"#, 1_000);
        check(Api::Responses, r#","max_output_tokens":9,"max_tokens":1"#, 9);
        check(Api::Messages, r#","max_completion_tokens":5"#, 1_000);
        check(Api::Completions, r#","max_tokens":7,"max_completion_tokens":5"#, 7);
        check(Api::Completions, r#","max_tokens":7,"n":2,"best_of":3,"prompt":["a","b"]"#, 42);
        check(Api::Completions, r#","max_tokens":7,"prompt":[[1,2],[3]]"#, 14);
        check(Api::Completions, r#","max_tokens":7,"prompt":[1,2,3]"#, 7);
        check(Api::Completions, r#","max_tokens":7,"prompt":"[]""#, 7);
        check(Api::Embeddings, r#","max_tokens":7,"n":2"#, 0);
    }
}
