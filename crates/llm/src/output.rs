//! Processing of a reply on its way to the caller: guardrails, citations, and storage in the reply cache.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use weir_guardrails::Placeholders;
use weir_guardrails::conversation::{BlockedBy, Direction, Report, StreamFilter};
use weir_replies::{Kept, Key, Question, REPLY_BYTES_MAX, ReplyCache, SharedReply};
use weir_telemetry::Metrics;
use weir_telemetry::requests::RequestEntry;
use weir_translate::conversation::{Api, ChunkHead, CitedStream, attach, blocked_events, texts};
use weir_translate::{TokenUsage, can_be_kept};

use crate::LlmError;
use crate::attached::{Attachment, Cleaner};
use crate::augment::Sources;
use crate::guard::{Guard, blocked};
use crate::long_scans::scanned;

/// The processing of one reply.
pub(crate) struct Output {
    pub(crate) api: Api,
    pub(crate) guard: Option<Arc<Guard>>,
    /// Names of models that replies repeat.
    pub(crate) models: Vec<String>,
    /// Those of the request.
    pub(crate) placeholders: Arc<Placeholders>,
    pub(crate) sources: Option<Sources>,
    pub(crate) keeping: Option<Keeping>,
    /// Cost of earlier calls for the same request, in billionths.
    pub(crate) spent_before: u64,
    pub(crate) reporter: Reporter,
}

/// Where a reply is kept.
pub(crate) struct Keeping {
    pub(crate) cache: ReplyCache,
    pub(crate) key: Key,
    /// Where other gateways find it.
    pub(crate) shared: Option<SharedReply>,
    /// For the semantic cache.
    pub(crate) question: Option<Question>,
    pub(crate) lifetime: Duration,
}

/// Tells telemetry what guardrails found.
pub(crate) struct Reporter {
    pub(crate) entry: RequestEntry,
    pub(crate) metrics: Arc<Metrics>,
    /// The findings in the request.
    pub(crate) report: Report,
}

impl Reporter {
    /// Counts what was found and writes it into the record.
    pub(crate) fn tell(&self) {
        if self.report.is_empty() {
            return;
        }
        for found in self.report.iter() {
            self.metrics.guardrail_found(found.direction.name(), &found.rule, found.action, found.count);
        }
        let text = self.report.to_text();
        self.entry.update(|record| record.guardrails = Some(text.into()));
    }
}

impl Keeping {
    fn keep(self, body: Bytes, headers: HeaderMap, usage: TokenUsage, cost_nanos: u64, metrics: &Metrics) {
        let now = Instant::now();
        let kept = Kept { body, headers, usage, cost_nanos };
        if let Some(shared) = self.shared {
            shared.put(&kept, self.lifetime);
        }
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
        let kept = self.keeping.take().zip(used).filter(|_| can_be_kept(self.api, &body, false));
        let kept = kept.map(|kept| (kept, body.clone()));
        // citations are compared with the sources before anything of the answer is redacted
        let before = self.sources.as_ref().map(|_| texts(self.api, &body)).unwrap_or_default();
        let mut body = self.guarded(body).await?;
        if let Some(mut attachment) = self.attachment() {
            body = attach(self.api, &body, &before, &mut attachment).map_or(body, Bytes::from);
            self.reporter.report.extend(&attachment.cleaner.report);
        }
        if let Some(guard) = &self.guard {
            guard.moderate(Direction::Output, &body, &mut self.reporter.report).await?;
        }
        // one that is blocked is not
        if let Some(((keeping, (usage, cost)), original)) = kept {
            keeping.keep(original, headers.clone(), usage, cost, &self.reporter.metrics);
        }
        Ok(body)
    }

    /// A whole reply, or an error of the provider, after the rules for answers.
    ///
    /// # Errors
    /// `Blocked`.
    pub(crate) async fn guarded(&mut self, body: Bytes) -> Result<Bytes, LlmError> {
        let Some(guard) = &self.guard else { return Ok(body) };
        let (api, checks, models) = (self.api, guard.checks.clone(), self.models.clone());
        let placeholders = self.placeholders.clone();
        let mut report = std::mem::take(&mut self.reporter.report);
        let (checked, report) = scanned(body.len(), move || {
            let checked = checks.check_output(api, body, &models, &placeholders, &mut report);
            (checked, report)
        })
        .await?;
        self.reporter.report = report;
        Ok(checked?)
    }

