//! `POST /v1/embeddings`, and the embedding of texts that it shares with TEI's `POST /embed`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use weir_api::{Count, EmbeddingsRequest, ErrorCode, Invalid, TextRole, Texts, Truncate, Usage};

use super::Gateway;
use super::body;
use super::error::{ApiError, no_embedder};
use super::vectors;
use weir_inference::{Caching, Input, Lane, LoadedModel, Place, Terms, Truncation, scale_to_length_one};

/// Requests of more tokens than this wait in the bulk lane, so that a large one never delays small ones.
pub(super) const INTERACTIVE_TOKENS_MAX: usize = 512;

/// Texts of more bytes than this, together, are made tokens of on a thread of their own.
const BYTES_AT_ONCE_MAX: usize = 8 << 10;

/// Embeddings of more floats than this, together, are written on a thread of their own.
const FLOATS_AT_ONCE_MAX: usize = 8 << 10;

/// Embeds texts in the shape of OpenAI's API.
pub(super) async fn openai(State(gateway): State<Gateway>, request: Request) -> Result<Response, ApiError> {
    let (caching, until) = (body::caching(request.headers()), body::until(&request));
    let wants_raw = vectors::wants_raw(request.headers());
    let (bytes, place) = read_body(&gateway, request).await?;
    let request: EmbeddingsRequest = weir_api::parse(&bytes)?;
    drop(bytes);
    request.check(&gateway.config.request_limits())?;
    let model = gateway.models.get(&request.model);
    let model = model.ok_or_else(|| no_embedder(&gateway.models, &request.model))?.clone();
    check_dimensions(&model, request.dimensions).await?;
    let wanted = Wanted {
        role: request.role()?,
        truncate: request.truncate.unwrap_or_default(),
        texts: request.input,
        field: "input",
        model,
        caching,
        until,
        dimensions: request.dimensions.map(Count::get),
        place,
    };
    let Made { embeddings, usage, truncated, split, place, .. } = embed(&gateway, wanted).await?;
    let format = request.encoding_format.unwrap_or_default();
    let mut response = in_time(is_long_reply(&embeddings), move || {
        if wants_raw {
            return Ok(vectors::raw(&embeddings, &request.model, usage, place));
        }
        vectors::list(embeddings, format, request.model, usage, place)
    })
    .await??;
    vectors::name_truncated(response.headers_mut(), &truncated);
    vectors::name_split(response.headers_mut(), &split);
    Ok(response)
}

/// Reads the body of a request for embeddings, when there is memory for it.
pub(super) async fn read_body(gateway: &Gateway, request: Request) -> Result<(Bytes, Place), ApiError> {
    let limit = gateway.config.limits.body_bytes_max;
    // a caller who doesn't announce the length gets room for the longest
    let announced = body::content_length(request.headers()).and_then(|bytes| usize::try_from(bytes).ok());
    let place = gateway.scheduler.memory().for_body(announced.unwrap_or(limit).min(limit))?;
    Ok((body::read(request, limit, "body_bytes_max").await?, place))
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
    /// When nobody waits any more.
    pub(super) until: Option<Instant>,
    /// The number of floats, if not the model's own. It is allowed.
    pub(super) dimensions: Option<u64>,
    /// The memory that the request has.
    pub(super) place: Place,
}

/// What became of it.
pub(super) struct Made {
    /// An embedding for each text, in order.
    pub(super) embeddings: Vec<Vec<f32>>,
    /// What it cost.
    pub(super) usage: Usage,
    /// The places of the texts that were cut.
    pub(super) truncated: Vec<usize>,
    /// The places of the texts that were embedded in parts.
    pub(super) split: Vec<usize>,
    /// Characters of all texts.
    pub(super) characters: usize,
    /// The time that it took to make tokens.
    pub(super) tokenization: Duration,
    /// The time that they waited to be embedded, the last of them.
    pub(super) queue: Duration,
    /// The time that it took to make embeddings of them.
    pub(super) inference: Duration,
    /// The memory that the request has, until its reply is sent.
    pub(super) place: Place,
}

/// Refuses a number of floats that the model was not trained for.
pub(super) async fn check_dimensions(model: &LoadedModel, wanted: Option<Count>) -> Result<(), ApiError> {
    let Some(count) = wanted else { return Ok(()) };
    model.learn_dimension().await?;
    if model.dimensions().any(|served| served as u64 == count.get()) {
        return Ok(());
    }
    let served: Vec<String> = model.dimensions().map(|served| served.to_string()).collect();
    let message = format!(
        "`dimensions` is {count}; leave it out, or send {}, the model's own: `{}` was trained for no other number",
        served.join(" or "),
        model.id
    );
    Err(Invalid::at(ErrorCode::InvalidParameter, &["dimensions"], message).into())
}

