//! Prepares documents for the index: chunks, and an embedding for each.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use futures_util::{StreamExt as _, TryStreamExt as _};
use weir_api::VectorSettings;
use weir_index::{IndexedChunk, IndexedDocument};
use weir_store::{ChunkSpan, GenerationId, PreparedDocument, Store, StoreView, StoredDocument, TextHash};
use weir_text::PageMap;

use weir_inference::{
    Caching, EmbedOptions, Flow, InferenceError, Input, Lane, LoadedModel, Scheduler, Truncation,
};
use weir_preparation::{Chunker, Preparation, TextChunk, own_vectors};
use weir_upkeep::Lease;

/// Bytes of the texts that are embedded by one call: about 4,000 tokens for a model in this process, so that progress is seen; as many as a
/// batch for a model on another server, which takes many texts in a request.
const CALL_BYTES_LOCAL: usize = 16 << 10;
const CALL_BYTES_REMOTE: usize = 128 << 10;

/// New embeddings beyond this number are saved in parts of this many, so that an interruption does not lose them.
const SAVED_TOGETHER_MAX: usize = 1024;

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
    /// The embeddings that the documents bring, if they do.
    pub(crate) vectors: Option<VectorSettings>,
    /// Splits the documents.
    pub(crate) chunker: Chunker,
    /// The lease of this gateway, if other gateways use the store and it has it.
    pub(crate) lease: Arc<Lease>,
    /// Names this gateway.
    pub(crate) gateway: Arc<str>,
}

/// Documents as another gateway has prepared them.
pub(crate) struct ReadPrepared {
    pub(crate) documents: Vec<IndexedDocument>,
    /// Those that could not be embedded.
    pub(crate) refused: Vec<String>,
}

/// A document, its chunks, and the text that is embedded for each chunk.
struct ChunkedDocument {
    document: StoredDocument,
    spans: Vec<ChunkSpan>,
    chunks: Vec<TextChunk>,
    texts: Vec<String>,
    /// The embedding that the document brought.
    own: Option<Vec<f32>>,
}

impl Preparer {
    /// Chunks and embeds `documents`. Embeddings come from the store where it has them; new ones are stored before this returns.
    ///
    /// # Errors
    /// [`IngestError`]; the batch can be retried.
    pub(crate) async fn prepare(
        &self,
        documents: Vec<StoredDocument>,
        preparation: &Preparation,
    ) -> Result<Vec<IndexedDocument>, IngestError> {
        let preparer = self.clone();
        let chunk = move || {
            documents.into_iter().map(|document| preparer.chunk_document(document)).collect::<Vec<_>>()
        };
        let chunked = tokio::task::spawn_blocking(chunk).await.map_err(|_| IngestError::Interrupted)?;
        let known = self.embeddings(&chunked, preparation).await?;
        Ok(chunked.into_iter().map(|one| one.into_indexed(&known)).collect())
    }

    /// The store for the writes of the worker.
    ///
    /// # Errors
    /// `LeaseLost` if other gateways use the store and this one does not have the lease.
    pub(crate) fn worker_store(&self) -> weir_store::Result<Store> {
        match self.lease.get() {
            Some(fence) => Ok(self.store.fenced(fence)),
            None if self.store.is_shared() => Err(weir_store::Error::LeaseLost),
            None => Ok(self.store.clone()),
        }
    }

    /// Documents with the chunks and embeddings that another gateway has stored. `None` if embeddings are missing; with `embeds`, those are computed and
    /// not stored.
    pub(crate) async fn read_prepared(
        &self,
        documents: Vec<StoredDocument>,
        embeds: bool,
    ) -> Result<Option<ReadPrepared>, IngestError> {
        let preparer = self.clone();
        let split = move || {
            let (mut chunked, mut refused) = (Vec::with_capacity(documents.len()), Vec::new());
            for document in documents {
                match preparer.chunk_as_stored(document) {
                    Ok(one) => chunked.push(one),
                    Err(id) => refused.push(id),
                }
            }
            (chunked, refused)
        };
        let (chunked, refused) =
            tokio::task::spawn_blocking(split).await.map_err(|_| IngestError::Interrupted)?;
        let mut known: Embeddings = HashMap::new();
        if let Some(model) = &self.model {
            let texts = texts_by_hash(&chunked);
            let hashes: Vec<TextHash> = texts.keys().copied().collect();
            let stored = self.documents.embeddings(&self.fingerprint, hashes.clone()).await?;
            let mut missing = Vec::new();
            for (hash, embedding) in hashes.into_iter().zip(stored) {
                match embedding {
                    Some(embedding) => drop(known.insert(hash, embedding)),
                    None => missing.push((hash, texts[&hash])),
                }
            }
            if !missing.is_empty() {
                if !embeds {
                    return Ok(None);
                }
                tracing::warn!(
                    count = missing.len(),
                    "embeddings that another gateway has stored are missing: they are computed again"
                );
            }
            for call in split_into_calls(model, missing) {
                known.extend(self.embed(model, call).await?);
            }
        }
        let documents = chunked.into_iter().map(|one| one.into_indexed(&known)).collect();
        Ok(Some(ReadPrepared { documents, refused }))
    }