    /// Applies the rules for answers to texts beside the answer.
    pub(crate) fn cleaner(&self) -> Cleaner {
        Cleaner::new(self.guard.as_ref().map(|guard| guard.checks.clone()), self.placeholders.clone())
    }

    fn attachment(&mut self) -> Option<Attachment> {
        Some(Attachment::new(self.api, self.sources.take()?, self.cleaner()))
    }

    /// The events of a whole stream for the caller, of a reply that was kept.
    ///
    /// # Errors
    /// `Blocked`.
    pub(crate) fn kept_stream(self, events: &Bytes) -> Result<Bytes, LlmError> {
        let refused = |(_, BlockedBy(rule)): (Bytes, BlockedBy)| blocked(Direction::Output, &rule);
        let mut stream = StreamOutput::new(self, HeaderMap::new());
        let sent = stream.push(events.clone()).map_err(refused)?;
        let rest = stream.end().map_err(refused)?;
        Ok([sent, rest].concat().into())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.reporter.tell();
    }
}

/// The processing of a stream.
pub(crate) struct StreamOutput {
    filter: Option<StreamFilter>,
    sources: Option<CitedStream<Attachment>>,
    head: Option<ChunkHead>,
    /// Bytes of the stream as they came, if it is to be kept.
    copy: Option<Vec<u8>>,
    /// The headers of the reply.
    headers: HeaderMap,
    output: Output,
}

impl StreamOutput {
    pub(crate) fn new(mut output: Output, headers: HeaderMap) -> StreamOutput {
        let checks = output.guard.as_ref().map(|guard| guard.checks.clone());
        let checks = checks.filter(|checks| checks.output.is_some() || checks.restores);
        let filter = checks.map(|checks| {
            StreamFilter::new(output.api, checks, output.placeholders.clone(), output.models.clone())
        });
        let copy = output.keeping.is_some().then(Vec::new);
        let sources = output.attachment().map(|attachment| CitedStream::new(output.api, attachment));
        StreamOutput { filter, sources, head: None, copy, headers, output }
    }

    /// The part of whole events that can be sent.
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
        if let Some(sources) = &mut self.sources {
            sources.read(&events);
        }
        let (sent, pushed) = match &mut self.filter {
            Some(filter) => {
                let mut out = Vec::with_capacity(events.len());
                let pushed = filter.push(&events, &mut out);
                (out.into(), pushed)
            }
            None => (events, Ok(())),
        };
        // of what was checked: the events that the gateway makes repeat it
        self.read_head(&sent);
        let sent = self.with_sources(sent);
        pushed.map(|()| sent.clone()).map_err(|blocked| (sent, blocked))
    }

    /// The events sent at the end of the stream.
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

    /// A message of the provider after the rules for answers.
    pub(crate) fn cleaned(&self, message: &str) -> String {
        self.output.cleaner().clean(message)
    }

    /// The events that end the stream after a rule blocked it.
    pub(crate) fn blocked_events(&self, rule: &str) -> String {
        blocked_events(self.output.api, self.head.as_ref(), rule)
    }

    /// Keeps a stream that is complete, and whose events can be read.
    pub(crate) fn keep(&mut self, usage: TokenUsage, cost_nanos: u64) {
        let copy = self.copy.take().map(Bytes::from);
        if let Some((keeping, copy)) = self.output.keeping.take().zip(copy)
            && can_be_kept(self.output.api, &copy, true)
        {
            let headers = std::mem::take(&mut self.headers);
            keeping.keep(copy, headers, usage, cost_nanos, &self.output.reporter.metrics);
        }
    }

    /// Takes in what chunks repeat, of the first that has it.
    fn read_head(&mut self, events: &[u8]) {
        if self.head.is_none() {
            self.head = ChunkHead::read(self.output.api, events);
        }
    }

    fn with_sources(&mut self, events: Bytes) -> Bytes {
        match &mut self.sources {
            Some(sources) => sources.push(&events, self.head.as_ref()),
            None => events,
        }
    }
}

impl Drop for StreamOutput {
    fn drop(&mut self) {
        if let Some(filter) = &self.filter {
            self.output.reporter.report.extend(filter.report());
        }
        if let Some(sources) = &self.sources {
            self.output.reporter.report.extend(&sources.additions().cleaner.report);
        }
    }
}
