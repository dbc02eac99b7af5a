//! What is done with a reply on its way to the caller: guardrails, citations, and keeping it for later requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use weir_config::Direction;
use weir_telemetry::Metrics;
use weir_telemetry::requests::RequestEntry;
use weir_translate::TokenUsage;

use crate::attached::{Attachment, Cleaner, texts};
use crate::attached_stream::StreamAttachment;
use crate::augment::Sources;
use crate::cache::{Kept, REPLY_BYTES_MAX, ReplyCache};
use crate::filter::{BlockedBy, StreamFilter};
use crate::frames::{data_of, end_of_first_event};
use crate::guard::{Guard, Report, blocked, direction_name};
use crate::long_scans::scanned;
use crate::reply_key::{Key, Question};
use crate::{Api, LlmError};
use weir_guardrails::Placeholders;

/// What is done with one reply.
pub(crate) struct Output {
    pub(crate) api: Api,
    pub(crate) guard: Option<Arc<Guard>>,
    /// Names of models that replies repeat.
    pub(crate) models: Vec<String>,
    /// Those of the request.
    pub(crate) placeholders: Arc<Placeholders>,
    pub(crate) sources: Option<Sources>,
    pub(crate) keeping: Option<Keeping>,
    pub(crate) reporter: Reporter,
}

/// Where a reply is kept.
pub(crate) struct Keeping {
    pub(crate) cache: ReplyCache,
    pub(crate) key: Key,
    /// For the semantic cache.
    pub(crate) question: Option<Question>,
    pub(crate) lifetime: Duration,
}

/// Tells telemetry what guardrails found.
pub(crate) struct Reporter {
    pub(crate) entry: RequestEntry,
    pub(crate) metrics: Arc<Metrics>,
    /// What was found in the request.
    pub(crate) report: Report,
}

impl Reporter {
    /// Counts what was found and writes it into the record.
    pub(crate) fn tell(&self) {
        if self.report.is_empty() {
            return;
        }
        for found in self.report.iter() {
            let direction = direction_name(found.direction);
            self.metrics.guardrail_found(direction, &found.rule, found.action, found.count);
        }
        let text = self.report.to_text();
        self.entry.update(|record| record.guardrails = Some(text.into()));
    }
}

impl Keeping {
    fn keep(self, body: Bytes, headers: HeaderMap, usage: TokenUsage, cost_nanos: u64, metrics: &Metrics) {
        let now = Instant::now();
        let kept = Kept { body, headers, usage, cost_nanos };
        self.cache.put(self.key, &kept, self.question, self.lifetime, now);
        metrics.reply_cache_bytes(self.cache.bytes());
    }
}

impl Output {
    /// Whether anything is done.
    pub(crate) fn is_needed(&self) -> bool {
        self.guard.is_some() || self.sources.is_some() || self.keeping.is_some()
    }

    /// The whole reply for the caller. `used`: what it cost, if it may be kept.
    ///
    /// # Errors
    /// `Blocked`.
    pub(crate) async fn whole(
        &mut self,
        body: Bytes,
        headers: &HeaderMap,
        used: Option<(TokenUsage, u64)>,
    ) -> Result<Bytes, LlmError> {
        let is_whole = |body: &[u8]| serde_json::from_slice::<IgnoredAny>(body).is_ok();
        if let Some((keeping, (usage, cost))) = self.keeping.take().zip(used)
            && is_whole(&body)
        {
            keeping.keep(body.clone(), headers.clone(), usage, cost, &self.reporter.metrics);
        }
        // citations are compared with the sources before anything of the answer is redacted
        let before = self.sources.as_ref().map(|_| texts(self.api, &body)).unwrap_or_default();
        let mut body = body;
        if let Some(guard) = &self.guard {
            let (guard, models) = (guard.clone(), self.models.clone());
            let placeholders = self.placeholders.clone();
            let mut report = std::mem::take(&mut self.reporter.report);
            let (checked, report) = scanned(body.len(), move || {
                let checked = guard.check_output(body, &models, &placeholders, &mut report);
                (checked, report)
            })
            .await?;
            self.reporter.report = report;
            body = checked?;
        }
        if let Some(mut attachment) = self.attachment() {
            body = attachment.attach(body, &before);
            self.reporter.report.extend(&attachment.cleaner.report);
        }
        if let Some(guard) = &self.guard {
            guard.moderate(Direction::Output, &body, &mut self.reporter.report).await?;
        }
        Ok(body)
    }

