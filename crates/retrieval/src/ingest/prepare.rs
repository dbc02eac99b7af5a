//! Prepares documents for the index: chunks, and an embedding for each.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use weir_index::{IndexedChunk, IndexedDocument};
use weir_store::{ChunkSpan, GenerationId, PreparedDocument, Store, StoreView, StoredDocument, TextHash};
use weir_text::Chunking;

use weir_inference::{
    Caching, EmbedOptions, InferenceError, Input, Lane, LoadedModel, Scheduler, Truncation,
};

/// Most bytes of a chunk: some tokenizers turn any number of characters without a space into one token.
const CHUNK_BYTES_MAX: usize = 8192;

/// The part of a chunk that the header of a table may take: one that is longer is not repeated with its rows.
const TABLE_HEADER_SHARE: usize = 4;

/// Fewest tokens for the text of a chunk, however long title and prompt are.
const CHUNK_TOKENS_MIN: usize = 32;

/// A text that every model embeds.
const PROBE_TEXT: &str = "text";

/// Why a batch could not be made searchable. It is retried; nothing is lost.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IngestError {
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] weir_store::Error),
    /// The index failed.
    #[error("the index failed: {0}")]
    Index(#[from] weir_index::IndexError),
    /// Embedding failed.
    #[error("embedding failed: {0}")]
    Inference(#[from] InferenceError),
    /// The thread that chunked the documents panicked or was shut down.
    #[error("chunking was interrupted; the log has the reason")]
    Interrupted,
}

/// Prepares the documents of one collection generation.
#[derive(Clone)]
pub(crate) struct Preparer {
    /// The store.
    pub store: Store,
    /// The collection in the store, without a filter.
    pub(crate) documents: StoreView,
    /// The scheduler of the model.
    pub scheduler: Scheduler,
    /// The model; `None` for a text-only collection.
    pub model: Option<Arc<LoadedModel>>,
    /// The fingerprint that the generation pins.
    pub fingerprint: String,
    /// The generation.
    pub generation: GenerationId,
    /// Tokens of a chunk and of the overlap.
    pub chunking: Chunking,
}

/// A document, its chunks, and the text that is embedded for each chunk.
struct ChunkedDocument {
    document: StoredDocument,
    spans: Vec<ChunkSpan>,
    /// The headers of the tables in whose rows chunks begin.
    headers: Vec<Option<Range<usize>>>,
    texts: Vec<String>,
}

impl Preparer {
    /// Chunks and embeds `documents`. Embeddings come from the store where it has them; new ones are stored before this returns.
    ///
    /// # Errors
    /// [`IngestError`]; the batch can be retried.
    pub(crate) async fn prepare(
        &self,
        documents: Vec<StoredDocument>,
    ) -> Result<Vec<IndexedDocument>, IngestError> {
        let preparer = self.clone();
        let chunk = move || {
            documents.into_iter().map(|document| preparer.chunk_document(document)).collect::<Vec<_>>()
        };
        let chunked = tokio::task::spawn_blocking(chunk).await.map_err(|_| IngestError::Interrupted)?;
        let (known, new) = self.embeddings(&chunked).await?;
        // while an index is rebuilt, the store has these chunks already
        let prepared = chunked
            .iter()
            .filter(|one| one.spans != one.document.chunks)
            .map(ChunkedDocument::prepared)
            .collect();
        self.store.save_prepared(self.generation, prepared, new).await?;
        Ok(chunked.into_iter().map(|one| one.into_indexed(&known)).collect())
    }

    /// Whether `error` is caused by the text: the model still embeds another text.
    pub(crate) async fn is_text_refused(&self, error: &InferenceError) -> bool {
        let may_be = match error {
            InferenceError::Upstream(error) => error.may_be_the_text(),
            InferenceError::Failed => true,
            InferenceError::QueueFull { .. }
            | InferenceError::QueueTooSlow { .. }
            | InferenceError::TooMuchWork { .. }
            | InferenceError::Stopping => false,
        };
        let Some(model) = self.model.as_ref().filter(|_| may_be) else { return false };
        let terms = EmbedOptions { lane: Lane::Bulk, caching: Caching::Off, deadline: None };
        self.scheduler.embed(model, vec![model.input(PROBE_TEXT, Truncation::End)], terms).await.is_ok()
    }

    /// The embedding of every chunk, and those of them that the store lacks.
    async fn embeddings(
        &self,
        chunked: &[ChunkedDocument],
    ) -> Result<(Embeddings, Vec<(TextHash, Vec<f32>)>), IngestError> {
        let Some(model) = &self.model else { return Ok((HashMap::new(), Vec::new())) };
        let mut texts: HashMap<TextHash, &String> = HashMap::new();
        for document in chunked {
            texts.extend(document.spans.iter().map(|span| span.text_hash).zip(&document.texts));
        }
        let hashes: Vec<TextHash> = texts.keys().copied().collect();
        let stored = self.documents.embeddings(&self.fingerprint, hashes.clone()).await?;
        let mut known: Embeddings = HashMap::with_capacity(hashes.len());
        let mut missing = Vec::new();
        for (hash, embedding) in hashes.into_iter().zip(stored) {
            match embedding {
                Some(embedding) => drop(known.insert(hash, embedding)),
                None => missing.push(hash),
            }
        }
        let inputs: Vec<Input> =
            missing.iter().map(|hash| model.input(texts[hash], Truncation::End)).collect();
        let terms = EmbedOptions { lane: Lane::Bulk, caching: Caching::On, deadline: None };
        let made = self.scheduler.embed(model, inputs, terms).await?;
        let new: Vec<_> = missing.into_iter().zip(made.embeddings.iter().map(<[f32]>::to_vec)).collect();
        known.extend(new.iter().cloned());
        Ok((known, new))
    }

    fn chunk_document(&self, document: StoredDocument) -> ChunkedDocument {
        let title = document.title.as_deref().unwrap_or_default();
        let prompt = self.model.as_ref().map_or("", |model| model.document_prompt());
        // the title is searchable and gives the chunk its context
        let before = if title.is_empty() { prompt.to_owned() } else { format!("{prompt}{title} ") };
        let (mut spans, mut headers) = self.spans(&document.text, &before);
        if spans.is_empty() && !title.is_empty() {
            spans.push(0..0); // found by its title
            headers.push(None);
        }
        let texts = spans.iter().zip(&headers).map(|(span, header)| {
            format!("{before}{}", text_of_chunk(&document.text, span.clone(), header.as_ref()))
        });
        let texts: Vec<String> = texts.collect();
        let spans = spans.iter().zip(&texts).map(|(span, text)| ChunkSpan {
            start: span.start as u64,
            end: span.end as u64,
            text_hash: weir_text::text_hash(text),
        });
        ChunkedDocument { spans: spans.collect(), headers, texts, document }
    }

    /// The chunks of a text, and for each the header of the table in whose rows it begins.
    fn spans(&self, text: &str, before: &str) -> (Vec<Range<usize>>, Vec<Option<Range<usize>>>) {
        let mut chunking = Chunking { max_bytes: CHUNK_BYTES_MAX, ..self.chunking.clone() };
        let Some(model) = &self.model else {
            // without a model, words are as good a measure as any
            let pseudo = weir_inference::Pseudo { dimension: 0 };
            return chunks_with_headers(text, &chunking, 0, &mut |piece| pseudo.token_spans(piece));
        };
        let room = model.max_tokens().saturating_sub(model.token_spans(before).len());
        let room = room.max(CHUNK_TOKENS_MIN);
        let spare = room.saturating_sub(chunking.max_tokens);
        chunking.max_tokens = chunking.max_tokens.min(room);
        chunks_with_headers(text, &chunking, spare, &mut |piece| model.token_spans(piece))
    }
}

/// Chunks, with the headers of tables that are not too long. Chunks are made smaller where the header and they have more
/// tokens together than fit: `spare` is what fits beside a chunk.
fn chunks_with_headers(
    text: &str,
    chunking: &Chunking,
    spare: usize,
    token_offsets: weir_text::TokenOffsets<'_>,
) -> (Vec<Range<usize>>, Vec<Option<Range<usize>>>) {
    let header_max = chunking.max_tokens / TABLE_HEADER_SHARE;
    let spans = weir_text::chunk(text, chunking, token_offsets);
    let (headers, longest) = short_headers(text, &spans, header_max, token_offsets);
    if longest <= spare {
        return (spans, headers);
    }
    let smaller = Chunking { max_tokens: chunking.max_tokens - (longest - spare), ..chunking.clone() };
    let spans = weir_text::chunk(text, &smaller, token_offsets);
    let (headers, _) = short_headers(text, &spans, header_max, token_offsets);
    (spans, headers)
}

/// The headers of tables that have at most `tokens_max` tokens, and the number of tokens of the longest.
fn short_headers(
    text: &str,
    spans: &[Range<usize>],
    tokens_max: usize,
    token_offsets: weir_text::TokenOffsets<'_>,
) -> (Vec<Option<Range<usize>>>, usize) {
    let mut headers = weir_text::table_headers(text, spans);
    let (mut longest, mut last, mut is_short) = (0, None, false);
    for header in &mut headers {
        let Some(span) = header.clone() else { continue };
        if last.as_ref() != Some(&span) {
            let tokens = token_offsets(&text[span.clone()]).len();
            is_short = tokens <= tokens_max;
            longest = longest.max(if is_short { tokens } else { 0 });
            last = Some(span);
        }
        header.take_if(|_| !is_short);
    }
    (headers, longest)
}

/// The text of a chunk as it is searched and shown: rows have the header of their table before them.
fn text_of_chunk(text: &str, span: Range<usize>, header: Option<&Range<usize>>) -> String {
    match header {
        Some(header) => format!("{}\n{}", text[header.clone()].trim(), &text[span]),
        None => text[span].to_owned(),
    }
}

type Embeddings = HashMap<TextHash, Vec<f32>>;

impl ChunkedDocument {
    fn prepared(&self) -> PreparedDocument {
        PreparedDocument {
            document_id: self.document.id.clone(),
            version: self.document.version,
            chunks: self.spans.clone(),
        }
    }

    fn into_indexed(self, embeddings: &Embeddings) -> IndexedDocument {
        let text = &self.document.text;
        let chunk = |(span, header): (&ChunkSpan, &Option<Range<usize>>)| {
            let (start, end) = (span.start as usize, span.end as usize);
            let embedding = embeddings.get(&span.text_hash).cloned();
            IndexedChunk { start, end, text: text_of_chunk(text, start..end, header.as_ref()), embedding }
        };
        IndexedDocument {
            chunks: self.spans.iter().zip(&self.headers).map(chunk).collect(),
            id: self.document.id,
            version: self.document.version,
            title: self.document.title,
            metadata: self.document.metadata,
        }
    }
}
