//! Embeddings as raw floats. The frames of a reply are written into the memory of the floats, so that nothing is decoded or copied.

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use hyper::body::{Buf, Incoming};
use serde::Serialize;
use weir_api::{TextRole, Truncate};
use zerocopy::IntoBytes;

use crate::call::{ApiCall, Failed, REPLY_BYTES_MAX, Retries, in_time};
use crate::{Client, Result, TransportError};

const RAW: &str = "application/octet-stream";
/// The type of the floats, and of replies that do not name one.
const FLOAT32: &str = "float32";

/// How texts are embedded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbeddingOptions {
    /// The id or an alias of a model; default: the gateway's first one that embeds.
    pub model: Option<String>,
    /// Dimension of the embeddings, for models trained for shorter ones; default: the model's own.
    pub dimensions: Option<u64>,
    /// How texts longer than the model's input limit are shortened; default: the end is cut off.
    pub truncate: Option<Truncate>,
    /// The role of the texts, which determines the model's prompt; default: no prompt.
    pub input_type: Option<TextRole>,
    /// Compute the embeddings also of texts that the gateway has in its cache.
    pub is_cache_bypassed: bool,
}

/// The embeddings of texts: a row of floats for each, in one piece of memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embeddings {
    floats: Vec<f32>,
    dimension: usize,
    model: String,
    prompt_tokens: usize,
    truncated: AffectedTexts,
    split: AffectedTexts,
}

/// Texts of a request to which something happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AffectedTexts {
    /// Their indices, from 0; of many only the first hundred.
    pub indices: Vec<usize>,
    /// The number of all of them.
    pub count: usize,
}

impl Embeddings {
    /// The number of embeddings.
    pub fn len(&self) -> usize {
        self.floats.len().checked_div(self.dimension).unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.floats.is_empty()
    }

    /// The length of each embedding.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The embedding of the text at `index`.
    ///
    /// # Panics
    /// When there is no such text.
    pub fn row(&self, index: usize) -> &[f32] {
        let (rows, dimension) = (self.len(), self.dimension);
        assert!(index < rows, "there is no row {index} in {rows} embeddings");
        &self.floats[index * dimension..(index + 1) * dimension]
    }

    /// The embeddings, in the order of the texts.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.floats.chunks_exact(self.dimension.max(1))
    }

    /// The floats of all embeddings, one after the other.
    pub fn as_slice(&self) -> &[f32] {
        &self.floats
    }

    /// The same without a copy.
    pub fn into_vec(self) -> Vec<f32> {
        self.floats
    }

    /// The model that was named.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Embedded tokens, including prompts and special tokens; 0 if the reply does not say.
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// The texts that were truncated to the model's input limit.
    pub fn truncated(&self) -> &AffectedTexts {
        &self.truncated
    }

    /// The texts that were embedded in parts.
    pub fn split(&self) -> &AffectedTexts {
        &self.split
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncate: Option<Truncate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_type: Option<TextRole>,
}

impl Client {
    /// Embeds texts, in one request.
    pub async fn embed<T: AsRef<str>>(&self, texts: &[T], options: &EmbeddingOptions) -> Result<Embeddings> {
        let mut embeddings = Embeddings::default();
        self.embed_into(texts, options, &mut embeddings).await?;
        Ok(embeddings)
    }

    /// The same into the memory of earlier embeddings, which are empty after an error.
    pub async fn embed_into<T: AsRef<str>>(
        &self,
        texts: &[T],
        options: &EmbeddingOptions,
        embeddings: &mut Embeddings,
    ) -> Result<()> {
        let model = match &options.model {
            Some(model) => model,
            None => self.default_model().await?,
        };
        let EmbeddingOptions { dimensions, truncate, input_type, is_cache_bypassed, .. } = *options;
        let input = texts.iter().map(AsRef::as_ref).collect();
        let body = Body { model, input, dimensions, truncate, input_type };
        let mut call = ApiCall::post("/v1/embeddings", &body).with_header(ACCEPT, RAW);
        if is_cache_bypassed {
            call = call.with_header(CACHE_CONTROL, "no-cache");
        }
        drop(body);
        let mut retries = Retries::begin(self.retries(), &call);
        loop {
            match in_time(self.attempt_embed(&call, texts.len(), embeddings)).await {
                Ok(()) => break,
                Err(failed) => {
                    *embeddings = Embeddings::default();
                    retries.wait(failed, self.url(), |_| {}).await?;
                }
            }
        }
        if embeddings.model.is_empty() {
            model.clone_into(&mut embeddings.model);
        }
        Ok(())
    }

