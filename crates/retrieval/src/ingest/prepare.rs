//! What is made of a document before it can be indexed: chunks, and an embedding for each.

use std::collections::HashMap;
use std::sync::Arc;

use weir_index::{IndexedChunk, IndexedDocument};
use weir_store::{ChunkSpan, GenerationId, PreparedDocument, Store, StoreView, StoredDocument, TextHash};
use weir_text::Chunking;

use weir_inference::{
    Caching, EmbedOptions, InferenceError, Input, Lane, LoadedModel, Scheduler, Truncation,
};

/// Bytes of a chunk, at most: a model may make one token of any number of characters without a space.
const CHUNK_BYTES_MAX: usize = 8192;

/// Tokens that the text of a chunk keeps when title and prompt are long.
const CHUNK_TOKENS_MIN: usize = 32;

/// A text that every model takes.
const HARMLESS: &str = "text";

/// Why a batch could not be made searchable. It is tried again; nothing is lost.
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
    /// The thread that cut the documents panicked or was shut down.
    #[error("cutting documents into chunks ended early; the log has the reason")]
    Interrupted,
}

/// Prepares the documents of one collection generation.
#[derive(Clone)]
pub(crate) struct Preparer {
    /// Where embeddings are kept.
    pub store: Store,
    /// The collection in the store, without a filter.
    pub(crate) documents: StoreView,
    /// Who embeds.
    pub scheduler: Scheduler,
    /// With what; `None` for a text-only collection.
    pub model: Option<Arc<LoadedModel>>,
    /// The fingerprint that the generation pins.
    pub fingerprint: String,
    /// The generation.
    pub generation: GenerationId,
    /// Tokens of a chunk and of the overlap.
    pub chunking: Chunking,
}

/// A document, its chunks, and the text that is embedded for each of them.
struct Cut {
    document: StoredDocument,
    spans: Vec<ChunkSpan>,
    texts: Vec<String>,
}

impl Preparer {
    /// Cuts and embeds `documents`; embeddings that the store has are taken from there, new ones are put there before
    /// this returns.
    ///
    /// # Errors
    /// [`IngestError`]; the batch can be tried again.
    pub(crate) async fn prepare(
        &self,
        documents: Vec<StoredDocument>,
    ) -> Result<Vec<IndexedDocument>, IngestError> {
        let preparer = self.clone();
        let cut = move || documents.into_iter().map(|document| preparer.cut(document)).collect::<Vec<_>>();
        let cuts = tokio::task::spawn_blocking(cut).await.map_err(|_| IngestError::Interrupted)?;
        let (known, new) = self.embeddings(&cuts).await?;
        // while an index is rebuilt the store has these chunks already
        let prepared =
            cuts.iter().filter(|cut| cut.spans != cut.document.chunks).map(Cut::prepared).collect();
        self.store.save_prepared(self.generation, prepared, new).await?;
        Ok(cuts.into_iter().map(|cut| cut.into_indexed(&known)).collect())
    }

    /// Whether it is the text that the model refused with `error`: it embeds another one.
    pub(crate) async fn is_text_refused(&self, error: &InferenceError) -> bool {
        let may_be = match error {
            InferenceError::Upstream(error) => error.may_be_the_text(),
            InferenceError::Failed => true,
            InferenceError::TooMany { .. } | InferenceError::TooLong { .. } | InferenceError::Stopping => {
                false
            }
        };
        let Some(model) = self.model.as_ref().filter(|_| may_be) else { return false };
        let terms = EmbedOptions { lane: Lane::Bulk, caching: Caching::Off, until: None };
        self.scheduler.embed(model, vec![model.input(HARMLESS, Truncation::End)], terms).await.is_ok()
    }

    /// The embedding of every chunk, and those among them that the store doesn't have yet.
    async fn embeddings(&self, cuts: &[Cut]) -> Result<(Embeddings, Vec<(TextHash, Vec<f32>)>), IngestError> {
        let Some(model) = &self.model else { return Ok((HashMap::new(), Vec::new())) };
        let mut texts: HashMap<TextHash, &String> = HashMap::new();
        for cut in cuts {
            texts.extend(cut.spans.iter().map(|span| span.text_hash).zip(&cut.texts));
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
        let terms = EmbedOptions { lane: Lane::Bulk, caching: Caching::On, until: None };
        let made = self.scheduler.embed(model, inputs, terms).await?;
        let new: Vec<_> = missing.into_iter().zip(made.embeddings).collect();
        known.extend(new.iter().cloned());
        Ok((known, new))
    }

    fn cut(&self, document: StoredDocument) -> Cut {
        let title = document.title.as_deref().unwrap_or_default();
        let prompt = self.model.as_ref().map_or("", |model| model.document_prompt.as_str());
        // a title is found by its words and gives the chunk its context
        let before = if title.is_empty() { prompt.to_owned() } else { format!("{prompt}{title} ") };
        let mut spans = self.spans(&document.text, &before);
        if spans.is_empty() && !title.is_empty() {
            spans.push(0..0); // found by its title alone
        }
        let texts: Vec<String> =
            spans.iter().map(|span| format!("{before}{}", &document.text[span.clone()])).collect();
        let spans = spans.iter().zip(&texts).map(|(span, text)| ChunkSpan {
            start: span.start as u64,
            end: span.end as u64,
            text_hash: weir_text::text_hash(text),
        });
        Cut { spans: spans.collect(), texts, document }
    }

    fn spans(&self, text: &str, before: &str) -> Vec<std::ops::Range<usize>> {
        let mut chunking = Chunking { max_bytes: CHUNK_BYTES_MAX, ..self.chunking.clone() };
        let Some(model) = &self.model else {
            // without a model, words are as good a measure as any
            let pseudo = weir_inference::Pseudo { dimension: 0 };
            return weir_text::chunk(text, &chunking, &mut |piece| pseudo.token_spans(piece));
        };
        let room = model.max_tokens().saturating_sub(model.token_spans(before).len());
        chunking.max_tokens = chunking.max_tokens.min(room.max(CHUNK_TOKENS_MIN));
        weir_text::chunk(text, &chunking, &mut |piece| model.token_spans(piece))
    }
}

type Embeddings = HashMap<TextHash, Vec<f32>>;

impl Cut {
    fn prepared(&self) -> PreparedDocument {
        PreparedDocument {
            document_id: self.document.id.clone(),
            version: self.document.version,
            chunks: self.spans.clone(),
        }
    }

    fn into_indexed(self, embeddings: &Embeddings) -> IndexedDocument {
        let text = &self.document.text;
        let chunk = |span: &ChunkSpan| {
            let (start, end) = (span.start as usize, span.end as usize);
            let embedding = embeddings.get(&span.text_hash).cloned();
            IndexedChunk { start, end, text: text[start..end].to_owned(), embedding }
        };
        IndexedDocument {
            chunks: self.spans.iter().map(chunk).collect(),
            id: self.document.id,
            version: self.document.version,
            title: self.document.title,
            metadata: self.document.metadata,
        }
    }
}
