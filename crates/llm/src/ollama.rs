//! Requests of Ollama's API: each becomes a chat completion, or a completion, and its reply is translated back. Limits, guardrails, kept replies
//! and sources are those of the request that it becomes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use weir_policy::Caller;
use weir_translate::ollama::{self, Endpoint, Moment, OllamaStream, Reply};

use crate::attempt::is_event_stream;
use crate::exchange::{LlmBody, LlmCall, LlmReply};
use crate::stream::{ReplyStream, StreamBroken};
use crate::{Api, Llm, LlmError};

/// The tag that Ollama's clients append to names without one.
const LATEST: &str = ":latest";

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

impl Llm {
    /// Answers a request of Ollama's API; the API of the call does not count.
    ///
    /// # Errors
    /// [`LlmError`].
    pub async fn forward_ollama(&self, endpoint: Endpoint, call: LlmCall) -> Result<LlmReply, LlmError> {
        let started = Instant::now();
        let request = ollama::request(endpoint, &call.body)?;
        let name = self.name_without_tag(&call.caller, &request.model).to_owned();
        let reply = Reply { endpoint, model: request.model.clone(), shows_thinking: request.shows_thinking };
        if let Some(reason) = request.load {
            call.entry.update(|record| record.model = Some(name.as_str().into()));
            if !call.caller.models.contains(&name) || !self.has_model(&name) {
                return Err(LlmError::NoModel(name));
            }
            let body = reply.loaded(reason, &moment(started)).into();
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON)]);
            return Ok(LlmReply { status: StatusCode::OK, headers, body: LlmBody::Whole(body) });
        }
        let api = if request.is_completion { Api::Completions } else { Api::ChatCompletions };
        let is_stream = request.is_stream;
        let call = LlmCall { api, body: request.body(&name).into(), ..call };
        let answered = Box::pin(self.forward(call)).await?;
        translated(answered, reply, is_stream, started)
    }

    /// The name that a caller means: `:latest` counts only where there is a model of the whole name.
    pub fn name_without_tag<'a>(&self, caller: &Caller, name: &'a str) -> &'a str {
        let Some(short) = name.strip_suffix(LATEST) else { return name };
        if self.table().is_named(name) || !caller.models.contains(short) { name } else { short }
    }
}

fn moment(started: Instant) -> Moment {
    Moment { time: jiff::Timestamp::now().to_string(), elapsed: started.elapsed() }
}

fn translated(
    answered: LlmReply,
    reply: Reply,
    is_stream: bool,
    started: Instant,
) -> Result<LlmReply, LlmError> {
    let LlmReply { status, mut headers, body } = answered;
    let has_events = is_event_stream(&headers);
    headers.insert(CONTENT_TYPE, if is_stream && status.is_success() { LINES } else { JSON });
    let body = match body {
        LlmBody::Whole(body) if !status.is_success() => {
            LlmBody::Whole(ollama::error(status.as_u16(), &body).into())
        }
        // a stream that was kept
        LlmBody::Whole(body) if has_events => {
            let (mut lines, mut out) = (OllamaStream::new(reply), Vec::new());
            lines.push_part(body, &moment(started), &mut out)?;
            lines.finish(&moment(started), &mut out)?;
            LlmBody::Whole(out.into())
        }
        LlmBody::Whole(body) => {
            let mut whole = reply.whole(&body, &moment(started))?;
            if is_stream {
                whole.push(b'\n');
            }
            LlmBody::Whole(whole.into())
        }
        LlmBody::Stream(source) => {
            let lines = OllamaStream::new(reply);
            LlmBody::Lines(Box::new(LineStream { source, lines, started, state: LineState::Running }))
        }
        LlmBody::Lines(lines) => LlmBody::Lines(lines),
    };
    Ok(LlmReply { status, headers, body })
}

/// A reply on its way to a caller of Ollama's API: lines of JSON. Dropping it cancels the upstream's stream and settles what was used.
pub struct LineStream {
    source: Box<ReplyStream>,
    lines: OllamaStream,
    started: Instant,
    state: LineState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    Running,
    /// The caller was sent an error; the source reports the end of its stream.
    Failed,
    Ended,
}

impl Stream for LineStream {
    type Item = Result<Bytes, StreamBroken>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.state == LineState::Ended {
                return Poll::Ready(None);
            }
            let events = ready!(this.source.poll_next_unpin(context));
            let mut out = Vec::new();
            let translated = match events {
                Some(Err(broken)) => {
                    this.state = LineState::Ended;
                    return Poll::Ready(Some(Err(broken)));
                }
                Some(Ok(_)) if this.state == LineState::Failed => continue,
                Some(Ok(events)) => this.lines.push_part(events, &moment(this.started), &mut out),
                None => {
                    let is_whole = std::mem::replace(&mut this.state, LineState::Ended) == LineState::Running;
                    let moment = moment(this.started);
                    if is_whole { this.lines.finish(&moment, &mut out) } else { Ok(()) }
                }
            };
            if let Err(error) = translated {
                out.extend(ollama::error_line(&error.to_string()));
                this.source.unreadable();
                if this.state == LineState::Running {
                    this.state = LineState::Failed;
                }
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(out.into())));
            }
        }
    }
}
