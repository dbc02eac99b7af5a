//! What must hold for any request of a caller and any reply of a provider: the entry of the fuzz targets and of the tests that change samples.
//! Compiled for both only, because the readers are private to the crate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a panic is how a check fails"
)]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use weir_guardrails::Placeholders;
use weir_translate::{
    Dialect, ReplyContext, StreamTranslator, TokenUsage, TranslateError, anthropic, error, gemini, messages,
};
use weir_upstream::{SseEvent, SseParser};

use crate::Api;
use crate::filter::StreamFilter;
use crate::frames::{EVENT_BYTES_MAX, Frames, Seen, data_of, end_of_first_event, without_usage};
use crate::guard::{Guard, Guards, Report};
use crate::request::Request;
use crate::texts::{replaced, texts};

const APIS: [Api; 5] =
    [Api::ChatCompletions, Api::Completions, Api::Responses, Api::Messages, Api::CountTokens];

/// Redacts e-mail addresses and payment cards in both directions.
static GUARD: LazyLock<Arc<Guard>> = LazyLock::new(|| {
    let guardrail = json!({"id": "pii", "detect": ["email", "payment_card"], "on": ["input", "output"]});
    let guardrail = serde_json::from_value(guardrail).unwrap();
    let guards = Guards::new(&[guardrail], &weir_telemetry::Metrics::new("fuzzing")).unwrap();
    guards.of("m", None).unwrap().unwrap()
});

fn context() -> ReplyContext {
    ReplyContext { id: "chatcmpl-7".to_owned(), created: 5, model: "alias".to_owned(), include_usage: true }
}

fn object(json: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(json).ok()
}

/// Whether data have the form of JSON. Halves of surrogate pairs, which a provider may send, are passed on.
fn is_json(data: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(data).is_ok()
}

/// The body of a request: only what is to be changed is changed, guardrails leave JSON, and every translation is JSON.
pub fn check_request(body: &[u8]) {
    for translated in [
        anthropic::request(body, "claude-sonnet-4-5"),
        gemini::request(body, "gemini-2.5-pro"),
        messages::request(body, "gpt-5", true),
    ] {
        assert!(translated.is_err() || translated.is_ok_and(|body| is_json(&body)));
    }
    let Ok(request) = Request::read(Bytes::copy_from_slice(body)) else { return };
    assert_eq!(request.rendered(&request.model, false), body);
    let _ = (request.asked().is_ok(), request.object(), request.usage_max(Api::ChatCompletions, 1).total());
    let mut report = Report::default();
    let checked = GUARD.check_input(request.body(), &mut Placeholders::new(), &mut report).unwrap();
    let Some(fields) = object(body) else { return };
    assert!(object(&checked).is_some(), "a guardrail leaves JSON");
    check_texts(body, &fields);
    check_rendered(&request, fields);
}

/// The texts that guardrails read are those of the JSON, however it is written.
fn check_texts(body: &[u8], fields: &Map<String, Value>) {
    let spans = texts(body);
    let same: Vec<_> = spans.iter().map(|span| (span.range.clone(), span.text(body).into_owned())).collect();
    assert_eq!(object(&replaced(body, &same)).as_ref(), Some(fields), "a text is read as JSON says");
    let canonical = Value::Object(fields.clone()).to_string().into_bytes();
    let found: Vec<_> = spans.iter().map(|span| span.text(body)).collect();
    for span in texts(&canonical) {
        assert!(found.contains(&span.text(&canonical)), "a text is found however its key is written");
    }
}

/// With another model and the usage of a stream, everything else is as it was.
fn check_rendered(request: &Request, mut fields: Map<String, Value>) {
    let rendered = request.rendered("other\"model", true);
    assert!(Request::read(rendered.clone()).is_ok() || !request.is_stream, "no field is given twice");
    fields.insert("model".to_owned(), "other\"model".into());
    if !fields.get("stream_options").is_some_and(Value::is_object) {
        fields.insert("stream_options".to_owned(), json!({}));
    }
    fields["stream_options"]["include_usage"] = true.into();
    assert_eq!(object(&rendered), Some(fields));
}

