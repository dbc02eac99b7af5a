//! Reasoning of providers with OpenAI's API as thinking blocks. Their APIs have it in fields of four kinds; the signature of a block names the
//! field, so that it goes back to the same one with the history.

use std::collections::HashMap;

use super::model::ReasoningFields;
use crate::value::{Map, Value, object};

/// Signatures of blocks that were made here. Callers send them back as they are.
pub(super) const CONTENT_FIELD: &str = "";
pub(super) const REASONING_FIELD: &str = "reasoning";
pub(super) const CONTENT_LIST: &str = "content";
/// Before an entry of `reasoning_details` without its text.
const DETAIL: &str = "reasoning_details ";
/// Before the id and the signature of a call, which Google's API for OpenAI's clients wants back with it.
const CALL: &str = "thought_signature ";

/// The reasoning of an assistant's message, in the fields that it came in.
#[derive(Default)]
pub(super) struct Reasoning {
    content: String,
    reasoning: String,
    list: Vec<Value>,
    details: Vec<Value>,
    /// The signatures of calls, by their ids.
    calls: HashMap<String, String>,
}

impl Reasoning {
    /// Adds a `thinking` or `redacted_thinking` block. Those of Anthropic's own are left out: no other provider can read them.
    pub(super) fn push(&mut self, block: &Value) {
        let text = block["thinking"].as_str().unwrap_or_default();
        let signature = match block["type"] == "redacted_thinking" {
            true => block["data"].as_str().unwrap_or_default(),
            false => block["signature"].as_str().unwrap_or_default(),
        };
        match signature {
            CONTENT_FIELD => self.content.push_str(text),
            REASONING_FIELD => self.reasoning.push_str(text),
            CONTENT_LIST => {
                let inner = vec![object! {"type": "text", "text": text}];
                self.list.push(object! {"type": "thinking", "thinking": inner});
            }
            signature => match signature.strip_prefix(CALL).and_then(|call| call.split_once(' ')) {
                Some((id, signature)) => drop(self.calls.insert(id.to_owned(), signature.to_owned())),
                None => self.details.extend(detail(signature, text)),
            },
        }
    }

    /// The `extra_content` of a call.
    pub(super) fn of_call(&self, id: &str) -> Option<Value> {
        let signature = self.calls.get(id)?;
        Some(object! {"google": object! {"thought_signature": signature.as_str()}})
    }

    /// Adds the fields to a message, those that its model takes. `text` is the text of the message.
    pub(super) fn write(self, text: &str, fields: ReasoningFields, message: &mut Map) {
        if fields == ReasoningFields::All {
            for (name, reasoning) in [("reasoning_content", self.content), ("reasoning", self.reasoning)] {
                if !reasoning.is_empty() {
                    message.insert(name, reasoning);
                }
            }
        }
        if fields != ReasoningFields::ContentList && !self.details.is_empty() {
            message.insert("reasoning_details", self.details);
        }
        if fields != ReasoningFields::Details && !self.list.is_empty() {
            let mut list = self.list;
            if !text.is_empty() {
                list.push(object! {"type": "text", "text": text});
            }
            message.insert("content", list);
        }
    }
}

/// An entry of `reasoning_details`, of the block that was made of it.
fn detail(signature: &str, text: &str) -> Option<Value> {
    let mut detail = Value::parse(signature.strip_prefix(DETAIL)?.as_bytes()).ok()?;
    let key = text_key(detail["type"].as_str().unwrap_or_default());
    if let (Some(key), Some(fields)) = (key, detail.as_object_mut()) {
        fields.insert(key, text);
    }
    detail.is_object().then_some(detail)
}

/// The key of the text of an entry.
pub(super) fn text_key(kind: &str) -> Option<&'static str> {
    match kind {
        "reasoning.text" => Some("text"),
        "reasoning.summary" => Some("summary"),
        _ => None,
    }
}

/// The signature of a block of an entry, or the data of one without a text.
pub(super) fn signature(mut detail: serde_json::Value) -> String {
    let key = text_key(detail["type"].as_str().unwrap_or_default());
    if let (Some(key), Some(fields)) = (key, detail.as_object_mut()) {
        fields.remove(key);
    }
    format!("{DETAIL}{detail}")
}

/// The data of a block before a call that has a signature.
pub(super) fn call_signature(id: &str, signature: &str) -> String {
    format!("{CALL}{id} {signature}")
}
