//! The sources of an answer as they are attached to a reply: as citations of its API, in the fields `citations` and `sources`, and as a list in its
//! text. Their places in a reply of each API are known to [`weir_translate::conversation`].

use std::sync::Arc;

use serde_json::{Map, Value, json};
use weir_api::SourcesAs;
use weir_guardrails::Placeholders;
use weir_guardrails::conversation::{Checks, Report};
use weir_translate::conversation::{Additions, Api, Citation};

use crate::augment::Sources;
use crate::citations::{Reference, citations, references, verified_in};
use crate::source_list::{Shown, fields, markdown, open_webui};

/// Applies guardrails for answers to the texts of documents that are attached to one.
pub(crate) struct Cleaner {
    checks: Option<Arc<Checks>>,
    of_request: Arc<Placeholders>,
    own: Placeholders,
    /// The findings.
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

impl Cleaner {
    pub(crate) fn new(checks: Option<Arc<Checks>>, of_request: Arc<Placeholders>) -> Cleaner {
        let own =
            checks.as_ref().map(|checks| checks.placeholders_of_output(&of_request)).unwrap_or_default();
        Cleaner { checks, of_request, own, report: Report::default() }
    }

    pub(crate) fn clean(&mut self, text: &str) -> String {
        match &self.checks {
            Some(checks) => checks.redact_added(text, &mut self.own, &self.of_request, &mut self.report),
            None => text.to_owned(),
        }
    }
}

impl Attachment {
    pub(crate) fn new(api: Api, sources: Sources, cleaner: Cleaner) -> Attachment {
        Attachment { api, sources, cleaner, shown: Vec::new() }
    }

    fn show(&mut self) {
        let Attachment { sources, cleaner, shown, .. } = self;
        if shown.is_empty() {
            let of = |(n, source)| Shown::of(n, source, &mut |text| cleaner.clean(text));
            *shown = (1..).zip(&sources.list).map(of).collect();
        }
    }
}

impl Additions for Attachment {
    type Reference = Reference;

    // compared with the sources is what placeholders stand for
    fn references(&self, written: &str) -> Vec<Reference> {
        references(&self.cleaner.of_request.restore(written), &self.sources.list)
    }

    fn annotations(&mut self, sent: &str, references: &[Reference]) -> Vec<Value> {
        let verified = verified_in(sent, references);
        // the events of Open WebUI stand for them, and it would show both
        let is_left_out = self.sources.shown_as == SourcesAs::OpenWebui && self.api.has_source_events();
        if verified.is_empty() || is_left_out {
            return Vec::new();
        }
        self.show();
        let Attachment { api, cleaner, shown, .. } = self;
        let mut found = Vec::new();
        for reference in &verified {
            let number = reference.citation.n;
            let Some(source) = number.checked_sub(1).and_then(|n| shown.get(n)) else { continue };
            let citation = Citation {
                marker: &reference.marker,
                number,
                document_id: &source.document_id,
                title: &source.title,
                url: source.url.as_deref(),
            };
            let annotation = citation.annotation(*api, sent, || cleaner.clean(&reference.citation.quote));
            found.extend(annotation.filter(|annotation| !found.contains(annotation)));
        }
        found
    }

    fn makes_lists(&self) -> bool {
        self.sources.shown_as == SourcesAs::Markdown
    }

    fn list(&mut self, references: &[Reference]) -> Option<String> {
        if !self.makes_lists() || references.is_empty() {
            return None;
        }
        self.show();
        Some(markdown(references, &self.shown)).filter(|list| !list.is_empty())
    }

    /// `citations` and `sources`.
    fn fields(&mut self, references: &[Reference]) -> Map<String, Value> {
        let mut found = citations(references);
        for citation in &mut found {
            citation.quote = self.cleaner.clean(&citation.quote);
            citation.document_id = citation.document_id.take().map(|id| self.cleaner.clean(&id));
        }
        let mut sources = fields(&self.sources.list);
        for id in sources.iter_mut().filter_map(|source| source.get_mut("document_id")) {
            *id = self.cleaner.clean(id.as_str().unwrap_or_default()).into();
        }
        for (source, item) in sources.iter_mut().zip(self.source_events()) {
            source.as_object_mut().into_iter().for_each(|fields| fields.extend(item.clone()));
        }
        Map::from_iter([("citations".to_owned(), json!(found)), ("sources".to_owned(), json!(sources))])
    }

