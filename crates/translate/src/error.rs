//! Errors of other providers as OpenAI's.

use serde_json::{Value, json};

use crate::write_json;

/// The API that a body comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic's Messages API.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

/// Translates the body of a reply with an error status to OpenAI's `{"error":{…}}`. The message is kept.
pub fn error(dialect: Dialect, status: u16, body: &[u8]) -> Vec<u8> {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    // Gemini answers a stream's request with a list.
    let error = match &json {
        Value::Array(list) => list.first().map_or(&Value::Null, |first| &first["error"]),
        _ => &json["error"],
    };
    let message = message(error, status, body);
    let kind = match dialect {
        Dialect::Anthropic => error["type"].as_str(),
        Dialect::Gemini => error["status"].as_str(),
    };
    let (code, param) = match status {
        _ if is_too_long(&message) => (Some("context_length_exceeded"), Some("messages")),
        401 => (Some("invalid_api_key"), None),
        404 => (Some("model_not_found"), Some("model")),
        429 => (Some("rate_limit_exceeded"), None),
        _ => (kind, None),
    };
    let error = json!({"message": message, "type": error_type(status), "param": param, "code": code});
    write_json(&json!({"error": error}))
}

/// The message of an error body; the body's text when it is something else.
pub(super) fn message(error: &Value, status: u16, body: &[u8]) -> String {
    if let Some(message) = error["message"].as_str().or(error.as_str()).filter(|text| !text.is_empty()) {
        return message.to_owned();
    }
    // all of it: in a part, guardrails do not find what is cut
    let text = String::from_utf8_lossy(body);
    match text.trim() {
        "" => format!("the provider answered with status {status}"),
        text => format!("the provider answered with status {status}: {text}"),
    }
}

/// Whether a message says that the prompt is longer than the model reads, in Anthropic's or in Gemini's words.
fn is_too_long(message: &str) -> bool {
    ["prompt is too long", "exceed context limit", "input token count"]
        .iter()
        .any(|words| message.contains(words))
}

fn error_type(status: u16) -> &'static str {
    match status {
        403 => "permission_error",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use crate::conversation::Api;
    use crate::{Conversion, ReplyContext};

    #[test]
    fn the_error_of_a_reply_that_cannot_be_read_repeats_no_value_of_it() {
        let context =
            || ReplyContext { id: String::new(), created: 0, model: String::new(), include_usage: false };
        for (conversion, reply) in [
            (Conversion::FromAnthropic, r#"{"content":4.111111111111111e15}"#),
            (Conversion::FromAnthropic, r#"{"content":"4111111111111111, expected a at line 1"}"#),
            (Conversion::FromGemini, r#"{"candidates":4111111111111111}"#),
        ] {
            let error = conversion.reply(Api::ChatCompletions, &reply.into(), context).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("invalid type, expected ") && !error.contains("4111"), "{error}");
        }
    }

    #[test]
    fn the_text_of_an_error_is_not_cut_before_guardrails_read_it() {
        let text = format!("{} 4111 1111 1111 1111 end", "x".repeat(981));
        let error = Conversion::FromAnthropic.error(404, text.clone().into());
        assert!(String::from_utf8_lossy(&error).contains(&text));
    }
}
