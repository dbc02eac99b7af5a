//! Requests for language models as they are described, and Anthropic's errors. The gateway reads a few of their fields (`weir-llm`) and passes on the
//! bytes of the rest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ChatRetrieval, ErrorCode};

/// A request in OpenAI's API of chat completions. Fields that are not listed here are passed on as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatCompletionRequest {
    /// The name of a route; `UPSTREAM/NAME` without one.
    pub model: String,
    /// The conversation; the last message is the question.
    pub messages: Vec<ChatCompletionMessage>,
    /// Whether the reply is a stream of server-sent events.
    #[serde(default)]
    pub stream: Option<bool>,
    /// Of a stream: `{"include_usage": true}` asks for a last chunk with the tokens used.
    #[serde(default)]
    pub stream_options: Option<Map<String, Value>>,
    /// Most tokens of the completion; limits what is reserved of a budget.
    #[serde(default)]
    pub max_completion_tokens: Option<u64>,
    /// The older name of `max_completion_tokens`.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// Number of completions.
    #[serde(default)]
    pub n: Option<u64>,
    /// Randomness of the completion, from 0; the upstream's default if absent.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Share of the probability from which tokens are drawn.
    #[serde(default)]
    pub top_p: Option<f64>,
    /// A text, or a list of texts, before which the completion ends.
    #[serde(default)]
    pub stop: Option<Value>,
    /// Functions that the model may call.
    #[serde(default)]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// Which of them it calls: `auto`, `none`, `required` or one by name.
    #[serde(default)]
    pub tool_choice: Option<Value>,
    /// The form of the completion: text, a JSON object, or JSON of a schema.
    #[serde(default)]
    pub response_format: Option<Map<String, Value>>,
    /// Values that the conditions of routes are compared with.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// Where the sources of the answer are searched. The gateway adds them to the messages and the reply gets `citations` and `sources`; upstreams do
    /// not see this field.
    #[serde(default)]
    pub weir: Option<ChatRetrieval>,
}

/// A message of a conversation in OpenAI's API. Fields that are not listed here are passed on as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatCompletionMessage {
    /// Who speaks: `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: String,
    /// A text, or a list of parts such as `{"type": "text", "text": "…"}`; absent where a message only calls tools.
    #[serde(default)]
    pub content: Option<MessageContent>,
    /// Calls of tools, in a message of `assistant`.
    #[serde(default)]
    pub tool_calls: Option<Vec<Map<String, Value>>>,
    /// The call that a message of `tool` answers.
    #[serde(default)]
    pub tool_call_id: Option<String>,
}

/// The content of a message: a text or its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MessageContent {
    /// A text.
    Text(String),
    /// Texts, images and other parts.
    Parts(Vec<Map<String, Value>>),
}

/// A request in OpenAI's API of completions. Fields that are not listed here are passed on as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompletionRequest {
    /// The name of a route; `UPSTREAM/NAME` without one.
    pub model: String,
    /// The text to complete, or a list of texts.
    pub prompt: Value,
    /// Whether the reply is a stream of server-sent events.
    #[serde(default)]
    pub stream: Option<bool>,
    /// Most tokens of the completion; limits what is reserved of a budget.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// Number of completions.
    #[serde(default)]
    pub n: Option<u64>,
    /// Randomness of the completion, from 0; the upstream's default if absent.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Values that the conditions of routes are compared with.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// Where the sources of the answer are searched; upstreams do not see this field.
    #[serde(default)]
    pub weir: Option<ChatRetrieval>,
}

/// A request in OpenAI's API of responses. Fields that are not listed here are passed on as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponsesRequest {
    /// The name of a route; `UPSTREAM/NAME` without one.
    pub model: String,
    /// A text, or a list of messages and other items.
    pub input: ResponsesInput,
    /// Instructions to the model, before the input.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Whether the reply is a stream of server-sent events.
    #[serde(default)]
    pub stream: Option<bool>,
    /// Most tokens of the output; limits what is reserved of a budget.
    #[serde(default)]
    pub max_output_tokens: Option<u64>,
    /// Randomness of the output, from 0; the upstream's default if absent.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Functions and other tools that the model may call.
    #[serde(default)]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// Which of them it calls.
    #[serde(default)]
    pub tool_choice: Option<Value>,
    /// Values that the conditions of routes are compared with.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// Where the sources of the answer are searched; upstreams do not see this field.
    #[serde(default)]
    pub weir: Option<ChatRetrieval>,
}

/// The input of a request of responses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ResponsesInput {
    /// The question.
    Text(String),
    /// Messages such as `{"role": "user", "content": "…"}`, and other items.
    Items(Vec<Map<String, Value>>),
}

/// A request in Anthropic's API of messages. Fields that are not listed here are passed on as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessagesRequest {
    /// The name of a route; `UPSTREAM/NAME` without one.
    pub model: String,
    /// The conversation; the last message is the question.
    pub messages: Vec<AnthropicMessage>,
    /// Most tokens of the reply; limits what is reserved of a budget. Anthropic's own models need it.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// Instructions to the model, before the conversation: a text or its parts.
    #[serde(default)]
    pub system: Option<MessageContent>,
    /// Whether the reply is a stream of server-sent events.
    #[serde(default)]
    pub stream: Option<bool>,
    /// Randomness of the reply, 0 to 1; the upstream's default if absent.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Tools that the model may call.
    #[serde(default)]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// Which of them it calls: `{"type": "auto"}`, `any`, `none`, or one by name.
    #[serde(default)]
    pub tool_choice: Option<Map<String, Value>>,
    /// Values that the conditions of routes are compared with.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// Where the sources of the answer are searched; upstreams do not see this field.
    #[serde(default)]
    pub weir: Option<ChatRetrieval>,
}

/// A request for the number of tokens of a request in Anthropic's API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountTokensRequest {
    /// The name of a route; `UPSTREAM/NAME` without one.
    pub model: String,
    /// The conversation.
    pub messages: Vec<AnthropicMessage>,
    /// Instructions to the model, before the conversation: a text or its parts.
    #[serde(default)]
    pub system: Option<MessageContent>,
    /// Tools that the model may call.
    #[serde(default)]
    pub tools: Option<Vec<Map<String, Value>>>,
}

/// A message of a conversation in Anthropic's API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnthropicMessage {
    /// Who speaks: `user` or `assistant`.
    pub role: String,
    /// A text, or a list of parts such as `{"type": "text", "text": "…"}`.
    pub content: MessageContent,
}

/// The body of errors in Anthropic's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnthropicErrorBody {
    /// Always `error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The error.
    pub error: AnthropicError,
    /// The request's id.
    pub request_id: Option<String>,
}

/// An error in Anthropic's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnthropicError {
    /// Its class, which follows from the status.
    #[serde(rename = "type")]
    pub kind: String,
    /// The failure and its remedy.
    pub message: String,
}

impl AnthropicErrorBody {
    /// The body for an error of the gateway.
    pub fn of(code: ErrorCode, message: String, request_id: Option<String>) -> AnthropicErrorBody {
        let kind = match code.status() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            504 => "timeout_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        let error = AnthropicError { kind: kind.to_owned(), message };
        AnthropicErrorBody { kind: "error".to_owned(), error, request_id }
    }
}
