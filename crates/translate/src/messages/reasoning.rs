//! Reasoning of providers with OpenAI's API as thinking blocks. Their APIs have it in fields of four kinds; the signature of a block names the
//! field, so that it goes back to the same one with the history.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::model::ReasoningFields;
use crate::anthropic::tool_id;
use crate::json::{self, Edits, Tape};
use weir_schema::{Map, Value, object};

/// Signatures of blocks that were made here. Callers send them back as they are.
pub(super) const CONTENT_FIELD: &str = "";
/// The same of callers that keep no empty signature.
const CONTENT_FIELD_NAMED: &str = "reasoning_content";
pub(super) const REASONING_FIELD: &str = "reasoning";
pub(super) const CONTENT_LIST: &str = "content";
/// Before an entry of `reasoning_details` without its text.
const DETAIL: &str = "reasoning_details ";
/// Before the id and the signature of a call, which Google's API for OpenAI's clients wants back with it.
const CALL: &str = "thought_signature ";

/// The beginning of the kind of edits of a context that take thinking away, which Anthropic refuses without thinking.
const CLEAR_THINKING: &str = "clear_thinking";

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
            CONTENT_FIELD | CONTENT_FIELD_NAMED => self.content.push_str(text),
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

/// Whether a signature was made here: Anthropic never gives an empty one, or one with these words.
fn is_made(signature: &str) -> bool {
    matches!(signature, CONTENT_FIELD | CONTENT_FIELD_NAMED | REASONING_FIELD | CONTENT_LIST)
        || [DETAIL, CALL].iter().any(|words| signature.starts_with(words))
}

/// A request to Anthropic's API without what other providers gave and Anthropic refuses: thinking blocks that were made of their reasoning, and
/// characters in ids of calls. A message that consists of such blocks is left out. Thinking is not asked for if a call of a tool has lost its own:
/// Anthropic refuses that. `None`: it has none.
pub fn without_made_reasoning(body: &[u8]) -> Option<Vec<u8>> {
    let has = |word: &[u8]| memchr::memmem::find(body, word).is_some();
    if !has(b"thinking") && !has(b"tool_use") {
        return None;
    }
    let tape = Tape::parse(body).ok()?;
    let request = tape.root(body);
    let messages = request.get("messages").filter(|messages| messages.is_array())?;
    let is_kept = |block: &json::Value<'_>| {
        let field = match block.get("type").and_then(json::Value::as_str).as_deref() {
            Some("thinking") => "signature",
            Some("redacted_thinking") => "data",
            _ => return true,
        };
        let signature = block.get(field).and_then(json::Value::as_str);
        signature.is_some_and(|signature| !is_made(&signature))
    };
    let is = |block: &json::Value<'_>, name: &str| block.get("type").is_some_and(|kind| kind.is(name));
    let is_call = |block: &json::Value<'_>| is(block, "tool_use");
    let is_thinking = |block: &json::Value<'_>| is(block, "thinking") || is(block, "redacted_thinking");
    let (mut is_changed, mut has_bare_call) = (false, false);
    let ids = foreign_ids(messages);
    let mut kept = Vec::new();
    for message in messages.items() {
        let blocks = message.get("content").filter(|content| content.is_array());
        let all = blocks.map_or(0, |blocks| blocks.items().count());
        let left: Vec<_> = blocks.into_iter().flat_map(json::Value::items).filter(is_kept).collect();
        let (Some(blocks), true) = (blocks, left.len() < all) else {
            kept.push(with_ids(body, message.range(), &ids));
            continue;
        };
        is_changed = true;
        has_bare_call |= left.iter().any(is_call) && !left.iter().any(is_thinking);
        if !left.is_empty() {
            let (whole, blocks) = (message.range(), blocks.range());
            let left: Vec<Vec<u8>> = left.iter().map(|block| with_ids(body, block.range(), &ids)).collect();
            let list = [b"[", &*left.join(&b","[..]), b"]"].concat();
            kept.push([&body[whole.start..blocks.start], &list, &body[blocks.end..whole.end]].concat());
        }
    }
    if !is_changed && ids.is_empty() {
        return None;
    }
    let mut edits = Edits::default();
    edits.replace(messages.range(), [b"[", &*kept.join(&b","[..]), b"]"].concat());
    if let Some(thinking) = request.entry_range("thinking").filter(|_| has_bare_call) {
        edits.replace(thinking, Vec::new());
        let of_thinking = |edit: &json::Value<'_>| {
            edit.get("type")
                .and_then(json::Value::as_str)
                .is_some_and(|kind| kind.starts_with(CLEAR_THINKING))
        };
        let management = request.get("context_management").and_then(|management| management.get("edits"));
        if let Some(list) = management.filter(|list| list.items().any(|edit| of_thinking(&edit))) {
            let left = list.items().filter(|edit| !of_thinking(edit)).map(|edit| edit.raw().to_vec());
            let left: Vec<Vec<u8>> = left.collect();
            edits.replace(list.range(), [b"[", &*left.join(&b","[..]), b"]"].concat());
        }
    }
    Some(edits.apply(body))
}

