//! A streamed reply: events go to the caller as they come. What is not known before its end is settled there.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::time::Sleep;
use weir_api::ErrorCode;
use weir_guardrails::conversation::BlockedBy;
use weir_translate::conversation::error_event;
use weir_translate::events::{EventFacts, ProviderError, is_preface};
use weir_translate::json::Tape;
use weir_translate::{
    Conversion, EventTooLarge, JoinedBytes, ReplyContext, Seen, SseDecoder, SseEvent, StreamTranslator,
    TranslateError,
};
use weir_upstream::DecodedBody;

use crate::Api;
use crate::broken::Broken;
use crate::output::StreamOutput;
use crate::settlement::Settlement;
use crate::table::InFlight;

/// How long a caller waits for the first byte while the first event is awaited; then again for each further one.
const COMMENT_AFTER: Duration = Duration::from_secs(15);

/// How long events are held that say only that a reply begins, while another target could take over.
const PREFACE_HELD_FOR: Duration = Duration::from_secs(1);

/// How long the end of a body is waited for after its last event.
const END_AFTER: Duration = Duration::from_millis(250);

/// Comment sent to the caller meanwhile. Clients skip comments.
const COMMENT: &[u8] = b": the first event is awaited\n\n";

/// The events of an upstream, in the caller's API.
pub(crate) struct StreamSource {
    /// `None` after its end.
    body: Option<DecodedBody>,
    api: Api,
    decoder: SseDecoder,
    event_bytes_max: usize,
    events: Events,
    seen: Seen,
    /// Bytes ready for the caller.
    ready: Bytes,
    /// Why the stream broke, to be reported behind the ready bytes.
    broken: Option<Broken>,
    /// Since the last event: until when the end of the upstream's body is waited for, so that its connection can be used again.
    ending: Option<Pin<Box<Sleep>>>,
    /// `None` once the first event is there.
    waiting: Option<Waiting>,
    in_flight: InFlight,
}

/// The wait for the first event.
struct Waiting {
    /// The time limit. Each comment of the upstream puts it off.
    limit: Duration,
    limit_at: Pin<Box<Sleep>>,
    /// When the caller gets a comment; `None` while another target could take over, and nothing is sent.
    comment_at: Option<Pin<Box<Sleep>>>,
    /// Whether an event came that says that the reply begins.
    has_begun: bool,
}

impl Waiting {
    fn new(limit: Duration, started: Instant, passes_comments: bool) -> Waiting {
        let sleep = |duration: Duration| Box::pin(tokio::time::sleep_until((started + duration).into()));
        let comment_at = passes_comments.then(|| sleep(COMMENT_AFTER));
        Waiting { limit, limit_at: sleep(limit), comment_at, has_begun: false }
    }

    /// The upstream has sent a comment: it is working.
    fn put_off(&mut self) {
        self.limit_at.as_mut().reset((Instant::now() + self.limit).into());
    }

    /// An event has come that says only that the reply begins. Whether it is held: from the first one on for a second.
    fn begin(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.limit_at.as_mut().reset((Instant::now() + PREFACE_HELD_FOR).into());
        }
        self.comment_at.is_none()
    }

    /// Ready with a comment for the caller, or with the limit that has passed.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Duration>> {
        if self.limit_at.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(self.limit));
        }
        let Some(comment_at) = &mut self.comment_at else { return Poll::Pending };
        ready!(comment_at.as_mut().poll(context));
        comment_at.as_mut().reset((Instant::now() + COMMENT_AFTER).into());
        Poll::Ready(Ok(Bytes::from_static(COMMENT)))
    }
}

/// How a stream is read.
pub(crate) struct Reading {
    /// When the request was sent.
    pub(crate) started: Instant,
    /// The time limit of the first event.
    pub(crate) first_event: Duration,
    /// Whether comments go to the caller before the first event, because no other target is left.
    pub(crate) passes_comments: bool,
    /// Upper bound of the bytes of one event.
    pub(crate) event_bytes_max: usize,
    /// Whether the usage is to be removed again.
    pub(crate) strips_usage: bool,
}

/// How events become those of the caller's API.
enum Events {
    /// They are passed on.
    Same { strips_usage: bool },
    /// From those of another API.
    Translated(Box<StreamTranslator>),
}

impl StreamSource {
    pub(crate) fn new(
        body: DecodedBody,
        api: Api,
        conversion: Conversion,
        context: impl FnOnce() -> ReplyContext,
        reading: Reading,
        in_flight: InFlight,
    ) -> StreamSource {
        let events = match conversion.stream(context) {
            Some(translator) => Events::Translated(Box::new(translator)),
            None => Events::Same { strips_usage: reading.strips_usage },
        };
        StreamSource {
            body: Some(body),
            api,
            decoder: SseDecoder::new(reading.event_bytes_max),
            event_bytes_max: reading.event_bytes_max,
            events,
            seen: Seen::default(),
            ready: Bytes::new(),
            broken: None,
            ending: None,
            waiting: Some(Waiting::new(reading.first_event, reading.started, reading.passes_comments)),
            in_flight,
        }
    }