    /// The document with the chunks that are stored for it, or its id if it has none, because it could not be embedded.
    fn chunk_as_stored(&self, document: StoredDocument) -> Result<ChunkedDocument, String> {
        let one = self.chunk_document(document);
        if one.spans == one.document.chunks {
            return Ok(one);
        }
        if one.document.chunks.is_empty() {
            return Err(one.document.id);
        }
        // of another version of weir, which splits otherwise
        let spans = one.document.chunks.clone();
        let chunks =
            spans.iter().map(|span| TextChunk { span: range_of(span, &one.document.text), context: None });
        let chunks: Vec<TextChunk> = chunks.collect();
        let texts = chunks.iter().map(|chunk| chunk.text(&one.document.text).to_string()).collect();
        Ok(ChunkedDocument { spans, chunks, texts, ..one })
    }

    /// The share of the bulk lane.
    pub(crate) fn flow(&self) -> Flow {
        Flow::Collection(self.generation.0.cast_unsigned())
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
        let terms =
            EmbedOptions { lane: Lane::Bulk, flow: self.flow(), caching: Caching::Off, deadline: None };
        self.scheduler.embed(model, vec![model.input(PROBE_TEXT, Truncation::End)], terms).await.is_ok()
    }

    /// The embedding of every chunk. Saves the chunks, and the embeddings that the store lacks.
    async fn embeddings(
        &self,
        chunked: &[ChunkedDocument],
        preparation: &Preparation,
    ) -> Result<Embeddings, IngestError> {
        // while an index is rebuilt, the store has these chunks already
        let mut prepared: Vec<PreparedDocument> = chunked
            .iter()
            .filter(|one| one.spans != one.document.chunks)
            .map(ChunkedDocument::prepared)
            .collect();
        let Some(model) = &self.model else {
            self.worker_store()?.save_prepared(self.generation, prepared, Vec::new()).await?;
            return Ok(HashMap::new());
        };
        let (mut texts, mut hashes) = (HashMap::<TextHash, &str>::new(), Vec::new());
        for document in chunked {
            for (span, text) in document.spans.iter().zip(&document.texts) {
                if texts.insert(span.text_hash, text).is_none() {
                    hashes.push(span.text_hash);
                }
            }
        }
        let stored = self.documents.embeddings(&self.fingerprint, hashes.clone()).await?;
        let mut known: Embeddings = HashMap::with_capacity(hashes.len());
        let mut missing = Vec::new();
        for (hash, embedding) in hashes.into_iter().zip(stored) {
            match embedding {
                Some(embedding) => drop(known.insert(hash, embedding)),
                None => missing.push((hash, texts[&hash])),
            }
        }
        preparation.begin(texts.len(), known.len());
        if missing.len() > SAVED_TOGETHER_MAX {
            // the store keeps embeddings that a chunk refers to
            let chunks = std::mem::take(&mut prepared);
            self.worker_store()?.save_prepared(self.generation, chunks, Vec::new()).await?;
        }
        let calls = split_into_calls(model, missing);
        let calls: Vec<_> = calls.into_iter().map(|call| self.embed(model, call)).collect();
        let mut made = futures_util::stream::iter(calls).buffered(calls_max());
        let mut unsaved = Vec::new();
        while let Some(embeddings) = made.try_next().await? {
            preparation.add(embeddings.len());
            known.extend(embeddings.iter().cloned());
            unsaved.extend(embeddings);
            if unsaved.len() > SAVED_TOGETHER_MAX && prepared.is_empty() {
                self.worker_store()?
                    .save_prepared(self.generation, Vec::new(), std::mem::take(&mut unsaved))
                    .await?;
            }
        }
        self.worker_store()?.save_prepared(self.generation, prepared, unsaved).await?;
        Ok(known)
    }