    fn attachment(&mut self) -> Option<Attachment> {
        let cleaner = Cleaner::new(self.guard.clone(), self.placeholders.clone());
        Some(Attachment::new(self.api, self.sources.take()?, cleaner))
    }

    /// The events of a whole stream for the caller, of a reply that was kept.
    ///
    /// # Errors
    /// `Blocked`.
    pub(crate) fn kept_stream(self, events: &Bytes) -> Result<Bytes, LlmError> {
        let mut stream = StreamOutput::new(self, HeaderMap::new());
        let mut out = stream
            .push(events.clone())
            .map_err(|(_, BlockedBy(rule))| blocked(Direction::Output, &rule))?
            .to_vec();
        let rest = stream.end().map_err(|(_, BlockedBy(rule))| blocked(Direction::Output, &rule))?;
        out.extend_from_slice(&rest);
        Ok(out.into())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.reporter.tell();
    }
}

/// What is done with a stream.
pub(crate) struct StreamOutput {
    filter: Option<StreamFilter>,
    sources: Option<StreamAttachment>,
    head: Option<ChunkHead>,
    /// Bytes of the stream as they came, if it is to be kept.
    copy: Option<Vec<u8>>,
    /// The headers of the reply.
    headers: HeaderMap,
    output: Output,
}

/// What chunks of a stream repeat.
#[derive(Deserialize)]
pub(crate) struct ChunkHead {
    id: Value,
    created: Value,
    model: Value,
}

impl StreamOutput {
    pub(crate) fn new(mut output: Output, headers: HeaderMap) -> StreamOutput {
        let guard = output.guard.as_ref().filter(|guard| guard.output.is_some() || guard.restores);
        let filter = guard.map(|guard| {
            StreamFilter::new(output.api, guard.clone(), output.placeholders.clone(), output.models.clone())
        });
        let copy = output.keeping.is_some().then(Vec::new);
        let sources = output.attachment().map(|attachment| StreamAttachment::new(output.api, attachment));
        StreamOutput { filter, sources, head: None, copy, headers, output }
    }

    /// What can be sent of whole events.
    ///
    /// # Errors
    /// The rule that ends the stream, and what is sent before.
    pub(crate) fn push(&mut self, events: Bytes) -> Result<Bytes, (Bytes, BlockedBy)> {
        if let Some(copy) = &mut self.copy {
            if copy.len() + events.len() > REPLY_BYTES_MAX {
                self.copy = None;
            } else {
                copy.extend_from_slice(&events);
            }
        }
        self.read_head(&events);
        if let Some(sources) = &mut self.sources {
            sources.read(&events);
        }
        let Some(filter) = &mut self.filter else { return Ok(self.with_sources(events)) };
        let mut out = Vec::with_capacity(events.len());
        let pushed = filter.push(&events, &mut out);
        let sent = self.with_sources(out.into());
        pushed.map(|()| sent.clone()).map_err(|blocked| (sent, blocked))
    }

    /// What is sent at the end of the stream.
    ///
    /// # Errors
    /// As of [`StreamOutput::push`].
    pub(crate) fn end(&mut self) -> Result<Bytes, (Bytes, BlockedBy)> {
        let mut out = Vec::new();
        let finished = self.filter.as_mut().map_or(Ok(()), |filter| filter.finish(&mut out));
        let mut sent = self.with_sources(out.into());
        if let Some(sources) = &mut self.sources {
            sent = [&sent[..], &sources.end()].concat().into();
        }
        finished.map(|()| sent.clone()).map_err(|blocked| (sent, blocked))
    }

