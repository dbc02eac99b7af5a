//! The sources of an answer, attached to a whole reply: as citations of its API, in the fields `citations` and `sources`, and as a list in its text.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use weir_api::SourcesAs;
use weir_guardrails::Placeholders;

use crate::augment::Sources;
use crate::citations::{Reference, citations, references, verified_in};
use crate::guard::{Guard, Report};
use crate::source_list::{Shown, fields, markdown, open_webui};
use crate::{Api, annotations};

/// What guardrails for answers leave of the texts of documents that are attached to one.
pub(crate) struct Cleaner {
    guard: Option<Arc<Guard>>,
    of_request: Arc<Placeholders>,
    own: Placeholders,
    /// What was found.
    pub(crate) report: Report,
}

/// Sources on their way to a reply.
pub(crate) struct Attachment {
    api: Api,
    sources: Sources,
    pub(crate) cleaner: Cleaner,
    /// Empty until it is needed.
    shown: Vec<Shown>,
}

/// A text of an answer in a whole reply.
struct Slot {
    /// The choice that it belongs to; 0 where there are no choices.
    choice: usize,
    /// The JSON pointer of the object that has it.
    object: String,
}

impl Cleaner {
    pub(crate) fn new(guard: Option<Arc<Guard>>, of_request: Arc<Placeholders>) -> Cleaner {
        let own = guard.as_ref().map(|guard| guard.placeholders_of_output(&of_request)).unwrap_or_default();
        Cleaner { guard, of_request, own, report: Report::default() }
    }

    fn clean(&mut self, text: &str) -> String {
        match &self.guard {
            Some(guard) => guard.redact_added(text, &mut self.own, &self.of_request, &mut self.report),
            None => text.to_owned(),
        }
    }
}

impl Attachment {
    pub(crate) fn new(api: Api, sources: Sources, cleaner: Cleaner) -> Attachment {
        Attachment { api, sources, cleaner, shown: Vec::new() }
    }

    /// The answer as the model wrote it, with what placeholders stand for: so it is compared with the sources.
    pub(crate) fn references(&self, answer: &str) -> Vec<Reference> {
        references(&self.cleaner.of_request.restore(answer), &self.sources.list)
    }

    /// The citations of a text in the shape of the API. `sent`: the text as the caller gets it.
    pub(crate) fn annotations(&mut self, sent: &str, references: &[Reference]) -> Vec<Value> {
        let verified = verified_in(sent, references);
        // the events of Open WebUI stand for them, and it would show both
        let is_left_out = self.sources.shown_as == SourcesAs::OpenWebui && self.api == Api::ChatCompletions;
        if verified.is_empty() || is_left_out {
            return Vec::new();
        }
        self.show();
        let Attachment { api, cleaner, shown, .. } = self;
        let mut found = Vec::new();
        for reference in &verified {
            let Some(source) = reference.citation.n.checked_sub(1).and_then(|n| shown.get(n)) else {
                continue;
            };
            let annotation = match api {
                Api::ChatCompletions => annotations::of_chat(sent, reference, source),
                Api::Responses => Some(annotations::of_response(sent, reference, source)),
                Api::Messages | Api::CountTokens => {
                    let text = cleaner.clean(&reference.citation.quote);
                    Some(annotations::of_message(&reference.citation, text, source))
                }
                Api::Completions => None,
            };
            found.extend(annotation.filter(|annotation| !found.contains(annotation)));
        }
        found
    }

    /// Whether replies have a list at the end of their text.
    pub(crate) fn makes_lists(&self) -> bool {
        self.sources.shown_as == SourcesAs::Markdown
    }

    /// The list of the sources that are named, if the reply is to have one.
    pub(crate) fn list(&mut self, references: &[Reference]) -> Option<String> {
        if !self.makes_lists() || references.is_empty() {
            return None;
        }
        self.show();
        Some(markdown(references, &self.shown)).filter(|list| !list.is_empty())
    }