/// A whole reply: every translation is JSON, and so is a reply that guardrails have checked.
pub fn check_reply(body: &[u8]) {
    let context = context();
    for translated in
        [anthropic::reply(body, &context), gemini::reply(body, &context), messages::reply(body, &context)]
    {
        assert!(translated.is_err() || translated.is_ok_and(|(body, _)| is_json(&body)));
    }
    for status in [400, 404, 429, 500] {
        assert!(is_json(&error(Dialect::Anthropic, status, body)));
        assert!(is_json(&error(Dialect::Gemini, status, body)));
        assert!(is_json(&messages::error(status, body)));
    }
    TokenUsage::find(body);
    if is_json(body) {
        let mut report = Report::default();
        let body = Bytes::copy_from_slice(body);
        let checked = GUARD.check_output(body, &Placeholders::new(), &mut report).unwrap();
        assert!(is_json(&checked), "a guardrail leaves JSON");
    }
}

/// A stream that comes in chunks of these lengths is translated and passed on as if it came at once, and guardrails leave its events JSON.
pub fn check_stream(lengths: &[u8], stream: &[u8]) {
    let mut rest = stream;
    let mut chunks = Vec::with_capacity(lengths.len() + 1);
    for length in lengths {
        let (chunk, after) = rest.split_at(rest.len().min(usize::from(*length)));
        chunks.push(chunk);
        rest = after;
    }
    chunks.push(rest);
    check_translations(&chunks, stream);
    check_frames(&chunks, stream);
    for api in APIS {
        check_filter(api, stream);
    }
}

fn check_translations(chunks: &[&[u8]], stream: &[u8]) {
    for new in [StreamTranslator::anthropic, StreamTranslator::gemini, StreamTranslator::messages] {
        let translation = translate(new(context()), &[stream]);
        assert_eq!(translate(new(context()), chunks), translation);
        let out = translation.0;
        assert!(out.is_empty() || out.ends_with(b"\n\n"));
        assert!(parse(&[&out]).iter().all(|event| event.data == "[DONE]" || is_json(event.data.as_bytes())));
    }
}

/// What a translator wrote, how it ended, and the tokens that it counted.
type Translation = (Vec<u8>, Result<(), TranslateError>, TokenUsage);

fn translate(mut translator: StreamTranslator, chunks: &[&[u8]]) -> Translation {
    let mut out = Vec::new();
    let pushed = parse(chunks).iter().try_for_each(|event| translator.push(&event.data, &mut out));
    let result = pushed.and_then(|()| translator.finish(&mut out));
    (out, result, translator.usage())
}

fn parse(chunks: &[&[u8]]) -> Vec<SseEvent> {
    let (mut parser, mut events) = (SseParser::new(EVENT_BYTES_MAX), Vec::new());
    for chunk in chunks {
        let mut chunk = Bytes::copy_from_slice(chunk);
        while let Some(event) =
            parser.next_event(&mut chunk).expect("the input is smaller than an event may be")
        {
            events.push(event);
        }
    }
    events
}

fn check_frames(chunks: &[&[u8]], stream: &[u8]) {
    let (mut frames, mut passed, mut stripped) = (Frames::default(), Vec::new(), Vec::new());
    for chunk in chunks {
        let whole =
            frames.push(Bytes::copy_from_slice(chunk)).expect("the input is smaller than an event may be");
        for api in APIS {
            Seen::default().look(&whole, api);
        }
        passed.extend_from_slice(&whole);
        stripped.extend_from_slice(&without_usage(whole));
    }
    let rest = frames.rest();
    passed.extend_from_slice(&rest);
    stripped.extend_from_slice(&without_usage(rest));
    assert_eq!(passed, stream, "events are passed on unchanged");
    assert_eq!(stripped, without_usage(Bytes::copy_from_slice(stream)));
}

/// Guardrails on a stream leave every event JSON that was JSON.
fn check_filter(api: Api, stream: &[u8]) {
    let mut filter = StreamFilter::new(api, GUARD.clone(), Arc::default());
    let mut out = Vec::new();
    filter.push(stream, &mut out).expect("no rule blocks");
    filter.finish(&mut out).expect("no rule blocks");
    let is_valid = |data: &[u8]| data.trim_ascii() == b"[DONE]" || is_json(data);
    if datas(stream).into_iter().all(is_valid) {
        let text = out.escape_ascii();
        assert!(datas(&out).into_iter().all(is_valid), "{text}");
    }
}

fn datas(events: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut rest) = (Vec::new(), events);
    while !rest.is_empty() {
        let (event, after) = rest.split_at(end_of_first_event(rest));
        found.extend(data_of(event).map(|data| &event[data]));
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests;
