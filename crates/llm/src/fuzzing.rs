//! Invariants of any request of a caller and any reply of a provider: the entry of the fuzz targets and of the tests that change samples.
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
use weir_guardrails::conversation::{Checks, Report, StreamFilter, texts};
use weir_translate::conversation::{Api, Request};
use weir_translate::json::Tape;
use weir_translate::{
    Dialect, ReplyContext, Seen, SseDecoder, SseEvent, StreamTranslator, TokenUsage, TranslateError,
    anthropic, error, gemini, messages,
};

use crate::guard::Guards;

/// Upper bound of the bytes of an event.
const EVENT_BYTES_MAX: usize = 1 << 20;

const APIS: [Api; 5] =
    [Api::ChatCompletions, Api::Completions, Api::Responses, Api::Messages, Api::CountTokens];

/// Redacts e-mail addresses and payment cards in both directions.
static CHECKS: LazyLock<Arc<Checks>> = LazyLock::new(|| {
    let guardrail = json!({"id": "pii", "detect": ["email", "payment_card"], "on": ["input", "output"]});
    let guardrail = serde_json::from_value(guardrail).unwrap();
    let guards = Guards::new(&[guardrail], &weir_telemetry::Metrics::new("fuzzing")).unwrap();
    guards.of("m", None).unwrap().unwrap().checks.clone()
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
    let _ = (
        crate::augment::Asked::read(&request).is_ok(),
        request.object(),
        request.completion_max(Api::ChatCompletions, 1),
    );
    let mut report = Report::default();
    // a file whose text can't be replaced is refused
    let checked = CHECKS.check_input(request.body(), &[], &mut Placeholders::new(), &mut report);
    let Ok(checked) = checked else { return };
    let Some(fields) = object(body) else { return };
    assert!(object(&checked).is_some(), "a guardrail leaves JSON");
    check_texts(body, &fields);
    check_rendered(&request, fields);
}

/// The texts that guardrails read are those of the JSON, however it is written.
fn check_texts(body: &[u8], fields: &Map<String, Value>) {
    let texts_of = |json: &[u8]| Tape::parse(json).map(|tape| texts(tape.root(json))).unwrap_or_default();
    let found = texts_of(body);
    let canonical = Value::Object(fields.clone()).to_string().into_bytes();
    assert!(
        texts_of(&canonical).iter().all(|text| found.contains(text)),
        "a text is found however its key is written"
    );
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
    if let Ok(tape) = Tape::parse(body) {
        TokenUsage::of(tape.root(body));
    }
    if is_json(body) {
        let mut report = Report::default();
        let body = Bytes::copy_from_slice(body);
        let checked =
            CHECKS.check_output(Api::ChatCompletions, body, &[], &Placeholders::new(), &mut report).unwrap();
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
        assert!(
            parse(&[&out]).iter().filter_map(SseEvent::data).all(|data| data == b"[DONE]" || is_json(data))
        );
    }
}

/// The output of a translator, its result, and the tokens that it counted.
type Translation = (Vec<u8>, Result<(), TranslateError>, TokenUsage);

fn translate(mut translator: StreamTranslator, chunks: &[&[u8]]) -> Translation {
    let mut out = Vec::new();
    let events = parse(chunks);
    let mut datas = events.iter().filter_map(SseEvent::data);
    let pushed = datas.try_for_each(|data| translator.push(&String::from_utf8_lossy(data), &mut out));
    let result = pushed.and_then(|()| translator.finish(&mut out));
    (out, result, translator.usage())
}

fn parse(chunks: &[&[u8]]) -> Vec<SseEvent> {
    let (mut decoder, mut events) = (SseDecoder::new(EVENT_BYTES_MAX), Vec::new());
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next_event().expect("the input is smaller than an event may be") {
            events.push(event);
        }
    }
    events
}

/// Events come out as they came in, and are read without a panic.
fn check_frames(chunks: &[&[u8]], stream: &[u8]) {
    let (events, whole) = (parse(chunks), parse(&[stream]));
    let datas = |events: &[SseEvent]| -> Vec<Vec<u8>> {
        events.iter().filter_map(|event| event.data().map(<[u8]>::to_vec)).collect()
    };
    assert_eq!(datas(&events), datas(&whole), "events are the same in any chunks");
    for event in whole {
        for strips_usage in [false, true] {
            let passed = Seen::default().look(event.clone(), strips_usage);
            assert!(passed.is_err() || strips_usage || passed == Ok(event.raw().clone()));
        }
    }
}

/// Guardrails on a stream leave every event JSON that was JSON.
fn check_filter(api: Api, stream: &[u8]) {
    let mut filter = StreamFilter::new(api, CHECKS.clone(), Arc::default(), Vec::new());
    let mut out = Vec::new();
    filter.push(stream, &mut out).expect("no rule blocks");
    filter.finish(&mut out).expect("no rule blocks");
    let is_valid = |data: &[u8]| data.trim_ascii() == b"[DONE]" || is_json(data);
    let all_valid = |events: &[u8]| SseEvent::all(events).iter().filter_map(SseEvent::data).all(is_valid);
    if all_valid(stream) {
        let text = out.escape_ascii();
        assert!(all_valid(&out), "{text}");
    }
}

#[cfg(test)]
mod tests;
