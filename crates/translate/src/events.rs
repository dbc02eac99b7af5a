//! Facts of a provider's event or whole reply beside its text: usage, errors, the end.

use crate::json::{Tape, Value};
use crate::{Cause, TokenUsage};

/// The facts of an event of any API.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EventFacts {
    /// The tokens counted in it.
    pub usage: Option<TokenUsage>,
    /// Whether it completes the stream. Chat completions end by `[DONE]`, which is no JSON.
    pub is_last: bool,
    /// An error, by which a provider ends a stream early.
    pub error: Option<ProviderError>,
}

/// An error that a provider reports within a reply of success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    /// Its message.
    pub message: String,
    /// Its cause.
    pub cause: Cause,
    /// The tokens that the provider counted for it.
    pub usage: Option<TokenUsage>,
    /// The event or reply, unless it is longer than an error is; then the message.
    pub body: Vec<u8>,
}

/// Longest event or reply that is kept with its error, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

impl ProviderError {
    /// The error with this message, of an event or of a reply of success.
    pub fn new(message: &str, body: &[u8]) -> ProviderError {
        let usage = Tape::parse(body).ok().and_then(|tape| TokenUsage::of(tape.root(body)));
        let kept = if body.len() <= BODY_BYTES_MAX { body } else { message.as_bytes() };
        ProviderError { message: message.to_owned(), cause: Cause::of(200, body), usage, body: kept.to_vec() }
    }
}

impl EventFacts {
    /// Reads an event that was sent under a name, which is empty where there is none.
    pub fn named(name: &[u8], event: Value<'_>) -> EventFacts {
        let facts = EventFacts::of(event);
        let is_error = facts.error.is_none() && (name == b"error" || is_notice(event));
        let error =
            if is_error { Some(ProviderError::new(&message(event, None), event.raw())) } else { facts.error };
        EventFacts { error, ..facts }
    }

    /// Reads an event or a whole reply.
    pub fn of(event: Value<'_>) -> EventFacts {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_last = matches!(
            &*kind,
            "message_stop" | "response.completed" | "response.incomplete" | "response.failed"
        );
        EventFacts { usage: TokenUsage::of(event), is_last, error: error(event, &kind) }
    }
}

/// Whether an event says no more than that a reply begins: in place of one that goes on so, another may still be asked for.
pub fn is_preface(event: Value<'_>) -> bool {
    const KINDS: [&str; 5] =
        ["response.created", "response.queued", "response.in_progress", "message_start", "ping"];
    if let Some(kind) = event.get("type") {
        return KINDS.iter().any(|preface| kind.is(preface));
    }
    // a chunk with the role alone, or without a choice
    let is_nothing = |value: Value<'_>| value.is_null() || value.is("");
    let is_empty = |choice: Value<'_>| {
        choice.get("finish_reason").is_none_or(Value::is_null)
            && choice.get("delta").is_some_and(|delta| {
                delta.entries().all(|(name, value)| name.is("role") || is_nothing(value))
            })
    };
    let choices = event.get("choices");
    choices.is_some_and(|choices| choices.items().all(is_empty))
}

/// The error of an event or of a reply with status 200, if it is one: an `error` that is set, or one of the forms that providers have for it.
fn error(reply: Value<'_>, kind: &str) -> Option<ProviderError> {
    let is_set = |error: &Value<'_>| !error.is_null();
    let choices = || reply.get("choices").into_iter().flat_map(Value::items);
    let of_choices = || choices().find_map(|choice| choice.get("error").filter(is_set));
    let error = reply.get("error").filter(is_set);
    let error = error.or_else(|| reply.at(&["response", "error"]).filter(is_set)).or_else(of_choices);
    // Groq's, of a stream that it ends early
    let error = error.or_else(|| reply.at(&["x_groq", "error"]).filter(is_set));
    let has_failed = [&["status"][..], &["response", "status"]].into_iter();
    let mut has_failed = has_failed.filter_map(|path| reply.at(path)).map(|status| status.is("failed"));
    let object = reply.get("object").and_then(Value::as_str);
    let is_error = error.is_some()
        || matches!(kind, "error" | "response.failed")
        || object.as_deref() == Some("error")
        || has_failed.any(|has_failed| has_failed);
    if !is_error {
        let failed = choices().filter_map(|choice| choice.get("finish_reason")).find_map(failure)?;
        return Some(ProviderError::new(&format!("the provider ended the reply: {failed}"), reply.raw()));
    }
    Some(ProviderError::new(&message(reply, error), reply.raw()))
}

/// The message of an error, which is `error` or the whole reply.
fn message(reply: Value<'_>, error: Option<Value<'_>>) -> String {
    let of_error = error.and_then(|error| error.get("message").or(Some(error)));
    let message = of_error.or_else(|| reply.get("message")).or_else(|| reply.get("detail"));
    let message = message.and_then(Value::as_str).filter(|message| !message.is_empty());
    message.map_or_else(|| "without a message".to_owned(), String::from)
}

/// Whether an event says something that is no part of an answer in any API, as servers report errors of their own.
fn is_notice(event: Value<'_>) -> bool {
    let has = |name: &str| event.get(name).is_some_and(|value| !value.is_null());
    (has("detail") || has("message") || has("errors"))
        && !["choices", "type", "object", "usage"].iter().any(|name| has(name))
}

/// Reasons of a finished choice that say that the provider failed: OpenRouter's, and DeepSeek's.
pub(crate) const FAILURES: [&str; 2] = ["error", "insufficient_system_resource"];