    /// The sources for Open WebUI, in the order of their numbers; none for others.
    fn source_events(&mut self) -> Vec<Map<String, Value>> {
        if self.sources.shown_as != SourcesAs::OpenWebui {
            return Vec::new();
        }
        self.show();
        let Attachment { sources, cleaner, shown, .. } = self;
        let both = shown.iter().zip(&sources.list);
        both.map(|(shown, source)| open_webui(shown, cleaner.clean(&source.text), source.relevance)).collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_translate::SseEvent;
    use weir_translate::conversation::CitedStream;

    use super::*;
    use crate::augment::{Origin, Source};

    const LIST: &str = "\n\n**Sources**\n\n- [1] weirs, bytes 0–20";

    fn stream(api: Api) -> CitedStream<Attachment> {
        let source = Source {
            document_id: "weirs".to_owned(),
            start: 0,
            text: "A weir is a low dam.".to_owned(),
            pages: weir_api::CitedPages::default(),
            header: String::new(),
            relevance: None,
            flagged: false,
            origin: Origin::default(),
        };
        let sources = Sources { list: vec![source], shown_as: SourcesAs::Markdown };
        let cleaner = Cleaner::new(None, Arc::default());
        CitedStream::new(api, Attachment::new(api, sources, cleaner))
    }

    /// The events sent, for events that are cut between any two of them.
    fn run(api: Api, events: &[Value]) -> Vec<Value> {
        let mut attached = stream(api);
        let mut out = Vec::new();
        for event in events {
            let name = event["type"].as_str().unwrap_or_default();
            let bytes = format!("event: {name}\ndata: {event}\n\n").into_bytes();
            attached.read(&bytes);
            out.extend_from_slice(&attached.push(&bytes, None));
        }
        out.extend_from_slice(&attached.end());
        SseEvent::all(&out).iter().map(|event| serde_json::from_str(event.text().unwrap()).unwrap()).collect()
    }

    fn chunk(delta: Value, finish: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    }

    fn content(events: &[Value]) -> String {
        events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect()
    }

    #[test]
    fn the_list_stands_before_the_end_of_a_choice_and_behind_its_last_piece() {
        let check = |events: &[Value], expected: &str| {
            let sent = run(Api::ChatCompletions, events);
            assert_eq!(content(&sent), expected);
            let last = sent.iter().rposition(|event| event["choices"][0]["delta"]["content"].is_string());
            let end = sent.iter().position(|event| event["choices"][0]["finish_reason"].is_string());
            assert!(last <= end, "{sent:?}");
        };
        let piece = chunk(json!({"content": "A dam [1]"}), Value::Null);
        let answer = format!("A dam [1]{LIST}");
        check(&[piece.clone(), chunk(json!({}), json!("stop"))], &answer);
        check(&[chunk(json!({"content": "A dam [1]"}), json!("stop"))], &answer);
        check(&[piece.clone(), chunk(json!({}), json!("tool_calls"))], "A dam [1]");
        check(&[chunk(json!({"content": "None."}), json!("stop"))], "None.");
        let call = json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]});
        check(&[piece, chunk(call, Value::Null), chunk(json!({}), json!("stop"))], "A dam [1]");
    }

    #[test]
    fn a_text_before_the_use_of_a_tool_gets_no_list() {
        let text = [
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "A dam [1]"}}),
            json!({"type": "content_block_stop", "index": 0}),
        ];
        let tool = [
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "n", "input": {}}}),
            json!({"type": "content_block_stop", "index": 1}),
        ];
        let end = |reason: &str| json!({"type": "message_delta", "delta": {"stop_reason": reason}});
        let has_list = |events: &[Value]| {
            let sent = run(Api::Messages, events);
            assert_eq!(sent.last().unwrap()["citations"][0]["verified"], true, "{sent:?}");
            assert!(sent.iter().any(|event| event["delta"]["type"] == "citations_delta"), "{sent:?}");
            sent.iter().any(|event| event["index"] == 1 && event["delta"]["text"] == LIST)
        };
        assert!(has_list(&[&text[..], &[end("end_turn")]].concat()));
        assert!(!has_list(&[&text[..], &tool, &[end("tool_use")]].concat()));
    }

    /// The events of a response with one text, and those of `more` before its end.
    fn response(more: &[Value], last: &str) -> Vec<Value> {
        let at = |kind: &str| json!({"type": kind, "item_id": "i", "output_index": 0, "content_index": 0});
        let mut delta = at("response.output_text.delta");
        delta["delta"] = "A dam [1]".into();
        let mut done = at("response.output_text.done");
        done["text"] = "A dam [1]".into();
        let part = json!({"type": "output_text", "text": "A dam [1]", "annotations": []});
        let item = json!({"type": "message", "content": [part]});
        let mut events =
            vec![delta, done, json!({"type": "response.output_item.done", "output_index": 0, "item": item})];
        events.extend_from_slice(more);
        events.push(json!({"type": last, "response": {"output": [item]}}));
        (0..)
            .zip(&mut events)
            .for_each(|(number, event): (u64, &mut Value)| event["sequence_number"] = number.into());
        events
    }

    #[test]
    fn the_events_of_a_response_are_numbered_and_agree() {
        let call = json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call"}});
        let reasoning =
            json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "reasoning"}});
        let check = |events: &[Value], expected: &str| {
            let sent = run(Api::Responses, events);
            let numbers: Vec<u64> =
                sent.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
            assert_eq!(numbers, (0..sent.len() as u64).collect::<Vec<u64>>(), "{sent:?}");
            let deltas: String = sent.iter().filter_map(|event| event["delta"].as_str()).collect();
            assert_eq!(deltas, expected);
            for event in &sent {
                let item = &event["item"]["content"][0];
                let part = if item.is_null() { &event["response"]["output"][0]["content"][0] } else { item };
                if !part.is_null() {
                    assert_eq!(part["text"], expected, "{event}");
                    assert_eq!(part["annotations"][0]["index"], 6, "{event}");
                }
                let is_done = event["type"] == "response.output_text.done";
                assert!(!is_done || event["text"] == expected, "{event}");
            }
        };
        let answer = format!("A dam [1]{LIST}");
        check(&response(&[], "response.completed"), &answer);
        check(&response(&[reasoning], "response.incomplete"), &answer);
        check(&response(&[call], "response.completed"), "A dam [1]");
        check(&response(&[], "response.failed"), "A dam [1]");
        let cut = response(&[], "response.completed");
        assert_eq!(run(Api::Responses, &cut[..3]).len(), 4, "nothing is kept back when a stream breaks off");
    }
}
