//! Parsed requests, the same for all providers.

use serde_json::Value;

/// Text in the last message that asks for a tool call, if the request has tools.
const TOOL_TRIGGER: &str = "call the tool";

/// A request for a completion.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prompt {
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Whether an OpenAI stream ends with its usage.
    pub(crate) include_usage: bool,
    /// Words of all messages.
    pub(crate) tokens: u64,
    /// The request's limit of completion tokens, at least 1.
    pub(crate) tokens_max: Option<u64>,
    /// Name of the tool to call.
    pub(crate) tool: Option<String>,
    /// Text of the reply, if the prompt is repeated.
    pub(crate) echo: Option<String>,
}

/// An error reply, before it has the shape of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// The field at fault.
    pub(crate) param: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn invalid(param: &'static str, message: &str) -> Refusal {
        Refusal { status: 400, message: format!("`{param}` {message}"), param: Some(param) }
    }
}

/// The string `name` of a body.
pub(crate) fn string(body: &Value, name: &'static str) -> Result<String, Refusal> {
    let found = body[name].as_str().filter(|text| !text.is_empty());
    found.map(str::to_owned).ok_or_else(|| Refusal::invalid(name, "must be a string that is not empty"))
}

/// The field `name` of a body, which must not be absent, null or empty.
pub(crate) fn required<'a>(body: &'a Value, name: &'static str) -> Result<&'a Value, Refusal> {
    let is_empty = match &body[name] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    if is_empty { Err(Refusal::invalid(name, "is required and must not be empty")) } else { Ok(&body[name]) }
}

/// The limit of tokens in field `name`, if there is one.
pub(crate) fn tokens_max(body: &Value, name: &'static str) -> Result<Option<u64>, Refusal> {
    let limit = &body[name];
    match limit.as_u64().filter(|limit| *limit > 0) {
        None if limit.is_null() => Ok(None),
        None => Err(Refusal::invalid(name, "must be a whole number of at least 1")),
        Some(limit) => Ok(Some(limit)),
    }
}

/// Whether field `name` is `true`; absent and null are `false`.
pub(crate) fn flag(body: &Value, name: &'static str) -> Result<bool, Refusal> {
    match &body[name] {
        Value::Null => Ok(false),
        Value::Bool(value) => Ok(*value),
        Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Err(Refusal::invalid(name, "must be true or false"))
        }
    }
}

/// Number of words of a prompt in any provider's shape.
pub(crate) fn words(prompt: &Value) -> u64 {
    let mut count = 0;
    each_text(prompt, &mut |text| count += text.split_whitespace().count() as u64);
    count
}

/// The tool to call: `name`, if the last item of `messages` asks for a call.
pub(crate) fn tool_call(messages: &Value, name: Option<&str>) -> Option<String> {
    let last = messages.as_array().map_or(Some(messages), |items| items.last())?;
    let mut is_asked = false;
    each_text(last, &mut |text| is_asked |= text.contains(TOOL_TRIGGER));
    name.filter(|_| is_asked).map(str::to_owned)
}

/// Calls `visit` with each text: strings, and those in the fields `content`, `parts` and `text` of objects.
pub(crate) fn each_text(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, visit)),
        Value::Object(fields) => {
            for name in ["content", "parts", "text"] {
                if let Some(field) = fields.get(name) {
                    each_text(field, visit);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_counted_in_every_shape() {
        for (prompt, expected) in [
            (json!("one two"), 2),
            (
                json!([{"role": "user", "content": "one  two\nthree"}, {"role": "assistant", "content": null}]),
                3,
            ),
            (
                json!([{"role": "user", "content": [{"type": "text", "text": "a b"}, {"type": "image_url"}]}]),
                2,
            ),
            (json!([{"role": "user", "parts": [{"text": "a"}, {"text": "b c"}]}]), 3),
        ] {
            assert_eq!(words(&prompt), expected, "{prompt}");
        }
    }

    #[test]
    fn a_tool_is_called_when_the_last_message_asks_and_there_is_one() {
        let ask = json!({"role": "user", "content": [{"type": "text", "text": "please call the tool now"}]});
        let other = json!({"role": "user", "content": "hello"});
        assert_eq!(tool_call(&json!([other, ask]), Some("f")).as_deref(), Some("f"));
        assert_eq!(tool_call(&json!([ask, other]), Some("f")), None);
        assert_eq!(tool_call(&json!([ask]), None), None);
        assert_eq!(tool_call(&json!("call the tool"), Some("f")).as_deref(), Some("f"));
    }
}
