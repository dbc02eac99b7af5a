//! Models on other servers, over the client of [`weir_upstream`]: texts become requests, replies become embeddings or scores.
//!
//! A caller who stops waiting cancels its requests, whether they wait for a permit or are in flight.

mod dimension;
mod remote;
mod wire;

use std::time::Instant;

use super::scheduler::{Embedded, Lane};
use super::{InferenceError, Truncation};
use dimension::Dimension;

pub(super) use remote::{RemoteModel, RemoteRequest, RemoteText};

/// A model on another server that embeds.
pub struct Upstream {
    model: RemoteModel,
    dimension: Dimension,
}

impl Upstream {
    /// Nothing is sent yet. `folder` keeps the dimension, once it is known.
    pub(super) fn new(model: RemoteModel, folder: &std::path::Path) -> Upstream {
        let dimension = Dimension::new(model.settings().dimension, folder, model.fingerprint());
        Upstream { model, dimension }
    }

    /// Floats of an embedding, as soon as that is known.
    pub fn dimension(&self) -> Option<usize> {
        self.dimension.get()
    }

    /// Lengths that an embedding may be cut to.
    pub fn dimensions(&self) -> &[usize] {
        &self.model.settings().dimensions
    }

    /// Whether every embedding has length one.
    pub fn is_normalised(&self) -> bool {
        self.model.settings().normalize
    }

    /// Hash of the kind, the address, the model's name, and the embeddings' length as soon as that is known. It tells one configured
    /// upstream from another, and can't tell that somebody put another model behind the same name.
    pub fn fingerprint(&self) -> String {
        let dimension = self.dimension().map_or_else(String::new, |dimension| dimension.to_string());
        fingerprint(&[self.model.fingerprint(), &dimension])
    }

    /// Finds out the embeddings' length where it is not known yet, by one request.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub async fn learn_dimension(&self) -> Result<(), InferenceError> {
        if self.dimension().is_some() {
            return Ok(());
        }
        let text = RemoteText { text: "dimension".to_owned(), tokens: 1, truncation: Truncation::End };
        self.embed(vec![text], Lane::Interactive, None).await.map(drop)
    }

    /// The embeddings of `texts`, in order. What can't be had before `until` is not waited for.
    ///
    /// # Errors
    /// [`InferenceError`]; the first failure counts, and what was not sent by then is not sent.
    pub(super) async fn embed(
        &self,
        texts: Vec<RemoteText>,
        lane: Lane,
        until: Option<Instant>,
    ) -> Result<Embedded, InferenceError> {
        let (embeddings, waited) = self.model.rows(RemoteRequest { query: None, texts }, lane, until).await?;
        self.check(&embeddings)?;
        Ok(Embedded { embeddings, waited })
    }

    /// Refuses embeddings of another length than those before.
    fn check(&self, embeddings: &[Vec<f32>]) -> Result<(), InferenceError> {
        for embedding in embeddings {
            let dimension = self.dimension.get_or_keep(embedding.len());
            if embedding.len() != dimension {
                let reason = format!(
                    "an embedding of {} floats, and those of this model have {dimension}; is another model running there? \
                     `dimension` and `model` say what is expected",
                    embedding.len()
                );
                return Err(self.model.invalid_reply(&reason));
            }
        }
        Ok(())
    }
}

/// Hash of parts that decide an embedding, as 32 hex digits.
fn fingerprint(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}
