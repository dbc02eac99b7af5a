//! Texts to embeddings, for every API that embeds: tokenised, embedded in the lane for their number of tokens, cut and averaged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_api::{Count, ErrorCode, Invalid, TextRole, Texts, Truncate, Usage};
use weir_inference::{
    Caching, EmbedOptions, Flow, Input, Lane, LoadedModel, Reservation, Rows, Truncation, l2_normalise,
};

use crate::{Result, Retrieval};

/// Largest request in tokens for the interactive lane; larger ones use the bulk lane and do not delay small ones.
pub const INTERACTIVE_TOKENS_MAX: usize = 512;

/// Tokenise inputs larger than this (total bytes) in the background.
const TOKENIZED_INLINE_BYTES_MAX: usize = 8 << 10;

/// Texts to embed, and how.
pub struct EmbedJob {
    /// The model.
    pub model: Arc<LoadedModel>,
    /// The texts.
    pub texts: Texts,
    /// The request's field with the texts, for errors.
    pub field: &'static str,
    /// The role whose prompt is put before each text.
    pub role: Option<TextRole>,
    /// The treatment of texts that are longer than the model's input.
    pub truncate: Truncate,
    /// Whether cached embeddings may be used.
    pub caching: Caching,
    /// The request's deadline.
    pub until: Option<Instant>,
    /// The requested dimension, already checked; `None` for the model's own.
    pub dimensions: Option<u64>,
    /// The memory that is reserved for the request.
    pub place: Reservation,
}

/// Embeddings, and what they took.
pub struct EmbedOutput {
    /// An embedding for each text, in order.
    pub embeddings: Rows,
    /// Counted tokens.
    pub usage: Usage,
    /// Indices of truncated texts.
    pub truncated: Vec<usize>,
    /// Indices of texts that were embedded in parts.
    pub split: Vec<usize>,
    /// Characters of all texts.
    pub characters: usize,
    /// Time of tokenisation.
    pub tokenization: Duration,
    /// Longest wait of a text for a thread.
    pub queue: Duration,
    /// Time of the model.
    pub inference: Duration,
    /// The memory that is reserved until the reply is sent.
    pub place: Reservation,
}

/// Texts of an [`EmbedJob`] as token ids.
pub struct TokenizedTexts {
    job: EmbedJob,
    /// The parts of all texts, in order.
    inputs: Vec<Input>,
    /// The number of parts of each text.
    parts: Vec<usize>,
    tokens: usize,
    characters: usize,
    truncated: Vec<usize>,
    /// Indices of texts with more than one part.
    split: Vec<usize>,
    /// Time of tokenisation.
    time: Duration,
}

impl TokenizedTexts {
    /// Tokens to embed, special ones included.
    pub fn tokens(&self) -> usize {
        self.tokens
    }
}

/// Refuses a dimension that the model was not trained for.
///
/// # Errors
/// `invalid_parameter`; those of a model on another server that does not report its dimension.
pub async fn check_dimensions(model: &LoadedModel, dimensions: Option<Count>) -> Result<()> {
    let Some(count) = dimensions else { return Ok(()) };
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

impl Retrieval {
    /// Tokenises the texts, in the background if they are long.
    ///
    /// # Errors
    /// `batch_too_large` beyond `limits.embedding_tokens_max`, `context_length_exceeded` for a text that may not be truncated.
    pub async fn tokenize(&self, job: EmbedJob) -> Result<TokenizedTexts> {
        let tokens_max = self.config.limits.embedding_tokens_max;
        let is_long = is_long_input(&job.texts);
        Ok(self.maybe_in_background(is_long, move || tokenize(job, tokens_max)).await??)
    }

    /// Embeds tokenised texts: up to [`INTERACTIVE_TOKENS_MAX`] tokens in the interactive lane, more in the bulk lane.
    ///
    /// # Errors
    /// `overloaded` when embeddings or working memory do not fit; those of the scheduler.
    pub async fn embed(&self, texts: TokenizedTexts) -> Result<EmbedOutput> {
        let started = Instant::now();
        let EmbedJob { model, caching, until: deadline, dimensions, mut place, .. } = texts.job;
        let dimension = model.dimension().unwrap_or_default();
        place.merge(self.scheduler.memory_budget().reserve_embeddings(texts.inputs.len(), dimension)?);
        let lane = if texts.tokens <= INTERACTIVE_TOKENS_MAX { Lane::Interactive } else { Lane::Bulk };
        let weights: Vec<usize> = texts.inputs.iter().map(Input::tokens).collect();
        let options = EmbedOptions { lane, flow: Flow::Request, caching, deadline };
        let made = self.scheduler.embed(&model, texts.inputs, options).await?;
        let mut embeddings = made.embeddings;
        if !texts.split.is_empty() {
            embeddings = average_parts(&embeddings, &weights, &texts.parts, model.is_normalised());
        }
        if let Some(dimensions) = dimensions {
            embeddings = model.truncate_embeddings(embeddings, dimensions);
        }
        self.metrics.embedded(&model.id, texts.tokens as u64, texts.truncated.len() as u64);
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
            tokenization: texts.time,
            queue: made.waited,
            inference: started.elapsed().saturating_sub(made.waited),
            place,
        })
    }
}

/// The prompt of texts with this role.
pub fn prompt_of(model: &LoadedModel, role: Option<TextRole>) -> &str {
    match role {
        None => "",
        Some(TextRole::Query) => model.query_prompt(),
        Some(TextRole::Document) => model.document_prompt(),
    }
}

fn tokenize(mut job: EmbedJob, tokens_max: usize) -> Result<TokenizedTexts, Invalid> {
    let started = Instant::now();
    let model = job.model.clone();
    let prompt = prompt_of(&model, job.role);
    let count = job.texts.as_slice().len();
    let (mut inputs, mut parts_of) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut tokens, mut characters, mut truncated, mut split) = (0, 0, Vec::new(), Vec::new());
    for (index, text) in job.texts.as_slice().iter().enumerate() {
        characters += text.chars().count();
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
                return Err(too_long(&job, index, text));
            }
            truncated.push(index);
        }
        if parts.len() > 1 {
            split.push(index);
        }
        tokens += parts.iter().map(Input::tokens).sum::<usize>();
        if tokens > tokens_max {
            let message = format!(
                "`{}` has more tokens than the limit `limits.embedding_tokens_max`, which is {tokens_max}",
                job.field
            );
            return Err(Invalid::at(ErrorCode::BatchTooLarge, &[job.field], message));
        }
        parts_of.push(parts.len());
        inputs.extend(parts);
    }
    job.texts = Texts::list(Vec::new()); // their memory is not needed while they are embedded
    let time = started.elapsed();
    Ok(TokenizedTexts { job, inputs, parts: parts_of, tokens, characters, truncated, split, time })
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
pub fn is_long_input(texts: &Texts) -> bool {
    texts.as_slice().iter().map(String::len).sum::<usize>() > TOKENIZED_INLINE_BYTES_MAX
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
