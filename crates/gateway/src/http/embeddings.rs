//! `POST /v1/embeddings`, and the embedding of texts that it shares with TEI's `POST /embed`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use weir_api::{Code, EmbeddingsRequest, Invalid, TextRole, Texts, Truncate, Usage};

use super::Gateway;
use super::body;
use super::error::{ApiError, no_model};
use super::vectors;
use crate::inference::{Caching, Input, Lane, LoadedModel, Truncation};

/// Requests of more tokens than this wait in the bulk lane, so that a large one never delays small ones.
const INTERACTIVE_TOKENS_MAX: usize = 512;

/// Texts of more bytes than this, together, are made tokens of on a thread of their own.
const BYTES_AT_ONCE_MAX: usize = 8 << 10;

/// Embeddings of more floats than this, together, are written on a thread of their own.
const FLOATS_AT_ONCE_MAX: usize = 8 << 10;

/// Embeds texts in the shape of OpenAI's API.
pub(super) async fn openai(State(gateway): State<Gateway>, request: Request) -> Result<Response, ApiError> {
    let caching = body::caching(request.headers());
    let wants_raw = vectors::wants_raw(request.headers());
    let bytes = body::read(request, gateway.config.limits.body_bytes_max, "body_bytes_max").await?;
    let request: EmbeddingsRequest = weir_api::parse(&bytes)?;
    request.check(&gateway.config.request_limits())?;
    let model = gateway.models.get(&request.model).ok_or_else(|| no_model(&request.model))?.clone();
    check_dimensions(&model, request.dimensions)?;
    let wanted = Wanted {
        role: request.role()?,
        truncate: request.truncate.unwrap_or_default(),
        texts: request.input,
        field: "input",
        model,
        caching,
        dimensions: request.dimensions,
    };
    let Made { embeddings, usage, truncated, .. } = embed(&gateway, wanted).await?;
    let format = request.encoding_format.unwrap_or_default();
    let mut response = in_time(is_long_reply(&embeddings), move || {
        if wants_raw {
            return Ok(vectors::raw(&embeddings, &request.model, usage));
        }
        vectors::list(embeddings, format, request.model, usage)
    })
    .await??;
    vectors::name_truncated(response.headers_mut(), &truncated);
    Ok(response)
}

/// What shall be embedded, and how.
pub(super) struct Wanted {
    /// By which model.
    pub(super) model: Arc<LoadedModel>,
    /// The texts.
    pub(super) texts: Texts,
    /// What the request calls them.
    pub(super) field: &'static str,
    /// The prompt that is put before each.
    pub(super) role: Option<TextRole>,
    /// What happens to long ones.
    pub(super) truncate: Truncate,
    /// Whether embeddings that were made before will do.
    pub(super) caching: Caching,
    /// The number of floats, if not the model's own. It is allowed.
    pub(super) dimensions: Option<u64>,
}

/// What became of it.
pub(super) struct Made {
    /// An embedding for each text, in order.
    pub(super) embeddings: Vec<Vec<f32>>,
    /// What it cost.
    pub(super) usage: Usage,
    /// The places of the texts that were cut.
    pub(super) truncated: Vec<usize>,
    /// Characters of all texts.
    pub(super) characters: usize,
    /// The time that it took to make tokens.
    pub(super) tokenization: Duration,
    /// The time that it took to make embeddings of them, waiting included.
    pub(super) inference: Duration,
}

