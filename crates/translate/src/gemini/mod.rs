//! OpenAI's chat completions from Gemini's `generateContent`.

mod reply;
mod request;
mod stream;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::TranslateError;
use super::completion::{ExtraContent, Function, ToolCall};
use crate::TokenUsage;
use crate::usage::Count;

pub use reply::reply;
pub use request::request;
pub(super) use stream::GeminiStream;

/// A `GenerateContentResponse`: a whole reply, or one event of a stream.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<UsageMetadata>,
    error: Option<ErrorBody>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    content: Option<GeminiContent<'a>>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct GeminiContent<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

/// Text, a call, or a part of another kind, which is left out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    thought: Option<bool>,
    thought_signature: Option<String>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
}

/// A string that is borrowed when it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct FunctionCall<'a> {
    id: Option<String>,
    name: String,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Deserialize)]
struct ErrorBody {
    status: Option<String>,
    message: Option<String>,
}

/// The counts of a reply.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct UsageMetadata {
    prompt_token_count: Count,
    tool_use_prompt_token_count: Count,
    cached_content_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
    prompt_tokens_details: Option<Vec<Detail>>,
    /// The part of these that was read from the cache.
    cache_tokens_details: Option<Vec<Detail>>,
    candidates_tokens_details: Option<Vec<Detail>>,
}

/// The tokens of one modality.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Detail {
    modality: Option<String>,
    token_count: Count,
}

impl UsageMetadata {
    /// Gemini counts reasoning beside the candidates, and the results of its own tools beside the prompt.
    fn tokens(&self) -> TokenUsage {
        let of_modality = |details: &Option<Vec<Detail>>, modality: &str| -> u64 {
            let details = details.iter().flatten();
            let of_kind = details.filter(|detail| detail.modality.as_deref() == Some(modality));
            of_kind.fold(0, |sum, detail| sum + detail.token_count.0)
        };
        let not_cached = |modality: &str| {
            let cached = of_modality(&self.cache_tokens_details, modality);
            of_modality(&self.prompt_tokens_details, modality).saturating_sub(cached)
        };
        let reasoning = self.thoughts_token_count.0;
        let usage = TokenUsage {
            prompt: self.prompt_token_count.0 + self.tool_use_prompt_token_count.0,
            cached: self.cached_content_token_count.0,
            prompt_audio: not_cached("AUDIO"),
            prompt_image: not_cached("IMAGE"),
            completion: self.candidates_token_count.0 + reasoning,
            reasoning,
            completion_audio: of_modality(&self.candidates_tokens_details, "AUDIO"),
            completion_image: of_modality(&self.candidates_tokens_details, "IMAGE"),
            ..TokenUsage::default()
        };
        usage.bounded()
    }
}

impl Response<'_> {
    /// Refuses a response that is an error.
    fn check(&self) -> Result<(), TranslateError> {
        let Some(error) = &self.error else { return Ok(()) };
        Err(TranslateError::Provider {
            kind: error.status.clone().unwrap_or_else(|| "UNKNOWN".to_owned()),
            message: error.message.clone().unwrap_or_else(|| "the provider ended the reply".to_owned()),
        })
    }
}

impl PromptFeedback {
    /// Why the prompt was refused.
    fn refusal(self) -> Option<String> {
        let reason = self.block_reason?;
        Some(self.block_reason_message.unwrap_or_else(|| format!("the prompt was blocked: {reason}")))
    }
}

impl FunctionCall<'_> {
    /// The call for OpenAI's clients. `made_id` is used if Gemini gave no id.
    fn tool_call<'b>(&'b self, made_id: &'b str, signature: Option<&'b str>) -> ToolCall<'b> {
        let id = self.id.as_deref().filter(|id| !id.is_empty()).unwrap_or(made_id);
        let arguments = self.args.map_or("{}", RawValue::get);
        ToolCall {
            index: None,
            id: Some(id),
            kind: Some("function"),
            function: Function { name: Some(&self.name), arguments },
            extra_content: signature.map(ExtraContent::signature),
        }
    }
}

/// OpenAI's word for a `finishReason`.
///
/// # Errors
/// [`TranslateError::Provider`] for a call that Gemini made and could not write: another attempt may succeed, and a reply that
/// looks complete would be wrong.
fn finish_reason(
    candidate: &Candidate<'_>,
    reason: &str,
    has_calls: bool,
) -> Result<&'static str, TranslateError> {
    match reason {
        "STOP" if has_calls => Ok("tool_calls"),
        "STOP" => Ok("stop"),
        "MAX_TOKENS" => Ok("length"),
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_RESPONSE"
        | "MISSING_THOUGHT_SIGNATURE" => {
            let message = candidate.finish_message.clone();
            Err(TranslateError::Provider {
                kind: reason.to_owned(),
                message: message.unwrap_or_else(|| format!("the model's reply is not valid: {reason}")),
            })
        }
        // SAFETY, RECITATION, LANGUAGE, BLOCKLIST, PROHIBITED_CONTENT, SPII, OTHER, those of images, and reasons that do not exist
        // yet: something kept the reply from being complete
        _ => Ok("content_filter"),
    }
}
