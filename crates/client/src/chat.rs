//! Chat with the language models behind a gateway, as a stream, with citations of a collection's documents if asked for.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_api::{ChatCitation, ChatRetrieval, ChatSource};

use crate::call::{ApiCall, Failed, Retries, in_time, refusal};
use crate::events::EventReader;
use crate::{Client, ClientError, Result};

/// A conversation to be continued by a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The name of a route, or `UPSTREAM/NAME`.
    pub model: String,
    /// The messages so far; the last one is the question.
    pub messages: Vec<ChatMessage>,
    /// Which documents the answer may use: the field `weir` of the request; `None`: none.
    pub retrieval: Option<ChatRetrieval>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: ChatRole,
    /// The text.
    pub content: String,
}

/// Who speaks in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatRole {
    /// Instructions to the model.
    System,
    /// Who asks.
    User,
    /// The model.
    Assistant,
}

/// One event of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatEvent {
    /// The next piece of its text.
    Text(String),
    /// Why its text ends: `stop`, `length`, `content_filter` …
    Finish(String),
    /// Its citations, and the sources that it could have cited. Last event of an answer to a request with retrieval.
    Citations {
        /// The quotations in the answer, in its order.
        citations: Vec<ChatCitation>,
        /// All sources of the prompt.
        sources: Vec<ChatSource>,
    },
}

#[derive(Serialize)]
struct ChatBody<'a> {
    model: &'a str,
    messages: &'a [ChatMessage],
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    weir: Option<&'a ChatRetrieval>,
}

impl Client {
    /// Asks a model for the next message of a conversation. The reply is a stream, whose events arrive while the model writes.
    ///
    /// ```no_run
    /// # use weir_api::ChatRetrieval;
    /// # use weir_client::{ChatEvent, ChatMessage, ChatRequest, ChatRole, Client};
    /// # async fn ask(client: &Client, notes: ChatRetrieval) -> weir_client::Result<()> {
    /// let question = ChatMessage { role: ChatRole::User, content: "what holds back a river".to_owned() };
    /// let model = "local/llama3.2".to_owned();
    /// let request = ChatRequest { model, messages: vec![question], retrieval: Some(notes) };
    /// let mut answer = client.chat(&request).await?;
    /// while let Some(event) = answer.next().await {
    ///     match event? {
    ///         ChatEvent::Text(text) => print!("{text}"),
    ///         ChatEvent::Citations { citations, .. } => println!("\n{citations:?}"),
    ///         ChatEvent::Finish(_) => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Repeated as the [`RetryPolicy`](crate::RetryPolicy) says until the stream begins, but never after the request was sent and its reply lost.
    ///
    /// # Errors
    /// As all calls, and [`ClientError::Provider`] when the provider of the model refuses the request.
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatStream> {
        let ChatRequest { model, messages, retrieval } = request;
        let body = ChatBody { model, messages, stream: true, weir: retrieval.as_ref() };
        let call = ApiCall::post("/v1/chat/completions", &body).once();
        let mut retries = Retries::begin(self.retries(), &call);
        let response = loop {
            match in_time(self.open(&call)).await {
                Ok(response) => break response,
                Err(Failed::Refused { text, .. }) if let Some(error) = error_of_provider(&text) => {
                    return Err(error);
                }
                Err(failed) => retries.wait(failed, self.url(), |_| {}).await?,
            }
        };
        let reader = EventReader::new(response, self.url());
        Ok(ChatStream { reader, events: VecDeque::new(), is_ended: false })
    }
}

/// An answer on its way. Dropping it cancels the work of the model.
#[derive(Debug)]
pub struct ChatStream {
    reader: EventReader,
    /// Events that were not yet taken.
    events: VecDeque<ChatEvent>,
    is_ended: bool,
}

impl ChatStream {
    /// The next event; `None` after the last one, and after an error.
    ///
    /// # Errors
    /// When the connection breaks, an event is not what the API says, or the answer fails.
    pub async fn next(&mut self) -> Option<Result<ChatEvent>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            if self.is_ended {
                return None;
            }
            if let Err(error) = self.receive().await {
                self.is_ended = true;
                return Some(Err(error));
            }
        }
    }

    /// Reads the next event of the stream.
    async fn receive(&mut self) -> Result<()> {
        match self.reader.next().await? {
            Some(event) => self.read_event(&event.data),
            None => Err(self.reader.malformed("ended before the answer was complete")),
        }
    }

    fn read_event(&mut self, data: &[u8]) -> Result<()> {
        if data == b"[DONE]" {
            self.is_ended = true;
            return Ok(());
        }
        let text = String::from_utf8_lossy(data);
        if let Some(error) = refusal(&text).or_else(|| error_of_provider(&text)) {
            return Err(error);
        }
        let chunk: Chunk = serde_json::from_str(&text)
            .map_err(|_| self.reader.malformed("has an event that is not of a chat"))?;
        for Choice { delta, finish_reason } in chunk.choices {
            let text = delta.and_then(|delta| delta.content).filter(|text| !text.is_empty());
            self.events.extend(text.map(ChatEvent::Text));
            self.events.extend(finish_reason.map(ChatEvent::Finish));
        }
        if let (Some(citations), Some(sources)) = (chunk.citations, chunk.sources) {
            self.events.push_back(ChatEvent::Citations { citations, sources });
        }
        Ok(())
    }
}

/// One event, as far as it is used.
#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    citations: Option<Vec<ChatCitation>>,
    sources: Option<Vec<ChatSource>>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
}

/// The error in a body or an event, if its code is not one of the gateway's.
fn error_of_provider(text: &str) -> Option<ClientError> {
    if refusal(text).is_some() {
        return None;
    }
    let body: Value = serde_json::from_str(text).ok()?;
    let message = body["error"]["message"].as_str().or(body["error"].as_str())?;
    Some(ClientError::Provider { message: message.to_owned() })
}
