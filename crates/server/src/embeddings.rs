//! `POST /v1/embeddings`, and the embedding of texts that it shares with TEI's `POST /embed`.

mod forwarded;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::Request;
use axum::response::Response;
use weir_api::{Count, EmbeddingsRequest, ErrorCode, Invalid, TextRole, Texts, Truncate, Usage};

use super::Gateway;
use super::admission::Admitted;
use super::body::{self, Call};
use super::context;
use super::encoding::{Encoding, Wanted};
use super::tei::check_normalize;
use super::vectors::{self, Described};
use crate::Result;
use weir_inference::{
    Caching, EmbedOptions, Flow, Input, Lane, LoadedModel, Reservation, Rows, Truncation, l2_normalise,
};
use weir_retrieval::models;

/// Largest request in tokens for the interactive lane; larger ones use the bulk lane and do not delay small ones.
pub(super) const INTERACTIVE_TOKENS_MAX: usize = 512;

/// Tokenise inputs larger than this (total bytes) in the background.
const TOKENIZED_INLINE_BYTES_MAX: usize = 8 << 10;

/// Render replies with more floats than this in the background.
const RENDERED_INLINE_FLOATS_MAX: usize = 8 << 10;

/// Embeds texts in the shape of OpenAI's API: by a model of this gateway, or by the upstream that the model's name leads to.
pub(super) async fn openai(call: Call, request: Request) -> Result<Response> {
    let (caching, until) = (body::caching(request.headers()), context::deadline(&request));
    let headers = request.headers().clone();
    let (bytes, place) = read_body(&call, request).await?;
    let (mut request, model) = match of_this_gateway(&call, &bytes) {
        Ok(found) => found,
        Err(error) => match forwarded::of_upstream(&call, &headers, &bytes)? {
            true => return Box::pin(forwarded::send(&call, headers, bytes, place)).await,
            false => return Err(error),
        },
    };
    drop(bytes);
    let (format, dtype) = request.output()?;
    let encoding = Encoding::of(&headers, &Wanted { format: Some(format), dtype })?;
    if let Some(decoder) = model.token_decoder() {
        request.input.decode("input", |ids| decoder.decode(ids))?;
    }
    request.check(&call.config.request_limits())?;
    check_dimensions(&model, request.dimensions).await?;
    check_normalize(&model, request.normalize)?;
    let is_scaled = request.normalize == Some(true) && !model.is_normalised();
    let job = EmbedJob {
        role: request.role()?,
        truncate: request.truncate(),
        texts: request.input,
        field: "input",
        model: model.clone(),
        caching,
        until,
        dimensions: request.dimensions.map(Count::get),
        place,
    };
    let EmbedOutput { mut embeddings, usage, truncated, split, place, .. } = embed(&call, job).await?;
    let is_long = (is_scaled || encoding.is_rendered()) && is_long_reply(&embeddings);
    let response = call.retrieval.maybe_in_background(is_long, move || {
        if is_scaled {
            embeddings.iter_mut().for_each(l2_normalise);
        }
        let described = Described { name: &request.model, model: &model, usage };
        vectors::reply(encoding, embeddings, &described, place, |embeddings, encoding, place| {
            vectors::list(&embeddings, encoding, &request.model, usage, place)
        })
    });
    let mut response = response.await??;
    vectors::set_truncated(response.headers_mut(), &truncated);
    vectors::set_split(response.headers_mut(), &split);
    Ok(response)
}

/// The request and its model, if it is one of this gateway.
fn of_this_gateway(call: &Call, bytes: &[u8]) -> Result<(EmbeddingsRequest, Arc<LoadedModel>)> {
    let request: EmbeddingsRequest = weir_api::parse(bytes)?;
    let model = models::embedder(&call.models, &call.caller, &request.model)?.clone();
    Ok((request, model))
}

/// Reads the body of a request for embeddings; the memory that was reserved for it when it was admitted.
pub(super) async fn read_body(gateway: &Gateway, request: Request) -> Result<(Bytes, Reservation)> {
    let place = match context::take_admitted(request.extensions()) {
        Admitted::Embedding(place) => place,
        Admitted::Light | Admitted::Search(_) | Admitted::Ingest(_) | Admitted::Chat(_) => {
            Reservation::default()
        }
    };
    Ok((body::read(gateway, request).await?, place))
}

