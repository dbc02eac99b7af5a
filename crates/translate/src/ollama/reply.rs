//! OpenAI's whole reply as Ollama's.

use std::time::Duration;

use super::completion::Completion;
use super::{Endpoint, Extras, Function, Line, Message, Metrics, Moment, ToolCall, arguments, done_reason};
use crate::messages::CallDelta;
use crate::{TranslateError, write_json};
use weir_schema::whole_characters;

/// The fields common to every line of a reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The route.
    pub endpoint: Endpoint,
    /// The name of the model, as the caller sent it.
    pub model: String,
    /// Whether the reply shows what the model thought.
    pub shows_thinking: bool,
}

impl Reply {
    /// The body of a request that loads or unloads a model.
    pub fn loaded(&self, reason: &str, moment: &Moment) -> Vec<u8> {
        let line = Line { done: true, done_reason: Some(reason), ..self.line(moment, "", None, &[]) };
        write_json(&line)
    }

    /// Translates a whole reply.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] when the body is no completion, or a call's arguments are no JSON object; [`TranslateError::Provider`] when it
    /// is an error.
    pub fn whole(&self, body: &[u8], moment: &Moment) -> Result<Vec<u8>, TranslateError> {
        let body = whole_characters(body);
        let Completion { choices, usage, sources, citations, weir, .. } = Completion::read(&body)?;
        let Some(choice) = choices.unwrap_or_default().into_iter().next() else {
            return Err(TranslateError::Reply("it has no choices".to_owned()));
        };
        let part = choice.whole()?;
        let finish = part.finish_reason.as_deref();
        let calls: Vec<ToolCall<'_>> =
            part.calls.iter().enumerate().map(|call| tool_call(call, finish)).collect::<Result<_, _>>()?;
        let reason = finish.map_or("stop", done_reason);
        let extras = Extras { sources, citations, weir };
        let line = Line {
            done: true,
            done_reason: Some(reason),
            metrics: Some(Metrics::new(usage, Duration::ZERO, moment.elapsed)),
            logprobs: part.logprobs.as_deref(),
            ..self.line(moment, &part.content, part.thinking(), &calls)
        };
        Ok(write_json(&line.with(&extras)))
    }

    /// A line with a part of the reply.
    pub(super) fn line<'a>(
        &'a self,
        moment: &'a Moment,
        content: &'a str,
        thinking: Option<&'a str>,
        tool_calls: &'a [ToolCall<'a>],
    ) -> Line<'a> {
        let thinking = thinking.filter(|_| self.shows_thinking);
        let line = Line { model: &self.model, created_at: &moment.time, ..Line::default() };
        match self.endpoint {
            Endpoint::Chat => {
                let message = Message { role: "assistant", content, thinking, tool_calls };
                Line { message: Some(message), ..line }
            }
            Endpoint::Generate => Line { response: Some(content), thinking, ..line },
        }
    }
}

impl<'a> Line<'a> {
    pub(super) fn with(self, extras: &'a Extras) -> Line<'a> {
        let Extras { sources, citations, weir } = extras;
        Line { sources: sources.as_deref(), citations: citations.as_deref(), weir: weir.as_deref(), ..self }
    }
}

fn tool_call<'a>(
    (index, call): (usize, &'a CallDelta<'_>),
    finish: Option<&str>,
) -> Result<ToolCall<'a>, TranslateError> {
    let Some(name) = call.name() else {
        return Err(TranslateError::Reply("a call has no name".to_owned()));
    };
    let function = Function { index, name, arguments: arguments(&call.arguments(), finish)? };
    Ok(ToolCall { id: call.id().unwrap_or_default(), function })
}