    /// Waits until something is ready for the caller, or the stream has ended.
    ///
    /// # Errors
    /// The reason why the stream broke.
    pub(crate) async fn fill(&mut self) -> Result<(), Broken> {
        std::future::poll_fn(|context| self.poll_ready(context)).await?;
        // nothing of an answer came before it
        let is_first = !self.seen.has_begun;
        let broken = self.broken.take_if(|broken| is_first && matches!(broken, Broken::Events(_)));
        broken.map_or(Ok(()), Err)
    }

    /// Ready when there is something for the caller, or nothing follows.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        while self.ready.is_empty() || self.holds_comments() {
            if let Some(broken) = self.broken.take() {
                self.body = None;
                return Poll::Ready(Err(broken));
            }
            let Some(body) = &mut self.body else { break };
            if let Some(ending) = &mut self.ending {
                ready!(body.poll_end(ending, context));
                self.body = None;
                break;
            }
            match body.poll_next_unpin(context) {
                Poll::Pending => {
                    let Some(waiting) = &mut self.waiting else { return Poll::Pending };
                    match ready!(waiting.poll(context)) {
                        Ok(comment) => self.ready = comment,
                        Err(_) if self.seen.events > 0 => self.waiting = None,
                        Err(_) => return Poll::Ready(Err(self.timed_out())),
                    }
                }
                Poll::Ready(Some(Ok(chunk))) => {
                    let events = self.take(chunk)?;
                    self.hold(events)?;
                    if self.is_too_late() {
                        return Poll::Ready(Err(self.timed_out()));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.body = None;
                    return Poll::Ready(Err(error.into()));
                }
                Poll::Ready(None) => {
                    self.body = None;
                    let events = self.end()?;
                    self.hold(events)?;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether no event has come within the limit, though bytes come all the time.
    fn is_too_late(&self) -> bool {
        let limit_at = self.waiting.as_ref().map(|waiting| waiting.limit_at.deadline());
        self.seen.events == 0 && limit_at.is_some_and(|limit_at| limit_at <= Instant::now().into())
    }

    /// The first event did not come in time.
    fn timed_out(&mut self) -> Broken {
        self.body = None;
        let limit = self.waiting.as_ref().map_or(Duration::ZERO, |waiting| waiting.limit);
        Broken::Upstream(self.in_flight.upstream().client.timed_out(limit))
    }

    /// Whether the first event is awaited and comments before it are held, because another target could take over.
    fn holds_comments(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.comment_at.is_none())
    }

    /// Adds events to what is ready.
    fn hold(&mut self, events: Bytes) -> Result<(), Broken> {
        if self.ready.len() + events.len() > self.event_bytes_max && !self.ready.is_empty() {
            return Err(too_large(self.event_bytes_max));
        }
        let events = self.in_flight.upstream().client.without_key(events);
        self.ready = if self.ready.is_empty() { events } else { [&self.ready[..], &events].concat().into() };
        Ok(())
    }

    /// The error by which the provider began its stream; nothing of it has gone to the caller. Errors of translated streams break these.
    pub(crate) fn error_at_start(&self) -> Option<ProviderError> {
        self.seen.error.clone().filter(|_| !self.seen.has_begun)
    }

    /// Decodes a chunk into bytes for the caller.
    fn take(&mut self, chunk: Bytes) -> Result<Bytes, Broken> {
        // some servers send no empty line behind a comment
        let is_comment = self.seen.events == 0 && chunk.trim_ascii_start().starts_with(b":");
        self.waiting.iter_mut().filter(|_| is_comment).for_each(Waiting::put_off);
        self.decoder.push(chunk);
        let mut out = JoinedBytes::default();
        while self.broken.is_none()
            && let Some(event) =
                self.decoder.next_event().map_err(|EventTooLarge| too_large(self.event_bytes_max))?
        {
            self.take_events(event, &mut out);
            if self.seen.is_complete && self.broken.is_none() {
                // what comes after the last event is no part of the answer
                out.push(self.finish()?);
                self.ending = Some(Box::pin(tokio::time::sleep(END_AFTER)));
                break;
            }
        }
        Ok(out.into_bytes())
    }

    /// Takes an event, or several where a server left out the empty lines between them.
    fn take_events(&mut self, event: SseEvent, out: &mut JoinedBytes) {
        let has_lines = event.data_at().is_none();
        match event.data().filter(|data| has_lines && Tape::parse(data).is_err()) {
            Some(_) => {
                let mut events = event.separated().into_iter();
                while self.broken.is_none()
                    && let Some(event) = events.next()
                {
                    self.take_event(event, out);
                }
            }
            None => self.take_event(event, out),
        }
    }

    /// Appends an event, or its translation, to `out`. An event that breaks the stream is reported after those before it.
    fn take_event(&mut self, event: SseEvent, out: &mut JoinedBytes) {
        match &mut self.events {
            Events::Same { strips_usage } => match self.seen.look(event, *strips_usage) {
                Ok(passed) => {
                    out.push(passed);
                    // some servers send `[DONE]` behind an error
                    self.broken = self.seen.error.is_some().then_some(Broken::Told);
                }
                Err(reason) => self.broken = Some(Broken::Events(reason)),
            },
            Events::Translated(translator) => {
                let Some(data) = event.data() else {
                    if event.is_comment() {
                        out.push(event.into_raw());
                    }
                    return;
                };
                let Some(text) = event.text() else {
                    self.broken = Some(Broken::Events("an event is not valid UTF-8".to_owned()));
                    return;
                };
                if data.trim_ascii().is_empty() {
                    return; // a sign of life of some servers
                }
                let tape = Tape::parse(data);
                self.seen.count(tape.as_ref().ok().map(|tape| tape.root(data)));
                let facts = tape.as_ref().map(|tape| EventFacts::named(event.name(), tape.root(data)));
                let EventFacts { is_last, error, usage } = facts.unwrap_or_default();
                self.seen.counts(usage);
                if let Some(error) = error {
                    self.broken = Some(Broken::Events(error.message.clone()));
                    self.seen.error = Some(error);
                }
                let mut translated = Vec::new();
                match translator.push(text, &mut translated) {
                    Ok(()) => {
                        let begins = |tape: &Tape| !is_preface(tape.root(data));
                        self.seen.has_begun |= self.broken.is_none() && tape.as_ref().is_ok_and(begins);
                        let is_done = self.api == Api::Messages && data.trim_ascii() == b"[DONE]";
                        self.seen.is_complete |= is_last || is_done;
                    }
                    Err(error) => {
                        if let TranslateError::Provider { message, .. } = &error {
                            self.seen.error.get_or_insert_with(|| ProviderError::new(message, data));
                        }
                        self.broken = Some(reason(error));
                    }
                }
                out.push(translated.into());
            }
        }
        if self.seen.events > 0 {
            let may_wait = !self.seen.has_begun && self.broken.is_none();
            self.waiting.take_if(|waiting| !may_wait || !waiting.begin());
        }
    }

    /// The bytes for the caller at the end of the upstream's stream.
    fn end(&mut self) -> Result<Bytes, Broken> {
        let mut out = JoinedBytes::default();
        // an event whose empty line is missing is completed, unless it was cut
        if let Some(rest) = self.decoder.rest() {
            let whole = [rest.raw().trim_ascii_end(), b"\n\n"].concat();
            self.take_events(SseEvent::new(whole.into()), &mut out);
        }
        if self.broken.is_none() {
            out.push(self.finish()?);
        }
        Ok(out.into_bytes())
    }

    /// The bytes that follow the last event.
    fn finish(&mut self) -> Result<Bytes, Broken> {
        let mut translated = Vec::new();
        match &mut self.events {
            Events::Same { .. } => match self.seen.finish() {
                Ok(end) => translated.extend_from_slice(end),
                Err(reason) => self.broken = Some(Broken::Events(reason)),
            },
            Events::Translated(translator) => {
                translator.finish(&mut translated).map_err(reason)?;
                self.seen.is_complete = true;
            }
        }
        Ok(translated.into())
    }

    /// Writes what is known of the usage into the account.
    fn count(&self, settlement: &mut Settlement) {
        let counted = match &self.events {
            Events::Same { .. } => self.seen.usage,
            Events::Translated(translator) => Some(translator.usage()),
        };
        let tokens = self.seen.tokens.min(settlement.completion_max);
        let counted = counted.filter(|usage| usage.total() > 0).map(|usage| self.seen.charged(usage, tokens));
        settlement.count(counted, tokens);
    }

    /// The event that reports to the caller that the stream broke.
    fn error_event(&self, broken: &Broken, output: Option<&StreamOutput>) -> Bytes {
        let message = format!("the upstream's stream broke: {broken}; {}", broken.remedy());
        let message = self.in_flight.upstream().client.text_without_key(&message);
        let message = output.map_or_else(|| message.clone(), |output| output.cleaned(&message));
        error_event(self.api, &message, broken.code(), broken.is_timeout()).into()
    }
}

fn too_large(event_bytes_max: usize) -> Broken {
    Broken::Events(format!("an event has more than {event_bytes_max} bytes (`event_bytes_max`)"))
}

fn reason(error: TranslateError) -> Broken {
    Broken::Events(error.to_string())
}

/// The upstream's stream broke. The caller has been sent an event that says so; the connection is closed without the last event.
#[derive(Debug, thiserror::Error)]
#[error("the upstream's stream broke")]
pub struct StreamBroken;

/// A reply on its way to the caller. Dropping it cancels the upstream's stream and settles what was used.
pub struct ReplyStream {
    source: StreamSource,
    settlement: Settlement,
    /// The processing of the events on their way.
    output: Option<Box<StreamOutput>>,
    state: ReplyState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyState {
    Beginning,
    Running,
    /// The error event was handed over and is being sent.
    Flushing,
    Breaking,
    /// The error was handed over.
    Broken,
    /// A guardrail ended it; its last events are being sent.
    Blocked,
    Ended,
}

impl ReplyStream {
    pub(crate) fn new(
        source: StreamSource,
        settlement: Settlement,
        output: Option<Box<StreamOutput>>,
    ) -> ReplyStream {
        ReplyStream { source, settlement, output, state: ReplyState::Beginning }
    }

    /// The part of whole events, or of held text at the end, that can be sent. A guardrail may end the reply.
    fn passed(&mut self, events: Option<Bytes>) -> Bytes {
        let Some(output) = &mut self.output else { return events.unwrap_or_default() };
        let passed = match events {
            Some(events) => output.push(events),
            None => output.end(),
        };
        passed.unwrap_or_else(|(before, BlockedBy(rule))| {
            self.settlement.broken("guardrail_blocked");
            // the upstream's work is cancelled
            self.source.body = None;
            self.state = ReplyState::Blocked;
            [&before[..], output.blocked_events(&rule).as_bytes()].concat().into()
        })
    }

    /// Tells the operator that the stream broke, and writes it into the record.
    fn report(&self, broken: &Broken) {
        // what happened to the connection is counted where it is seen
        if !matches!(broken, Broken::Upstream(_)) {
            drop(self.source.in_flight.upstream().client.invalid_reply(&broken.without_text()));
        }
        self.settlement.entry().update(|record| {
            tracing::warn!(
                request_id = &*record.request_id,
                model = record.model.as_deref(),
                upstream = record.upstream.as_deref(),
                reason = broken.without_text(),
                "the stream of an upstream broke"
            );
        });
        self.settlement.broken(broken.code());
    }

    /// Records that the caller can't read the reply.
    pub(crate) fn unreadable(&self) {
        self.settlement.broken(ErrorCode::UpstreamError.as_str());
    }

    /// Keeps a whole reply for later requests, before its end is sent: who has read it finds it.
    fn keep(&mut self) {
        let Some(output) = &mut self.output else { return };
        self.source.count(&mut self.settlement);
        if let Some((usage, cost)) = self.settlement.used() {
            output.keep(usage, cost);
        }
    }
}

impl Stream for ReplyStream {
    type Item = Result<Bytes, StreamBroken>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        match this.state {
            ReplyState::Beginning | ReplyState::Running => {}
            ReplyState::Flushing => {
                // the server sends what it has when the body is not ready
                this.state = ReplyState::Breaking;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            ReplyState::Breaking => {
                this.state = ReplyState::Broken;
                return Poll::Ready(Some(Err(StreamBroken)));
            }
            ReplyState::Blocked | ReplyState::Broken | ReplyState::Ended => return Poll::Ready(None),
        }
        let part = loop {
            let events = match ready!(this.source.poll_ready(context)) {
                Ok(()) => std::mem::take(&mut this.source.ready),
                Err(Broken::Told) => {
                    this.report(&Broken::Told);
                    this.state = ReplyState::Breaking;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Err(broken) => {
                    this.report(&broken);
                    let held = this.passed(None);
                    let event = this.source.error_event(&broken, this.output.as_deref());
                    this.state = ReplyState::Flushing;
                    return Poll::Ready(Some(Ok([held, event].concat().into())));
                }
            };
            let is_end = events.is_empty();
            let part = this.passed((!is_end).then_some(events));
            if is_end && this.state != ReplyState::Blocked {
                this.state = ReplyState::Ended;
                this.keep();
            }
            if is_end || !part.is_empty() {
                break part;
            }
        };
        if part.is_empty() {
            return Poll::Ready(None);
        }
        // comments may come before
        if this.state == ReplyState::Beginning && this.source.seen.events > 0 {
            this.state = ReplyState::Running;
            this.settlement.first_token();
        }
        Poll::Ready(Some(Ok(part)))
    }
}

impl Drop for ReplyStream {
    fn drop(&mut self) {
        self.source.count(&mut self.settlement);
        match self.state {
            ReplyState::Blocked | ReplyState::Broken | ReplyState::Ended => {}
            ReplyState::Beginning | ReplyState::Running | ReplyState::Flushing | ReplyState::Breaking => {
                self.settlement.broken("client_closed_request");
            }
        }
    }
}
