//! Reservations: the share of its key's limits that a request may use, reserved before it is sent.

use std::time::Instant;

use weir_access::{CostRange, Reservation};
use weir_config::Provider;
use weir_translate::conversation::{COMPLETION_TOKENS_DEFAULT, Request};
use weir_translate::{Conversion, TokenUsage, anthropic};

use crate::exchange::LlmCall;
use crate::provider::conversion;
use crate::settlement::unix_now;
use crate::table::PricedTarget;
use crate::{Api, LlmError};

/// Most tokens of an image: OpenAI's pages on vision have 10,000 patches and a factor of up to 2.46 for small models, and for `gpt-4o-mini` 2,833
/// and 5,667 for each of eight tiles. Qwen's models on servers of the operator have 16,384.
const IMAGE_TOKENS_MAX: u64 = 25_000;
const IMAGE_TOKENS_MAX_GPT_4O_MINI: u64 = 48_169;
/// Anthropic's page on vision has 4,784.
const IMAGE_TOKENS_MAX_ANTHROPIC: u64 = 5_000;
/// Gemini's page on images has 258 for each tile of 768 by 768 pixels, and 2,240 for the highest resolution of newer models.
const IMAGE_TOKENS_MAX_GEMINI: u64 = 10_000;

/// Takes what the request may use at most of the limits of the caller's key. Near the end of a budget this waits for other requests.
///
/// # Errors
/// `Limited`.
pub(crate) async fn reserve(
    call: &LlmCall,
    request: &Request,
    targets: &[PricedTarget],
) -> Result<Option<Reservation>, LlmError> {
    let Some(usage) = call.usage.as_ref().filter(|_| call.api.is_charged()) else { return Ok(None) };
    let tokens = targets.iter().map(|target| tokens(call.api, request, target)).max().unwrap_or_default();
    let has_budget = usage.has_budget(&request.model);
    let ranges = targets.iter().filter(|_| has_budget).map(|target| cost(call.api, request, target));
    let cost = ranges.fold(CostRange::exactly(0), |most, range| CostRange {
        max: most.max.max(range.max),
        estimate: most.estimate.max(range.estimate),
    });
    let now = || (Instant::now(), unix_now());
    let reserved = usage.reserve_in_turn(&request.model, now, tokens, cost).await;
    reserved.map(Some).map_err(LlmError::Limited)
}

/// Tokens for the limit per minute: the estimate of the prompt and the limit of the completion.
fn tokens(api: Api, request: &Request, target: &PricedTarget) -> u64 {
    request.prompt_tokens().saturating_add(request.completion_max(api, completion_open(api, target)))
}

/// The cost of the request at a target.
fn cost(api: Api, request: &Request, target: &PricedTarget) -> CostRange {
    let price = &target.price;
    let open = completion_open(api, target);
    // a limit that is not given is set for Anthropic alone, with that of the reasoning
    let open_max = match is_limited(api, target) {
        true => anthropic::limit_max(&target.model, request.sets_thinking),
        false => open.max(price.output_tokens_max),
    };
    let prompt_max = request.size.tokens_max(image_tokens_max(target), price.context_tokens);
    let completion_max = request.completion_max(api, open_max);
    let max = price.cost_max(prompt_max, completion_max, request.size.may_cache_1h());
    if max == 0 {
        return CostRange::exactly(0);
    }
    let used = TokenUsage {
        prompt: request.size.careful_tokens(request.body(), price.context_tokens),
        completion: request.completion_max(api, open),
        ..TokenUsage::default()
    };
    CostRange { max, estimate: price.cost(used, request.tier).total().min(max) }
}

/// Tokens of a completion without a limit.
fn completion_open(api: Api, target: &PricedTarget) -> u64 {
    if is_limited(api, target) { anthropic::TOKENS_MAX } else { COMPLETION_TOKENS_DEFAULT }
}

/// Whether a limit is sent to the provider where the caller gave none.
fn is_limited(api: Api, target: &PricedTarget) -> bool {
    matches!(conversion(api, &target.upstream.config), Ok(Conversion::FromAnthropic))
}

fn image_tokens_max(target: &PricedTarget) -> u64 {
    match target.upstream.config.provider {
        Provider::Anthropic => IMAGE_TOKENS_MAX_ANTHROPIC,
        Provider::Gemini => IMAGE_TOKENS_MAX_GEMINI,
        Provider::OpenAi | Provider::Azure if target.model.contains("4o-mini") => {
            IMAGE_TOKENS_MAX_GPT_4O_MINI
        }
        Provider::OpenAi | Provider::Azure | Provider::Ollama | Provider::Vllm => IMAGE_TOKENS_MAX,
    }
}
