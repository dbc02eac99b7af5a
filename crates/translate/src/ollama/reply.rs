//! OpenAI's whole reply as Ollama's.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Endpoint, Extras, Function, Line, Message, Metrics, Moment, ToolCall, Usage, arguments, done_reason,
};
use crate::{TranslateError, read_reply, write_json};

/// What every line of a reply has in common.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The route.
    pub endpoint: Endpoint,
    /// The name of the model, as the caller sent it.
    pub model: String,
    /// Whether the reply shows what the model thought.
    pub shows_thinking: bool,
}

/// A chat completion, or a completion.
#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    usage: Option<Usage>,
    sources: Option<Box<RawValue>>,
    citations: Option<Box<RawValue>>,
    weir: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<ChoiceMessage>,
    text: Option<String>,
    finish_reason: Option<String>,
    logprobs: Option<Logprobs>,
}

#[derive(Deserialize)]
struct ChoiceMessage {
    content: Option<String>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<CompletionCall>>,
}

#[derive(Deserialize)]
struct CompletionCall {
    #[serde(default)]
    id: Option<String>,
    function: CompletionFunction,
}

#[derive(Deserialize)]
struct CompletionFunction {
    name: String,
    arguments: Option<String>,
}

/// The log probabilities of the tokens: their list has Ollama's shape.
#[derive(Deserialize)]
pub(super) struct Logprobs {
    pub(super) content: Option<Box<RawValue>>,
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
    /// [`TranslateError::Reply`] when the body is no completion, or a call's arguments are no JSON object.
    pub fn whole(&self, body: &[u8], moment: &Moment) -> Result<Vec<u8>, TranslateError> {
        let completion: Completion = read_reply(body)?;
        let Completion { choices, usage, sources, citations, weir } = completion;
        let Some(choice) = choices.into_iter().next() else {
            return Err(TranslateError::Reply("it has no choices".to_owned()));
        };
        let message = choice.message.as_ref();
        let text = |read: fn(&ChoiceMessage) -> &Option<String>| {
            message.and_then(|message| read(message).as_deref()).filter(|text| !text.is_empty())
        };
        let content = text(|message| &message.content).or(text(|message| &message.refusal));
        let content = content.or(choice.text.as_deref()).unwrap_or_default();
        let thinking = text(|message| &message.reasoning_content).or(text(|message| &message.reasoning));
        let calls = message.and_then(|message| message.tool_calls.as_deref()).unwrap_or_default();
        let calls: Vec<ToolCall<'_>> = calls.iter().enumerate().map(tool_call).collect::<Result<_, _>>()?;
        let reason = choice.finish_reason.as_deref().map_or("stop", done_reason);
        let extras = Extras { sources, citations, weir };
        let logprobs = choice.logprobs.as_ref().and_then(|logprobs| logprobs.content.as_deref());
        let line = Line {
            done: true,
            done_reason: Some(reason),
            metrics: Some(Metrics::new(usage, Duration::ZERO, moment.elapsed)),
            logprobs,
            ..self.line(moment, content, thinking, &calls)
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

fn tool_call((index, call): (usize, &CompletionCall)) -> Result<ToolCall<'_>, TranslateError> {
    let arguments = arguments(call.function.arguments.as_deref().unwrap_or_default())?;
    let function = Function { index, name: &call.function.name, arguments };
    Ok(ToolCall { id: call.id.as_deref().unwrap_or_default(), function })
}