/// Makes tokens of the texts, embeds them in the lane that suits their number, and counts them.
pub(super) async fn embed(gateway: &Gateway, mut wanted: Wanted) -> Result<Made, ApiError> {
    let started = Instant::now();
    let tokens_max = gateway.config.limits.embedding_tokens_max;
    let Wanted { caching, until, dimensions, .. } = wanted;
    let model = wanted.model.clone();
    let mut place = std::mem::take(&mut wanted.place);
    let is_long = wanted.texts.as_slice().iter().map(String::len).sum::<usize>() > BYTES_AT_ONCE_MAX;
    let read = in_time(is_long, move || read(&wanted, tokens_max)).await??;
    let tokenization = started.elapsed();
    let dimension = model.dimension().unwrap_or_default();
    place.and(gateway.scheduler.memory().for_embeddings(read.inputs.len(), dimension)?);

    let lane = if read.tokens <= INTERACTIVE_TOKENS_MAX { Lane::Interactive } else { Lane::Bulk };
    let weights: Vec<usize> = read.inputs.iter().map(Input::tokens).collect();
    let made = gateway.scheduler.embed(&model, read.inputs, Terms { lane, caching, until }).await?;
    let mut embeddings = made.embeddings;
    if !read.split.is_empty() {
        embeddings = joined(embeddings, &weights, &read.parts, model.is_normalised());
    }
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
        split: read.split,
        characters: read.characters,
        tokenization,
        queue: made.waited,
        inference: (started.elapsed() - tokenization).saturating_sub(made.waited),
        place,
    })
}

/// The texts as the model takes them.
struct Read {
    /// Every part of every text, in order.
    inputs: Vec<Input>,
    /// How many parts each text has.
    parts: Vec<usize>,
    tokens: usize,
    characters: usize,
    truncated: Vec<usize>,
    /// Texts of more than one part.
    split: Vec<usize>,
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
        parts: Vec::with_capacity(wanted.texts.as_slice().len()),
        tokens: 0,
        characters: 0,
        truncated: Vec::new(),
        split: Vec::new(),
    };
    for (index, text) in wanted.texts.as_slice().iter().enumerate() {
        read.characters += text.chars().count();
        let prompted = if prompt.is_empty() { None } else { Some(format!("{prompt}{text}")) };
        let text = prompted.as_deref().unwrap_or(text);
        let parts = match wanted.truncate {
            Truncate::End => vec![model.input(text, Truncation::End)],
            Truncate::Start => vec![model.input(text, Truncation::Start)],
            Truncate::Error => vec![model.input(text, Truncation::Never)],
            Truncate::ParallelPass => model.parts(text),
        };
        if parts.iter().any(|part| part.is_truncated) {
            if wanted.truncate == Truncate::Error {
                return Err(too_long(wanted, index, text));
            }
            read.truncated.push(index);
        }
        if parts.len() > 1 {
            read.split.push(index);
        }
        read.tokens += parts.iter().map(Input::tokens).sum::<usize>();
        if read.tokens > tokens_max {
            let message = format!(
                "`{}` has more tokens than the limit `limits.embedding_tokens_max`, which is {tokens_max}",
                wanted.field
            );
            return Err(Invalid::at(ErrorCode::BatchTooLarge, &[wanted.field], message));
        }
        read.parts.push(parts.len());
        read.inputs.extend(parts);
    }
    Ok(read)
}

/// One embedding for each text: the mean of its parts, weighted by their tokens, and of length one where all embeddings are.
fn joined(
    embeddings: Vec<Vec<f32>>,
    weights: &[usize],
    parts: &[usize],
    is_normalised: bool,
) -> Vec<Vec<f32>> {
    let mut weighted = embeddings.into_iter().zip(weights);
    let join = |count: &usize| {
        let mut parts = weighted.by_ref().take(*count);
        let Some((mut sum, first)) = parts.next() else { return Vec::new() };
        if *count == 1 {
            return sum;
        }
        let mut total = *first as f32;
        sum.iter_mut().for_each(|x| *x *= total);
        for (part, weight) in parts {
            sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += *weight as f32 * x);
            total += *weight as f32;
        }
        sum.iter_mut().for_each(|x| *x /= total);
        if is_normalised {
            scale_to_length_one(&mut sum);
        }
        sum
    };
    parts.iter().map(join).collect()
}

fn too_long(wanted: &Wanted, index: usize, text: &str) -> Invalid {
    let (id, has) = (&wanted.model.id, wanted.model.count_tokens(text));
    let most = wanted.model.input_tokens_max().unwrap_or(usize::MAX);
    let message = format!("the text has {has} tokens; model `{id}` reads {most}");
    wanted.texts.invalid(wanted.field, index, ErrorCode::ContextLengthExceeded, message)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_by_their_tokens_and_whole_texts_stay_as_they_are() {
        let embeddings = || vec![vec![0.6, 0.8], vec![1.0, 0.0], vec![0.0, 1.0], vec![0.0, 5.0]];
        let check = |is_normalised, expected: [[f32; 2]; 3]| {
            let joined = joined(embeddings(), &[7, 30, 10, 9], &[1, 2, 1], is_normalised);
            assert_eq!(joined, expected);
        };
        check(false, [[0.6, 0.8], [0.75, 0.25], [0.0, 5.0]]);
        let length = 0.625f32.sqrt();
        check(true, [[0.6, 0.8], [0.75 / length, 0.25 / length], [0.0, 5.0]]);
    }
}
