//! The content of the bodies of each API, for a gateway that names none of their fields: the request, the places of its question and the texts of its
//! answer stand, how citations are added, and the replies that the gateway makes itself.

mod annotations;
mod answer;
mod cited_response;
mod cited_stream;
mod frame;
mod made;
mod pieces;
mod question;
mod request;

pub use annotations::Citation;
pub use answer::{Additions, attach, texts};
pub use cited_stream::CitedStream;
pub use frame::{frame, sequence_number};
pub use made::{ChunkHead, blocked_events, error_event, made_reply};
pub use pieces::{CompleteString, Kind, Lane, Pieces, pieces, pieces_of};
pub use question::{WithoutList, condensing, place, question, text_of};
pub use request::{COMPLETION_TOKENS_DEFAULT, InvalidRequest, Request};

use serde_json::Value;

/// The API of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's `/v1/chat/completions`.
    ChatCompletions,
    /// OpenAI's `/v1/completions`.
    Completions,
    /// OpenAI's `/v1/responses`.
    Responses,
    /// Anthropic's `/v1/messages`.
    Messages,
    /// Anthropic's `/v1/messages/count_tokens`.
    CountTokens,
    /// OpenAI's `/v1/embeddings`.
    Embeddings,
}

impl Api {
    /// The path behind a provider's base URL.
    pub fn path(self) -> &'static str {
        match self {
            Api::ChatCompletions => "/chat/completions",
            Api::Completions => "/completions",
            Api::Responses => "/responses",
            Api::Messages => "/v1/messages",
            Api::CountTokens => "/v1/messages/count_tokens",
            Api::Embeddings => "/embeddings",
        }
    }

    /// Whether providers charge for it.
    pub fn is_charged(self) -> bool {
        self != Api::CountTokens
    }

    /// Whether a model answers with text, whose tokens count.
    pub fn has_completion(self) -> bool {
        self != Api::Embeddings
    }

    /// Whether a stream of it has the usage only when the request asks for it.
    pub fn asks_for_usage(self) -> bool {
        matches!(self, Api::ChatCompletions | Api::Completions)
    }

    /// Whether its events repeat the texts of earlier ones.
    pub fn repeats_texts(self) -> bool {
        self == Api::Responses
    }

    /// Whether its streams may have events for sources.
    pub fn has_source_events(self) -> bool {
        self == Api::ChatCompletions
    }

    /// Whether its provider may be silent for minutes between two events.
    pub fn has_long_pauses(self) -> bool {
        self == Api::Responses
    }

    /// Whether its conversations may have reasoning that was made of another provider's.
    pub fn has_made_reasoning(self) -> bool {
        matches!(self, Api::Messages | Api::CountTokens)
    }
}

/// Writes an event that has its type as a name too.
fn write_named(data: &Value, out: &mut Vec<u8>) {
    let name = data["type"].as_str().unwrap_or_default();
    out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
}