    /// The events that end the stream after a rule blocked it.
    pub(crate) fn blocked_events(&self, rule: &str) -> String {
        blocked_events(self.output.api, self.head.as_ref(), rule)
    }

    /// Keeps a stream that is complete, and whose events can be read.
    pub(crate) fn keep(&mut self, usage: TokenUsage, cost_nanos: u64) {
        let can_be_read = |events: &[u8]| {
            let is_read =
                |data: &str| data.trim() == "[DONE]" || serde_json::from_str::<IgnoredAny>(data).is_ok();
            datas(events).all(|(_, data)| is_read(data))
        };
        if let Some((keeping, copy)) = self.output.keeping.take().zip(self.copy.take())
            && can_be_read(&copy)
        {
            let headers = std::mem::take(&mut self.headers);
            keeping.keep(copy.into(), headers, usage, cost_nanos, &self.output.reporter.metrics);
        }
    }

    /// Takes in what chunks repeat, of the first that has it.
    fn read_head(&mut self, events: &[u8]) {
        let has_head = matches!(self.output.api, Api::ChatCompletions | Api::Completions);
        if has_head && self.head.is_none() {
            self.head = datas(events).find_map(|(_, data)| serde_json::from_str(data).ok());
        }
    }

    fn with_sources(&mut self, events: Bytes) -> Bytes {
        match &mut self.sources {
            Some(sources) => sources.push(&events, self.head.as_ref()),
            None => events,
        }
    }
}

/// The data of each event, and where the event begins.
pub(crate) fn datas(events: &[u8]) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < events.len() {
            let (start, event) = (at, &events[at..]);
            let event = &event[..end_of_first_event(event)];
            at += event.len();
            if let Some(data) = data_of(event).and_then(|data| std::str::from_utf8(&event[data]).ok()) {
                return Some((start, data));
            }
        }
        None
    })
}

/// A chunk with what the others of its stream repeat.
pub(crate) fn begun(head: Option<&ChunkHead>) -> Map<String, Value> {
    let Some(ChunkHead { id, created, model }) = head else { return Map::new() };
    let fields = [("id", id), ("created", created), ("model", model)];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

impl Drop for StreamOutput {
    fn drop(&mut self) {
        if let Some(filter) = &self.filter {
            self.output.reporter.report.extend(filter.report());
        }
        if let Some(sources) = &self.sources {
            self.output.reporter.report.extend(&sources.attachment.cleaner.report);
        }
    }
}

/// The events that end a stream which a rule blocked: as a provider's own filter ends one. `head`: what its chunks repeat.
fn blocked_events(api: Api, head: Option<&ChunkHead>, rule: &str) -> String {
    let message = format!("the answer was blocked by the guardrail rule `{rule}`");
    match api {
        Api::ChatCompletions | Api::Completions | Api::Embeddings => {
            let (object, field, value) = match api == Api::Completions {
                true => ("text_completion", "text", json!("")),
                false => ("chat.completion.chunk", "delta", json!({})),
            };
            let choice = json!({"index": 0, field: value, "finish_reason": "content_filter"});
            let mut chunk = begun(head);
            let fields = [
                ("object", json!(object)),
                ("choices", json!([choice])),
                ("weir", json!({"guardrail": rule})),
            ];
            chunk.extend(fields.map(|(name, value)| (name.to_owned(), value)));
            format!("data: {}\n\ndata: [DONE]\n\n", Value::Object(chunk))
        }
        Api::Messages | Api::CountTokens => {
            let delta = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_sequence": null},
                "usage": {"output_tokens": 0}, "weir": {"guardrail": rule}});
            format!(
                "event: message_delta\ndata: {delta}\n\nevent: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
            )
        }
        Api::Responses => {
            let error =
                json!({"type": "error", "code": "guardrail_blocked", "message": message, "param": null});
            format!("event: error\ndata: {error}\n\n")
        }
    }
}