    /// Embeds texts in the bulk lane.
    async fn embed(
        &self,
        model: &LoadedModel,
        texts: Vec<(TextHash, &str)>,
    ) -> Result<Vec<(TextHash, Vec<f32>)>, InferenceError> {
        let inputs: Vec<Input> = texts.iter().map(|(_, text)| model.input(text, Truncation::End)).collect();
        let options =
            EmbedOptions { lane: Lane::Bulk, flow: self.flow(), caching: Caching::On, deadline: None };
        let made = self.scheduler.embed(model, inputs, options).await?;
        Ok(texts.iter().map(|(hash, _)| *hash).zip(made.embeddings.iter().map(<[f32]>::to_vec)).collect())
    }

    fn chunk_document(&self, document: StoredDocument) -> ChunkedDocument {
        if let Some(vectors) = &self.vectors {
            return with_own_vector(vectors, document);
        }
        let title = document.title.as_deref().unwrap_or_default();
        // a title that was changed without embedding again leaves the chunks as they are
        let embedded_title = document.embedded_title.as_deref().unwrap_or(title);
        let pages = document.pages.as_deref().filter(|_| self.chunker.uses_pages());
        let pages = pages.and_then(|pages| serde_json::from_str::<PageMap>(pages).ok());
        let mut chunks = self.chunker.chunks(&document.text, embedded_title, pages.as_ref());
        if chunks.is_empty() && !title.is_empty() {
            chunks.push(TextChunk { span: 0..0, context: None }); // found by its title
        }
        let prefix = self.chunker.prefix(embedded_title);
        let texts = chunks.iter().map(|chunk| format!("{prefix}{}", chunk.text(&document.text)));
        let texts: Vec<String> = texts.collect();
        let spans = chunks.iter().zip(&texts).map(|(chunk, text)| ChunkSpan {
            start: chunk.span.start as u64,
            end: chunk.span.end as u64,
            text_hash: weir_text::text_hash(text),
        });
        ChunkedDocument { spans: spans.collect(), chunks, texts, document, own: None }
    }
}

/// A document that is one chunk, with the embedding that it brought. Without one that fits, which is refused before it is stored, it has no chunk.
fn with_own_vector(vectors: &VectorSettings, document: StoredDocument) -> ChunkedDocument {
    let own = own_vectors::embedding(vectors, document.vector.as_deref());
    let span = 0..document.text.len();
    let chunks: Vec<_> = own.iter().map(|_| TextChunk { span: span.clone(), context: None }).collect();
    let text_hash = weir_text::text_hash(&document.text);
    let of_chunk = ChunkSpan { start: span.start as u64, end: span.end as u64, text_hash };
    ChunkedDocument { spans: vec![of_chunk; chunks.len()], chunks, texts: Vec::new(), document, own }
}

/// The text of each chunk.
fn texts_by_hash(chunked: &[ChunkedDocument]) -> HashMap<TextHash, &str> {
    let texts = chunked.iter().flat_map(|one| one.spans.iter().zip(&one.texts));
    texts.map(|(span, text)| (span.text_hash, text.as_str())).collect()
}

/// The part of a text that a stored chunk is; empty if it is none.
fn range_of(span: &ChunkSpan, text: &str) -> std::ops::Range<usize> {
    let (start, end) = (span.start as usize, span.end as usize);
    if text.get(start..end).is_some() { start..end } else { 0..0 }
}

type Embeddings = HashMap<TextHash, Vec<f32>>;

/// The texts of each call of the model, in order.
fn split_into_calls<'a>(
    model: &LoadedModel,
    texts: Vec<(TextHash, &'a str)>,
) -> Vec<Vec<(TextHash, &'a str)>> {
    let bytes_max = if model.is_local() { CALL_BYTES_LOCAL } else { CALL_BYTES_REMOTE };
    let (mut calls, mut bytes) = (Vec::<Vec<_>>::new(), 0);
    for text in texts {
        bytes += text.1.len();
        match calls.last_mut().filter(|_| bytes <= bytes_max) {
            Some(call) => call.push(text),
            None => {
                bytes = text.1.len();
                calls.push(vec![text]);
            }
        }
    }
    calls
}

/// Calls at the same time: they occupy every thread of the lane, with one call to spare.
fn calls_max() -> usize {
    available_parallelism().map_or(1, NonZero::get) / 8 + 2
}

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
        let chunk = |(span, chunk): (&ChunkSpan, &TextChunk)| IndexedChunk {
            start: chunk.span.start,
            end: chunk.span.end,
            text: chunk.text(text),
            embedding: self.own.clone().or_else(|| embeddings.get(&span.text_hash).cloned()),
        };
        IndexedDocument {
            chunks: self.spans.iter().zip(&self.chunks).map(chunk).collect(),
            id: self.document.id,
            version: self.document.version,
            title: self.document.title,
            metadata: self.document.metadata,
            pages: self.document.pages,
        }
    }
}