/// The ids of calls and of their results that Anthropic refuses: where they stand, and what stands for them.
fn foreign_ids(messages: json::Value<'_>) -> Vec<(Range<usize>, Vec<u8>)> {
    let blocks = messages.items().filter_map(|message| message.get("content")).flat_map(json::Value::items);
    let id_of = |block: json::Value<'_>| {
        let id = block.get("type").and_then(json::Value::as_str).and_then(|kind| match &*kind {
            "tool_use" => block.get("id"),
            "tool_result" => block.get("tool_use_id"),
            _ => None,
        })?;
        let text = id.as_str()?;
        match tool_id(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(allowed) => Some((id.range(), format!("\"{allowed}\"").into_bytes())),
        }
    };
    blocks.filter_map(id_of).collect()
}

/// A part of the request with the ids in it replaced.
fn with_ids(body: &[u8], range: Range<usize>, ids: &[(Range<usize>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(range.len());
    let mut at = range.start;
    for (place, id) in ids.iter().filter(|(place, _)| range.contains(&place.start)) {
        out.extend_from_slice(&body[at..place.start]);
        out.extend_from_slice(id);
        at = place.end;
    }
    out.extend_from_slice(&body[at..range.end]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_were_made_here_do_not_go_to_anthropic() {
        let strip =
            |body: &str| without_made_reasoning(body.as_bytes()).map(|body| String::from_utf8(body).unwrap());
        let own = r#"{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"EqQBCg"},{"type":"text","text":"thinking"}]}]}"#;
        assert_eq!(strip(own), None);
        let detail = signature(serde_json::json!({"type": "reasoning.encrypted", "data": "x"}));
        for made in [
            "",
            "reasoning_content",
            "reasoning",
            "content",
            &detail.replace('"', "\\\""),
            &call_signature("c", "s"),
        ] {
            let body = format!(
                r#"{{"max_tokens":1.0, "messages":[{{"role":"user","content":"thinking?"}},{{"content":[{{"type":"thinking","thinking":"t","signature":"{made}"}}, {{"type":"text","text":"a"}}, {{"type":"redacted_thinking","data":"{made}"}}],"role":"assistant"}}, {{"role":"assistant","content":[{{"type":"thinking","thinking":"t","signature":"{made}"}}]}}],"x":1}}"#
            );
            let expected = r#"{"max_tokens":1.0, "messages":[{"role":"user","content":"thinking?"},{"content":[{"type":"text","text":"a"}],"role":"assistant"}],"x":1}"#;
            assert_eq!(strip(&body).as_deref(), Some(expected), "{made}");
        }
    }

    #[test]
    fn thinking_is_not_asked_for_where_a_call_has_lost_its_own() {
        let request = |blocks: &str| {
            let body = format!(
                r#"{{"model":"m","thinking":{{"type":"enabled","budget_tokens":2000}},"messages":[{{"role":"assistant","content":[{blocks}]}}],"x":1}}"#
            );
            without_made_reasoning(body.as_bytes()).map(|body| String::from_utf8(body).unwrap())
        };
        let made = r#"{"type":"thinking","thinking":"x","signature":""}"#;
        let own = r#"{"type":"thinking","thinking":"x","signature":"EqQBCg"}"#;
        let call = r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#;
        let expected =
            format!(r#"{{"model":"m","messages":[{{"role":"assistant","content":[{call}]}}],"x":1}}"#);
        assert_eq!(request(&format!("{made},{call}")), Some(expected));
        let kept = request(&format!("{made},{own},{call}")).unwrap();
        assert!(kept.contains("budget_tokens") && !kept.contains(r#""signature":"""#), "{kept}");
        let text = request(&format!(r#"{made},{{"type":"text","text":"a"}}"#)).unwrap();
        assert!(text.contains("budget_tokens"), "{text}");
    }
}
