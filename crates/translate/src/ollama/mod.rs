//! Ollama's `/api/chat` and `/api/generate` for callers, from chat completions and completions: what Ollama's clients use any model through.
//!
//! [`request`] is one direction, [`Reply`] and [`OllamaStream`] are the other. Fields without a counterpart are refused by name, except those
//! that only say how a local model is loaded.

mod completion;
mod reply;
mod request;
mod stream;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::{TokenUsage, TranslateError, write_json};

pub use reply::Reply;
pub use request::{Request, request};
pub use stream::OllamaStream;

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `/api/chat`.
    Chat,
    /// `/api/generate`.
    Generate,
}

/// When a line is written.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The time, in the format of RFC 3339.
    pub time: String,
    /// Since the request.
    pub elapsed: Duration,
}

/// Translates the body of a reply with an error status. The message is kept.
pub fn error(status: u16, body: &[u8]) -> Vec<u8> {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    error_line(&super::error::message(&json["error"], status, body))
}

/// The error that ends a stream.
pub fn error_line(message: &str) -> Vec<u8> {
    let mut line = write_json(&json!({"error": message}));
    line.push(b'\n');
    line
}

/// Fields of the gateway beside the text of a reply.
#[derive(Serialize, Deserialize, Default)]
struct Extras {
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    citations: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weir: Option<Box<RawValue>>,
}

/// One line of a reply, or all of it.
#[derive(Serialize, Default)]
struct Line<'a> {
    model: &'a str,
    created_at: &'a str,
    /// Of a chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    /// Of a generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a RawValue>,
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    done_reason: Option<&'a str>,
    #[serde(flatten)]
    metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    citations: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weir: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [ToolCall<'a>],
}

#[derive(Serialize)]
struct ToolCall<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    index: usize,
    name: &'a str,
    arguments: Box<RawValue>,
}

/// Counts and nanoseconds.
#[derive(Serialize)]
struct Metrics {
    total_duration: u64,
    load_duration: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_eval_count: Option<u64>,
    prompt_eval_duration: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    eval_count: Option<u64>,
    eval_duration: u64,
}

impl Metrics {
    /// `first`: from the request to the first token; zero for a whole reply, where it is not known.
    fn new(usage: Option<TokenUsage>, first: Duration, total: Duration) -> Metrics {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Metrics {
            total_duration: nanos(total),
            load_duration: 0,
            prompt_eval_count: usage.map(|usage| usage.prompt),
            prompt_eval_duration: nanos(first),
            eval_count: usage.map(|usage| usage.completion),
            // clients divide by it
            eval_duration: nanos(total.saturating_sub(first)).max(1),
        }
    }
}

/// Ollama's word for a `finish_reason`.
fn done_reason(finish_reason: &str) -> &str {
    match finish_reason {
        "tool_calls" | "function_call" => "stop",
        "max_tokens" | "model_length" => "length",
        other => other,
    }
}

/// Line ends; they also separate the values of some arguments.
const LINE_ENDS: [char; 2] = ['\n', '\r'];

/// The arguments of a call as an object in one line, with the order of their keys; an empty one where the limit of tokens, as `reason` says, has
/// cut them off.
fn arguments(json: &str, reason: Option<&str>) -> Result<Box<RawValue>, TranslateError> {
    match whole_arguments(json) {
        Err(_) if reason.is_some_and(|reason| done_reason(reason) == "length") => whole_arguments("{}"),
        arguments => arguments,
    }
}

fn whole_arguments(json: &str) -> Result<Box<RawValue>, TranslateError> {
    let json = if json.trim().is_empty() { "{}" } else { json.trim() };
    let invalid = |reason: String| TranslateError::Reply(format!("the arguments of a call {reason}"));
    let read = |json: &str| {
        serde_json::from_str::<Box<RawValue>>(json).map_err(|error| invalid(format!("are not JSON: {error}")))
    };
    let raw = read(json)?;
    if !raw.get().starts_with('{') {
        return Err(invalid("are not an object".to_owned()));
    }
    if raw.get().contains(LINE_ENDS) { read(&raw.get().replace(LINE_ENDS, " ")) } else { Ok(raw) }
}
