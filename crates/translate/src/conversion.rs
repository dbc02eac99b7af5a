//! How a request of a caller's API becomes that of a provider, and the reply becomes one of the caller's API.

use std::time::Duration;

use bytes::Bytes;

use crate::conversation::{Api, Request};
use crate::events::{EventFacts, ProviderError};
use crate::json::{Tape, Value};
use crate::ollama::{Endpoint, Moment, OllamaStream, Reply};
use crate::{
    Dialect, ReplyContext, SseEvent, StreamTranslator, TokenUsage, TranslateError, anthropic, error, gemini,
    messages,
};

/// How the reply of a provider becomes that of the request's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// It is the same API: bytes are passed on.
    Same,
    /// From Anthropic's messages to chat completions.
    FromAnthropic,
    /// From Gemini to chat completions.
    FromGemini,
    /// From chat completions to Anthropic's messages.
    ToMessages,
}

impl Conversion {
    /// The body for a model of the provider. `asks_for_usage`: whether a stream of chat completions is asked for its usage.
    ///
    /// # Errors
    /// [`TranslateError::Request`]: the provider has no counterpart for a field.
    pub fn request(
        self,
        api: Api,
        request: &Request,
        model: &str,
        asks_for_usage: bool,
    ) -> Result<Bytes, TranslateError> {
        let body = request.body();
        Ok(match self {
            Conversion::Same => {
                let body = request.rendered(model, asks_for_usage);
                // of a conversation that another provider began
                let stripped =
                    api.has_made_reasoning().then(|| messages::without_made_reasoning(&body)).flatten();
                stripped.map_or(body, Into::into)
            }
            Conversion::FromAnthropic => anthropic::request(body, model)?.into(),
            Conversion::FromGemini => gemini::request(body, model)?.into(),
            Conversion::ToMessages => messages::request(body, model, asks_for_usage)?.into(),
        })
    }

    /// The API that the provider is called by.
    pub fn sent(self, api: Api) -> Api {
        match self {
            Conversion::ToMessages => Api::ChatCompletions,
            Conversion::FromAnthropic => Api::Messages,
            Conversion::Same | Conversion::FromGemini => api,
        }
    }

    /// A whole reply to a request of `api`, and the tokens that the provider counted.
    ///
    /// # Errors
    /// [`TranslateError`]: it is an error, is cut, or has no answer.
    pub fn reply(
        self,
        api: Api,
        body: &Bytes,
        context: impl FnOnce() -> ReplyContext,
    ) -> Result<(Bytes, Option<TokenUsage>), TranslateError> {
        let (translated, usage) = match self {
            Conversion::Same => return Ok((body.clone(), usage_of_passed(api, body)?)),
            Conversion::FromAnthropic => anthropic::reply(body, &context())?,
            Conversion::FromGemini => gemini::reply(body, &context())?,
            Conversion::ToMessages => messages::reply(body, &context())?,
        };
        Ok((translated.into(), Some(usage)))
    }

    /// The body of a reply with an error status.
    pub fn error(self, status: u16, body: Bytes) -> Bytes {
        match self {
            Conversion::Same => body,
            Conversion::FromAnthropic => error(Dialect::Anthropic, status, &body).into(),
            Conversion::FromGemini => error(Dialect::Gemini, status, &body).into(),
            Conversion::ToMessages => messages::error(status, &body).into(),
        }
    }

    /// The translator of a stream's events; `None` where they are passed on.
    pub fn stream(self, context: impl FnOnce() -> ReplyContext) -> Option<StreamTranslator> {
        match self {
            Conversion::Same => None,
            Conversion::FromAnthropic => Some(StreamTranslator::anthropic(context())),
            Conversion::FromGemini => Some(StreamTranslator::gemini(context())),
            Conversion::ToMessages => Some(StreamTranslator::messages(context())),
        }
    }
}

/// Whether a reply of success can be read by every caller that it may be given to again: those of Ollama's API get what was kept of chat completions.
pub fn can_be_kept(api: Api, body: &Bytes, has_events: bool) -> bool {
    let reply = Reply { endpoint: Endpoint::Chat, model: String::new(), shows_thinking: true };
    let moment = Moment { time: String::new(), elapsed: Duration::ZERO };
    let is_json = |data: &[u8]| data.trim_ascii() == b"[DONE]" || Tape::parse(data).is_ok();
    match (has_events, matches!(api, Api::ChatCompletions | Api::Completions)) {
        (true, true) => {
            let (mut lines, mut out) = (OllamaStream::new(reply), Vec::new());
            let read = lines.push_part(body.clone(), &moment, &mut out);
            read.and_then(|()| lines.finish(&moment, &mut out)).is_ok()
        }
        (true, false) => SseEvent::all(body).iter().filter_map(SseEvent::data).all(is_json),
        (false, true) => reply.whole(body, &moment).is_ok(),
        (false, false) => is_json(body),
    }
}

/// The tokens of a reply that is passed on as it is.
fn usage_of_passed(api: Api, body: &[u8]) -> Result<Option<TokenUsage>, TranslateError> {
    let tape =
        Tape::parse(body).map_err(|error| TranslateError::Reply(format!("it is not JSON: {error}")))?;
    let reply = tape.root(body);
    let EventFacts { usage, error, .. } = EventFacts::of(reply);
    if let Some(ProviderError { message, .. }) = error {
        return Err(TranslateError::Provider { kind: "error".to_owned(), message });
    }
    if !has_answer(api, reply) {
        return Err(TranslateError::Reply("it has no answer".to_owned()));
    }
    Ok(usage)
}

/// The states of a response that has no answer yet, or never.
const OPEN: [&str; 3] = ["queued", "in_progress", "cancelled"];

/// Whether a reply has what its API answers in. An answer of no text is one; what a proxy says in JSON of its own is none.
fn has_answer(api: Api, reply: Value<'_>) -> bool {
    let is_list = |name: &str| reply.get(name).is_some_and(Value::is_array);
    match api {
        Api::ChatCompletions | Api::Completions => {
            let is_answer = |choice: Value<'_>| {
                ["message", "delta", "text"]
                    .iter()
                    .any(|name| choice.get(name).is_some_and(|answer| !answer.is_null()))
            };
            let first = reply.get("choices").and_then(|choices| choices.items().next());
            first.is_some_and(is_answer)
        }
        Api::Messages => is_list("content"),
        Api::Responses => {
            let status = reply.get("status");
            let is_open = |status: Value<'_>| OPEN.iter().any(|open| status.is(open));
            (is_list("output") || status.is_some()) && !status.is_some_and(is_open)
        }
        Api::Embeddings => reply.get("data").is_some_and(|data| data.items().next().is_some()),
        Api::CountTokens => true,
    }
}