    /// `citations` and `sources` of a reply with these references.
    pub(crate) fn fields(&mut self, references: &[Reference]) -> Map<String, Value> {
        let mut found = citations(references);
        found.iter_mut().for_each(|citation| citation.quote = self.cleaner.clean(&citation.quote));
        let mut sources = fields(&self.sources.list);
        for (source, item) in sources.iter_mut().zip(self.items()) {
            source.as_object_mut().into_iter().for_each(|fields| fields.extend(item.clone()));
        }
        Map::from_iter([("citations".to_owned(), json!(found)), ("sources".to_owned(), json!(sources))])
    }

    /// The sources for Open WebUI, in the order of their numbers; none for others.
    pub(crate) fn items(&mut self) -> Vec<Map<String, Value>> {
        if self.sources.shown_as != SourcesAs::OpenWebui {
            return Vec::new();
        }
        self.show();
        let Attachment { sources, cleaner, shown, .. } = self;
        let both = shown.iter().zip(&sources.list);
        both.map(|(shown, source)| open_webui(shown, cleaner.clean(&source.text), source.relevance)).collect()
    }

    fn show(&mut self) {
        let Attachment { sources, cleaner, shown, .. } = self;
        if shown.is_empty() {
            let of = |(n, source)| Shown::of(n, source, &mut |text| cleaner.clean(text));
            *shown = (1..).zip(&sources.list).map(of).collect();
        }
    }

    /// A whole reply with its sources. `before`: its [`texts`] before guardrails.
    pub(crate) fn attach(&mut self, body: Bytes, before: &[String]) -> Bytes {
        let Ok(mut reply) = serde_json::from_slice::<Value>(&body) else { return body };
        if !reply.is_object() {
            return body;
        }
        let slots = slots(self.api, &reply);
        let mut named: Vec<(usize, Vec<Reference>)> = Vec::new();
        for (slot, before) in slots.iter().zip(before) {
            let references = self.references(before);
            if let Some(object) = reply.pointer_mut(&slot.object) {
                let sent = text_of(self.api, object).to_owned();
                let annotations = self.annotations(&sent, &references);
                annotate(self.api, object, annotations);
            }
            match named.iter_mut().find(|(choice, _)| *choice == slot.choice) {
                Some((_, all)) => all.extend(references),
                None => named.push((slot.choice, references)),
            }
        }
        for (choice, references) in &named {
            if !has_call(self.api, &reply, *choice)
                && let Some(list) = self.list(references)
                && let Some(slot) = slots.iter().rfind(|slot| slot.choice == *choice)
            {
                append(self.api, &mut reply, slot, &list);
            }
        }
        let first = named.into_iter().next().map(|(_, references)| references).unwrap_or_default();
        let fields = self.fields(&first);
        reply.as_object_mut().into_iter().for_each(|reply| reply.extend(fields.clone()));
        reply.to_string().into()
    }
}

/// The texts of the answer in a whole reply, in their order.
pub(crate) fn texts(api: Api, body: &[u8]) -> Vec<String> {
    let reply: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |slot: &Slot| reply.pointer(&slot.object).map(|object| text_of(api, object).to_owned());
    slots(api, &reply).iter().map(|slot| text(slot).unwrap_or_default()).collect()
}

fn slots(api: Api, reply: &Value) -> Vec<Slot> {
    let list = |value: &Value| value.as_array().map_or(0, Vec::len);
    match api {
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
pub(crate) fn annotate(api: Api, object: &mut Value, annotations: Vec<Value>) {
    let field = match api {
        Api::Messages | Api::CountTokens => "citations",
        Api::ChatCompletions | Api::Completions | Api::Responses => "annotations",
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
        Api::Completions => false,
        Api::Messages | Api::CountTokens => any(&reply["content"], &|block| block["type"] == "tool_use"),
        Api::Responses => any(&reply["output"], &|item| is_call(item["type"].as_str().unwrap_or_default())),
    }
}

/// Whether an item of a response is a call that the caller answers. Those of the provider's own tools are answered by it.
pub(crate) fn is_call(item: &str) -> bool {
    let own =
        ["web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"];
    item.ends_with("_call") && !own.contains(&item) || item == "mcp_approval_request"
}