    async fn attempt_embed(
        &self,
        call: &ApiCall,
        count: usize,
        embeddings: &mut Embeddings,
    ) -> Result<(), Failed> {
        let response = self.open(call).await?;
        let floats = std::mem::take(&mut embeddings.floats);
        *embeddings = describe(response.headers(), count)?;
        embeddings.floats = read(response, count * embeddings.dimension, floats).await?;
        Ok(())
    }
}

/// The embeddings that the headers of a reply announce, still without floats.
fn describe(headers: &HeaderMap, count: usize) -> Result<Embeddings, Failed> {
    let media = text(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let essence = media.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case(RAW) {
        return Err(malformed(format!("has the media type `{media}` instead of `{RAW}`")));
    }
    let dtype = text(headers, "x-embedding-dtype").unwrap_or(FLOAT32);
    if dtype != FLOAT32 {
        return Err(malformed(format!("has embeddings of the type `{dtype}` instead of `{FLOAT32}`")));
    }
    let rows = required(headers, "x-embedding-count")?;
    if rows != count {
        return Err(malformed(format!("has {rows} embeddings for {count} texts")));
    }
    let dimension = required(headers, "x-embedding-dim")?;
    let bytes = count.checked_mul(dimension).and_then(|floats| floats.checked_mul(size_of::<f32>()));
    let Some(bytes) = bytes.filter(|bytes| *bytes <= REPLY_BYTES_MAX) else {
        return Err(malformed(format!(
            "has {rows} embeddings of dimension {dimension}, which are more than {REPLY_BYTES_MAX} bytes: embed fewer texts at once"
        )));
    };
    if dimension == 0 {
        return Err(malformed("has embeddings of dimension 0".to_owned()));
    }
    match number(headers, CONTENT_LENGTH.as_str())? {
        Some(length) if length != bytes => Err(wrong_length(&length.to_string(), bytes)),
        Some(_) | None => Ok(Embeddings {
            floats: Vec::new(),
            dimension,
            model: text(headers, "x-embedding-model").unwrap_or_default().to_owned(),
            prompt_tokens: number(headers, "x-usage-prompt-tokens")?.unwrap_or(0),
            truncated: affected(headers, "x-truncated-inputs", "x-truncated-inputs-count")?,
            split: affected(headers, "x-split-inputs", "x-split-inputs-count")?,
        }),
    }
}

/// Reads a body of `count` floats into the memory of `floats`, frame by frame.
async fn read(response: Response<Incoming>, count: usize, mut floats: Vec<f32>) -> Result<Vec<f32>, Failed> {
    if floats.capacity() < count {
        // the system's zeroed pages; growing the vector would write zeros
        floats = vec![0.0; count];
    }
    floats.resize(count, 0.0);
    let memory = floats.as_mut_bytes();
    let mut body = response.into_body();
    let mut filled = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| TransportError::Body(error.into()))?;
        let Ok(mut data) = frame.into_data() else { continue };
        let end = filled + data.remaining();
        let expected = memory.len();
        let Some(target) = memory.get_mut(filled..end) else {
            return Err(wrong_length(&format!("at least {end}"), expected));
        };
        data.copy_to_slice(target);
        filled = end;
    }
    if filled != memory.len() {
        return Err(wrong_length(&filled.to_string(), memory.len()));
    }
    if cfg!(target_endian = "big") {
        floats.iter_mut().for_each(|float| *float = f32::from_bits(float.to_bits().swap_bytes()));
    }
    Ok(floats)
}

fn wrong_length(bytes: &str, expected: usize) -> Failed {
    malformed(format!("has {bytes} bytes of embeddings, and {expected} by its headers"))
}

fn malformed(reason: String) -> Failed {
    Failed::Malformed(reason)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn number(headers: &HeaderMap, name: &str) -> Result<Option<usize>, Failed> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|value| value.trim().parse().ok());
    let wrong = || malformed(format!("has the header {name} {value:?}, which is no number"));
    number.ok_or_else(wrong).map(Some)
}

fn required(headers: &HeaderMap, name: &str) -> Result<usize, Failed> {
    number(headers, name)?.ok_or_else(|| malformed(format!("has no header {name}")))
}

fn affected(headers: &HeaderMap, indices: &str, count: &str) -> Result<AffectedTexts, Failed> {
    let listed = text(headers, indices).unwrap_or_default();
    let parts = listed.split(',').map(str::trim).filter(|part| !part.is_empty());
    let parsed: Result<Vec<usize>, _> = parts.map(str::parse).collect();
    let wrong = |_| malformed(format!("has the header {indices} `{listed}`, which is no list of numbers"));
    let parsed = parsed.map_err(wrong)?;
    Ok(AffectedTexts { count: number(headers, count)?.unwrap_or(parsed.len()), indices: parsed })
}