fn failure(reason: Value<'_>) -> Option<&'static str> {
    FAILURES.into_iter().find(|failure| reason.is(failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(event: &str) -> EventFacts {
        let tape = Tape::parse(event.as_bytes()).unwrap();
        EventFacts::of(tape.root(event.as_bytes()))
    }

    #[test]
    fn usage_is_read_where_providers_count_and_not_in_texts() {
        let check = |event: &str, expected: Option<(u64, u64)>| {
            assert_eq!(facts(event).usage.map(|usage| (usage.prompt, usage.completion)), expected, "{event}");
        };
        let usage = r#"{"prompt_tokens":3,"completion_tokens":5}"#;
        check(&format!(r#"{{"choices":[],"usage":{usage}}}"#), Some((3, 5)));
        check(&format!(r#"{{"choices":[{{"delta":{{}},"usage":{usage}}}]}}"#), Some((3, 5)));
        check(
            r#"{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}"#,
            Some((3, 1)),
        );
        check(
            r#"{"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":5}}}"#,
            Some((3, 5)),
        );
        check(r#"{"choices":[],"usage":null}"#, None);
        check(&format!(r#"{{"choices":[{{"delta":{{"usage":{usage}}}}}]}}"#), None);
    }

    #[test]
    fn an_event_may_be_an_error_by_its_name_or_by_what_it_lacks() {
        let error = |name: &str, event: &str| {
            let tape = Tape::parse(event.as_bytes()).unwrap();
            EventFacts::named(name.as_bytes(), tape.root(event.as_bytes())).error.map(|error| error.message)
        };
        assert_eq!(error("error", r#"{"message":"boom","code":503}"#).as_deref(), Some("boom"));
        assert_eq!(error("error", r#"{"a":1}"#).as_deref(), Some("without a message"));
        assert_eq!(error("", r#"{"detail":"boom"}"#).as_deref(), Some("boom"));
        assert_eq!(error("", r#"{"choices":[],"detail":"x"}"#), None);
        assert_eq!(error("ping", r#"{"type":"ping"}"#), None);
        assert_eq!(error("", r#"{"vendor":1}"#), None);
    }

    #[test]
    fn an_error_is_seen_in_each_form() {
        for (event, expected) in [
            (r#"{"error":{"message":"m"}}"#, Some("m")),
            (
                r#"{ "id":"1", "error" : {"code":502,"message":"m"},"choices":[{"delta":{},"finish_reason":"error"}]}"#,
                Some("m"),
            ),
            (r#"{"error":"m"}"#, Some("m")),
            (
                r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","error":"m"}}"#,
                Some("m"),
            ),
            (r#"{"status":"failed","error":null,"output":[],"usage":null}"#, Some("without a message")),
            (r#"{"object":"error","message":"m"}"#, Some("m")),
            (r#"{"type":"error","message":"m"}"#, Some("m")),
            (r#"{"type":"error","error":{"type":"overloaded_error"}}"#, Some("without a message")),
            (r#"{"type":"response.failed","response":{"error":{"message":"m"}}}"#, Some("m")),
            (
                r#"{"choices":[{"index":0,"finish_reason":"error","error":{"code":502,"message":"m"},"message":{"content":""}}]}"#,
                Some("m"),
            ),
            (r#"{"choices":[{"delta":{},"error":null},{"delta":{},"error":{"message":"m"}}]}"#, Some("m")),
            (
                r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#,
                Some("the provider ended the reply: error"),
            ),
            (
                r#"{"choices":[{"message":{"content":"a"},"finish_reason":"insufficient_system_resource"}]}"#,
                Some("the provider ended the reply: insufficient_system_resource"),
            ),
            (r#"{"choices":[{"delta":{},"error":null,"finish_reason":"stop"}]}"#, None),
            (r#"{"error":null,"choices":[]}"#, None),
            (r#"{"type":"response.completed","response":{"error":null}}"#, None),
            (r#"{"choices":[{"delta":{"content":"error"}}]}"#, None),
        ] {
            assert_eq!(facts(event).error.as_ref().map(|error| &*error.message), expected, "{event}");
        }
    }

    #[test]
    fn an_event_that_says_only_that_a_reply_begins_is_known() {
        for (event, expected) in [
            (r#"{"type":"response.created","response":{}}"#, true),
            (r#"{"type":"message_start","message":{"content":[]}}"#, true),
            (r#"{"type":"content_block_start","index":0}"#, false),
            (
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}]}"#,
                true,
            ),
            (r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}"#, false),
            (r#"{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[]}}]}"#, false),
            (r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#, false),
            (r#"{"choices":[{"index":0,"text":""}]}"#, false),
            (r#"{"choices":[]}"#, true),
            (r#"{"object":"chat.completion.chunk"}"#, false),
        ] {
            let tape = Tape::parse(event.as_bytes()).unwrap();
            assert_eq!(is_preface(tape.root(event.as_bytes())), expected, "{event}");
        }
    }

    #[test]
    fn the_last_event_is_known_however_it_is_written() {
        assert!(facts(r#"{ "type" : "message_stop" }"#).is_last);
        assert!(facts(r#"{"response":{},"type":"response.completed"}"#).is_last);
        assert!(
            !facts(r#"{"type":"response.output_text.delta","delta":"\"type\":\"message_stop\""}"#).is_last
        );
    }
}