/// Texts to embed, and how.
pub(super) struct EmbedJob {
    /// The model.
    pub(super) model: Arc<LoadedModel>,
    /// The texts.
    pub(super) texts: Texts,
    /// The request's field with the texts, for errors.
    pub(super) field: &'static str,
    /// The role whose prompt is put before each text.
    pub(super) role: Option<TextRole>,
    /// What happens to texts that are longer than the model's input.
    pub(super) truncate: Truncate,
    /// Whether cached embeddings may be used.
    pub(super) caching: Caching,
    /// The request's deadline.
    pub(super) until: Option<Instant>,
    /// The requested dimension, already checked; `None` for the model's own.
    pub(super) dimensions: Option<u64>,
    /// The memory that is reserved for the request.
    pub(super) place: Reservation,
}

/// Embeddings, and what they took.
pub(super) struct EmbedOutput {
    /// An embedding for each text, in order.
    pub(super) embeddings: Rows,
    /// Counted tokens.
    pub(super) usage: Usage,
    /// Indices of truncated texts.
    pub(super) truncated: Vec<usize>,
    /// Indices of texts that were embedded in parts.
    pub(super) split: Vec<usize>,
    /// Characters of all texts.
    pub(super) characters: usize,
    /// Time of tokenisation.
    pub(super) tokenization: Duration,
    /// Longest wait of a text for a thread.
    pub(super) queue: Duration,
    /// Time of the model.
    pub(super) inference: Duration,
    /// The memory that is reserved until the reply is sent.
    pub(super) place: Reservation,
}

/// Refuses a dimension that the model was not trained for.
pub(super) async fn check_dimensions(model: &LoadedModel, job: Option<Count>) -> Result<()> {
    let Some(count) = job else { return Ok(()) };
    model.fetch_dimension().await?;
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

/// Tokenises the texts, embeds them in the lane for their number of tokens, and counts them.
pub(super) async fn embed(call: &Call, mut job: EmbedJob) -> Result<EmbedOutput> {
    let started = Instant::now();
    let gateway = &call.gateway;
    let tokens_max = gateway.config.limits.embedding_tokens_max;
    let EmbedJob { caching, until, dimensions, .. } = job;
    let model = job.model.clone();
    let mut place = std::mem::take(&mut job.place);
    let is_long = is_long_input(&job.texts);
    let texts = gateway.retrieval.maybe_in_background(is_long, move || tokenize(&job, tokens_max)).await??;
    let tokenization = started.elapsed();
    let _running = call.take_tokens(&model.id, texts.tokens)?;
    let dimension = model.dimension().unwrap_or_default();
    place.merge(gateway.scheduler.memory_budget().reserve_embeddings(texts.inputs.len(), dimension)?);

    let lane = if texts.tokens <= INTERACTIVE_TOKENS_MAX { Lane::Interactive } else { Lane::Bulk };
    let weights: Vec<usize> = texts.inputs.iter().map(Input::tokens).collect();
    let made = gateway
        .scheduler
        .embed(&model, texts.inputs, EmbedOptions { lane, flow: Flow::Request, caching, deadline: until })
        .await?;
    let mut embeddings = made.embeddings;
    if !texts.split.is_empty() {
        embeddings = average_parts(&embeddings, &weights, &texts.parts, model.is_normalised());
    }
    if let Some(dimensions) = dimensions {
        embeddings = model.truncate_embeddings(embeddings, dimensions);
    }
    gateway.metrics.embedded(&model.id, texts.tokens as u64, texts.truncated.len() as u64);
    Ok(EmbedOutput {
        embeddings,
        usage: Usage {
            prompt_tokens: texts.tokens,
            total_tokens: texts.tokens,
            truncated: texts.truncated.len(),
        },
        truncated: texts.truncated,
        split: texts.split,
        characters: texts.characters,
        tokenization,
        queue: made.waited,
        inference: (started.elapsed() - tokenization).saturating_sub(made.waited),
        place,
    })
}

/// Texts as token ids.
struct TokenizedTexts {
    /// The parts of all texts, in order.
    inputs: Vec<Input>,
    /// The number of parts of each text.
    parts: Vec<usize>,
    tokens: usize,
    characters: usize,
    truncated: Vec<usize>,
    /// Indices of texts with more than one part.
    split: Vec<usize>,
}

/// The prompt of texts with this role.
pub(super) fn prompt_of(model: &LoadedModel, role: Option<TextRole>) -> &str {
    match role {
        None => "",
        Some(TextRole::Query) => model.query_prompt(),
        Some(TextRole::Document) => model.document_prompt(),
    }
}

fn tokenize(job: &EmbedJob, tokens_max: usize) -> Result<TokenizedTexts, Invalid> {
    let model = &job.model;
    let prompt = prompt_of(model, job.role);
    let mut texts = TokenizedTexts {
        inputs: Vec::with_capacity(job.texts.as_slice().len()),
        parts: Vec::with_capacity(job.texts.as_slice().len()),
        tokens: 0,
        characters: 0,
        truncated: Vec::new(),
        split: Vec::new(),
    };
    for (index, text) in job.texts.as_slice().iter().enumerate() {
        texts.characters += text.chars().count();
        let prompted = if prompt.is_empty() { None } else { Some(format!("{prompt}{text}")) };
        let text = prompted.as_deref().unwrap_or(text);
        let parts = match job.truncate {
            Truncate::End => vec![model.input(text, Truncation::End)],
            Truncate::Start => vec![model.input(text, Truncation::Start)],
            Truncate::Error => vec![model.input(text, Truncation::Never)],
            Truncate::Split => model.parts(text),
        };
        if parts.iter().any(|part| part.is_truncated) {
            if job.truncate == Truncate::Error {
                return Err(too_long(job, index, text));
            }
            texts.truncated.push(index);
        }
        if parts.len() > 1 {
            texts.split.push(index);
        }
        texts.tokens += parts.iter().map(Input::tokens).sum::<usize>();
        if texts.tokens > tokens_max {
            let message = format!(
                "`{}` has more tokens than the limit `limits.embedding_tokens_max`, which is {tokens_max}",
                job.field
            );
            return Err(Invalid::at(ErrorCode::BatchTooLarge, &[job.field], message));
        }
        texts.parts.push(parts.len());
        texts.inputs.extend(parts);
    }
    Ok(texts)
}

/// One embedding for each text: the mean of its parts, weighted by their tokens, scaled to length one if the model's embeddings are.
fn average_parts(embeddings: &Rows, weights: &[usize], parts: &[usize], is_normalised: bool) -> Rows {
    let mut weighted = embeddings.iter().zip(weights);
    let mut averaged = Rows::with_capacity(parts.len(), embeddings.width());
    let mut sum = Vec::new();
    for count in parts {
        let mut parts = weighted.by_ref().take(*count);
        let Some((embedding, first)) = parts.next() else { continue };
        if *count == 1 {
            averaged.push(embedding);
            continue;
        }
        let mut total = *first as f32;
        sum.clear();
        sum.extend(embedding.iter().map(|x| x * total));
        for (part, weight) in parts {
            sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += *weight as f32 * x);
            total += *weight as f32;
        }
        sum.iter_mut().for_each(|x| *x /= total);
        if is_normalised {
            l2_normalise(&mut sum);
        }
        averaged.push(&sum);
    }
    averaged
}