/// Refuses a number of floats that the model was not trained for.
pub(super) fn check_dimensions(model: &LoadedModel, wanted: Option<u64>) -> Result<(), ApiError> {
    match wanted {
        Some(count) if !model.dimensions_allowed(count) => {
            let message = format!(
                "`dimensions` is {count}; the embeddings of model `{}` have {} and can't be cut",
                model.id,
                model.dimension()
            );
            Err(Invalid::at(Code::InvalidParameter, &["dimensions"], message).into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Makes tokens of the texts, embeds them in the lane that suits their number, and counts them.
pub(super) async fn embed(gateway: &Gateway, wanted: Wanted) -> Result<Made, ApiError> {
    let started = Instant::now();
    let tokens_max = gateway.config.limits.embedding_tokens_max;
    let (model, caching, dimensions) = (wanted.model.clone(), wanted.caching, wanted.dimensions);
    let is_long = wanted.texts.as_slice().iter().map(String::len).sum::<usize>() > BYTES_AT_ONCE_MAX;
    let read = in_time(is_long, move || read(&wanted, tokens_max)).await??;
    let tokenization = started.elapsed();

    let lane = if read.tokens <= INTERACTIVE_TOKENS_MAX { Lane::Interactive } else { Lane::Bulk };
    let mut embeddings = gateway.scheduler.embed(&model, read.inputs, lane, caching).await?;
    if let Some(dimensions) = dimensions {
        embeddings = embeddings.into_iter().map(|embedding| model.cut(embedding, dimensions)).collect();
    }
    gateway.metrics.embedded(&model.id, read.tokens as u64, read.truncated.len() as u64);
    Ok(Made {
        embeddings,
        usage: Usage {
            prompt_tokens: read.tokens,
            total_tokens: read.tokens,
            truncated: read.truncated.len(),
        },
        truncated: read.truncated,
        characters: read.characters,
        tokenization,
        inference: started.elapsed() - tokenization,
    })
}

/// The texts as the model takes them.
struct Read {
    inputs: Vec<Input>,
    tokens: usize,
    characters: usize,
    truncated: Vec<usize>,
}

fn read(wanted: &Wanted, tokens_max: usize) -> Result<Read, Invalid> {
    let model = &wanted.model;
    let prompt = match wanted.role {
        None => "",
        Some(TextRole::Query) => &model.query_prompt,
        Some(TextRole::Document) => &model.document_prompt,
    };
    let mut read = Read {
        inputs: Vec::with_capacity(wanted.texts.as_slice().len()),
        tokens: 0,
        characters: 0,
        truncated: Vec::new(),
    };
    for (index, text) in wanted.texts.as_slice().iter().enumerate() {
        read.characters += text.chars().count();
        let prompted = if prompt.is_empty() { None } else { Some(format!("{prompt}{text}")) };
        let text = prompted.as_deref().unwrap_or(text);
        let truncation = match wanted.truncate {
            Truncate::End | Truncate::Error => Truncation::End,
            Truncate::Start => Truncation::Start,
        };
        let input = model.input(text, truncation);
        if input.is_truncated {
            if wanted.truncate == Truncate::Error {
                return Err(too_long(wanted, index, text));
            }
            read.truncated.push(index);
        }
        read.tokens += input.tokens();
        if read.tokens > tokens_max {
            let message = format!(
                "`{}` has more tokens than the limit `limits.embedding_tokens_max`, which is {tokens_max}",
                wanted.field
            );
            return Err(Invalid::at(Code::BatchTooLarge, &[wanted.field], message));
        }
        read.inputs.push(input);
    }
    Ok(read)
}

fn too_long(wanted: &Wanted, index: usize, text: &str) -> Invalid {
    let (id, has) = (&wanted.model.id, wanted.model.count_tokens(text));
    let most = wanted.model.input_tokens_max().unwrap_or(usize::MAX);
    let message = format!("the text has {has} tokens; model `{id}` reads {most}");
    wanted.texts.invalid(wanted.field, index, Code::ContextLengthExceeded, message)
}

/// Whether writing these embeddings takes so long that it would keep others waiting.
pub(super) fn is_long_reply(embeddings: &[Vec<f32>]) -> bool {
    embeddings.iter().map(Vec::len).sum::<usize>() > FLOATS_AT_ONCE_MAX
}

/// Runs `work` at once when it is short, and otherwise where it keeps no other request waiting.
pub(super) async fn in_time<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    if !is_long {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(&error))
}
