//! The answer in a whole reply of each API: where its texts stand, and how citations and a list are added to them.

use serde_json::{Map, Value, json};

use super::Api;

/// Additions of the gateway to an answer.
pub trait Additions {
    /// A source that an answer names.
    type Reference: Clone;

    /// The sources that a text names. `written`: the text as the model wrote it.
    fn references(&self, written: &str) -> Vec<Self::Reference>;

    /// Their citations in the shape of the API. `sent`: the text as the caller gets it.
    fn annotations(&mut self, sent: &str, references: &[Self::Reference]) -> Vec<Value>;

    /// Whether a list of sources is appended to answers.
    fn makes_lists(&self) -> bool;

    /// The list of the sources that are named, if the answer is to have one.
    fn list(&mut self, references: &[Self::Reference]) -> Option<String>;

    /// Fields of the reply.
    fn fields(&mut self, references: &[Self::Reference]) -> Map<String, Value>;

    /// Events of their own for sources, before the stream of a chat ends.
    fn source_events(&mut self) -> Vec<Map<String, Value>>;
}

/// A text of an answer in a whole reply.
struct Slot {
    /// The choice that it belongs to; 0 where there are no choices.
    choice: usize,
    /// The JSON pointer of the object that has it.
    object: String,
}

/// A whole reply with what is added to its answer; `None` if it is no object. `before`: its [`texts`] as the model wrote them.
pub fn attach<A: Additions>(api: Api, body: &[u8], before: &[String], additions: &mut A) -> Option<Vec<u8>> {
    let mut reply: Value = serde_json::from_slice(body).ok()?;
    if !reply.is_object() {
        return None;
    }
    let slots = slots(api, &reply);
    let mut named: Vec<(usize, Vec<A::Reference>)> = Vec::new();
    for (slot, before) in slots.iter().zip(before) {
        let references = additions.references(before);
        if let Some(object) = reply.pointer_mut(&slot.object) {
            let sent = text_of(api, object).to_owned();
            let annotations = additions.annotations(&sent, &references);
            annotate(api, object, annotations);
        }
        match named.iter_mut().find(|(choice, _)| *choice == slot.choice) {
            Some((_, all)) => all.extend(references),
            None => named.push((slot.choice, references)),
        }
    }
    for (choice, references) in &named {
        if !has_call(api, &reply, *choice)
            && let Some(list) = additions.list(references)
            && let Some(slot) = slots.iter().rfind(|slot| slot.choice == *choice)
        {
            append(api, &mut reply, slot, &list);
        }
    }
    let first = named.into_iter().next().map(|(_, references)| references).unwrap_or_default();
    let fields = additions.fields(&first);
    reply.as_object_mut().into_iter().for_each(|reply| reply.extend(fields.clone()));
    Some(reply.to_string().into_bytes())
}

/// The texts of the answer in a whole reply, in their order.
pub fn texts(api: Api, body: &[u8]) -> Vec<String> {
    let reply: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |slot: &Slot| reply.pointer(&slot.object).map(|object| text_of(api, object).to_owned());
    slots(api, &reply).iter().map(|slot| text(slot).unwrap_or_default()).collect()
}

fn slots(api: Api, reply: &Value) -> Vec<Slot> {
    let list = |value: &Value| value.as_array().map_or(0, Vec::len);
    match api {
        Api::Embeddings => Vec::new(),
        Api::ChatCompletions | Api::Completions => {
            let end = if api == Api::ChatCompletions { "/message" } else { "" };
            let choices = 0..list(&reply["choices"]);
            choices.map(|choice| Slot { choice, object: format!("/choices/{choice}{end}") }).collect()
        }
        Api::Messages | Api::CountTokens => {
            let blocks = (0..list(&reply["content"])).filter(|at| reply["content"][at]["type"] == "text");
            blocks.map(|at| Slot { choice: 0, object: format!("/content/{at}") }).collect()
        }
        Api::Responses => {
            let mut slots = Vec::new();
            for (item, output) in reply["output"].as_array().into_iter().flatten().enumerate() {
                let parts = output["content"].as_array().into_iter().flatten().enumerate();
                let texts = parts.filter(|(_, part)| part["type"] == "output_text");
                slots.extend(
                    texts.map(|(part, _)| Slot {
                        choice: 0,
                        object: format!("/output/{item}/content/{part}"),
                    }),
                );
            }
            slots
        }
    }
}

/// The field of an object that has the text.
fn text_field(api: Api) -> &'static str {
    if api == Api::ChatCompletions { "content" } else { "text" }
}

fn text_of(api: Api, object: &Value) -> &str {
    object[text_field(api)].as_str().unwrap_or_default()
}

/// Adds citations to those that the provider may have made.
pub(super) fn annotate(api: Api, object: &mut Value, annotations: Vec<Value>) {
    let field = match api {
        Api::Messages | Api::CountTokens => "citations",
        Api::ChatCompletions | Api::Completions | Api::Responses | Api::Embeddings => "annotations",
    };
    if annotations.is_empty() {
        return;
    }
    if let Value::Array(present) = &mut object[field] {
        present.extend(annotations);
    } else {
        object[field] = annotations.into();
    }
}

/// Appends the list to the text of an answer. In messages it is a block of its own, as in their streams.
fn append(api: Api, reply: &mut Value, slot: &Slot, list: &str) {
    if api == Api::Messages {
        let blocks = reply["content"].as_array_mut();
        blocks.into_iter().for_each(|blocks| blocks.push(json!({"type": "text", "text": list})));
    } else if let Some(object) = reply.pointer_mut(&slot.object) {
        let text = format!("{}{list}", text_of(api, object));
        object[text_field(api)] = text.into();
    }
}

/// Whether a reply asks the caller to call a tool: its text is not the answer then.
fn has_call(api: Api, reply: &Value, choice: usize) -> bool {
    let any = |list: &Value, is_call: &dyn Fn(&Value) -> bool| {
        list.as_array().is_some_and(|items| items.iter().any(is_call))
    };
    match api {
        Api::ChatCompletions => {
            let message = &reply["choices"][choice]["message"];
            any(&message["tool_calls"], &|_| true) || message["function_call"].is_object()
        }
        Api::Completions | Api::Embeddings => false,
        Api::Messages | Api::CountTokens => any(&reply["content"], &|block| block["type"] == "tool_use"),
        Api::Responses => any(&reply["output"], &|item| is_call(item["type"].as_str().unwrap_or_default())),
    }
}

/// Whether an item of a response is a call that the caller answers. Those of the provider's own tools are answered by it.
pub(super) fn is_call(item: &str) -> bool {
    let own =
        ["web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"];
    item.ends_with("_call") && !own.contains(&item) || item == "mcp_approval_request"
}