fn too_long(job: &EmbedJob, index: usize, text: &str) -> Invalid {
    let (id, has) = (&job.model.id, job.model.count_tokens(text));
    let most = job.model.input_tokens_max().unwrap_or(usize::MAX);
    let message = format!("the text has {has} tokens; model `{id}` reads {most}");
    job.texts.invalid(job.field, index, ErrorCode::ContextLengthExceeded, message)
}

/// Whether tokenising these texts would delay other requests on this thread.
pub(super) fn is_long_input(texts: &Texts) -> bool {
    texts.as_slice().iter().map(String::len).sum::<usize>() > TOKENIZED_INLINE_BYTES_MAX
}

/// Whether rendering these embeddings would delay other requests on this thread.
pub(super) fn is_long_reply(embeddings: &Rows) -> bool {
    embeddings.floats().len() > RENDERED_INLINE_FLOATS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_weighted_by_their_tokens_and_whole_texts_are_unchanged() {
        let embeddings = Rows::from_iter([&[0.6, 0.8][..], &[1.0, 0.0], &[0.0, 1.0], &[0.0, 5.0]]);
        let check = |is_normalised, expected: [[f32; 2]; 3]| {
            let averaged = average_parts(&embeddings, &[7, 30, 10, 9], &[1, 2, 1], is_normalised);
            assert_eq!(averaged, expected.iter().map(|row| row.as_slice()).collect());
        };
        check(false, [[0.6, 0.8], [0.75, 0.25], [0.0, 5.0]]);
        let length = 0.625f32.sqrt();
        check(true, [[0.6, 0.8], [0.75 / length, 0.25 / length], [0.0, 5.0]]);
    }
}
