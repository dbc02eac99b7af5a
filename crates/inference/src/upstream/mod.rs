//! Models on other servers, over the client of [`weir_upstream`]: texts become requests, replies become embeddings or scores.
//!
//! Dropping a future cancels its requests, whether they wait for a permit or are in flight.

mod description;
mod dimension;
mod remote;
mod wire;

use std::time::Instant;

use super::request::{Embedded, InferenceError, Lane, Truncation};
use super::rows::Rows;
use description::Described;
use dimension::Dimension;

pub(super) use remote::{RemoteModel, RemoteRequest, RemoteText};

/// A model on another server that embeds.
pub struct Upstream {
    model: RemoteModel,
    dimension: Dimension,
}

impl Upstream {
    /// Sends nothing. The dimension is saved in `folder` once it is known.
    pub(super) fn new(model: RemoteModel, folder: &std::path::Path) -> Upstream {
        let dimension = Dimension::new(model.settings().dimension, folder, model.fingerprint());
        Upstream { model, dimension }
    }

    /// Floats of an embedding, once known.
    pub fn dimension(&self) -> Option<usize> {
        match self.model.description() {
            Some(description) => description.get().map(|described| described.reply.dimension),
            None => self.dimension.get(),
        }
    }

    /// The description that another gateway has sent of the model.
    pub(super) fn described(&self) -> Option<&Described> {
        self.model.description()?.get()
    }

    /// Dimensions that an embedding may be truncated to.
    pub fn dimensions(&self) -> &[usize] {
        match self.described() {
            Some(described) => &described.reply.dimensions,
            None => &self.model.settings().dimensions,
        }
    }

    /// Whether every embedding has length one.
    pub fn is_normalised(&self) -> bool {
        self.described().map_or(self.model.settings().normalize, |described| described.reply.normalized)
    }

    /// Hash of protocol, address, model name and, once known, dimension, which can't detect another model of the same name; that of the model
    /// itself, once known, if it is another gateway's.
    pub fn fingerprint(&self) -> String {
        if let Some(described) = self.described() {
            return described.reply.fingerprint.clone();
        }
        let dimension = self.dimension().map_or_else(String::new, |dimension| dimension.to_string());
        fingerprint(&[self.model.fingerprint(), &dimension])
    }

    /// Fetches the dimension by one request, unless it is known.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub async fn fetch_dimension(&self) -> Result<(), InferenceError> {
        if self.dimension().is_some() {
            return Ok(());
        }
        if self.model.description().is_some() {
            return self.model.describe().await;
        }
        let text = RemoteText { text: "dimension".to_owned(), tokens: 1, truncation: Truncation::End };
        self.embed(vec![text], Lane::Interactive, None).await.map(drop)
    }

    /// The embeddings of `texts`, in order. Fails if replies would arrive after `deadline`.
    ///
    /// # Errors
    /// The first [`InferenceError`]; it cancels the other requests.
    pub(super) async fn embed(
        &self,
        texts: Vec<RemoteText>,
        lane: Lane,
        deadline: Option<Instant>,
    ) -> Result<Embedded, InferenceError> {
        if self.model.description().is_some_and(|description| description.get().is_none()) {
            self.model.describe().await?;
        }
        let (embeddings, waited) =
            self.model.rows(RemoteRequest { query: None, texts }, lane, deadline).await?;
        self.check(&embeddings)?;
        Ok(Embedded { embeddings, waited })
    }

    /// Rejects embeddings whose length is not the known dimension.
    fn check(&self, embeddings: &Rows) -> Result<(), InferenceError> {
        for embedding in embeddings.iter() {
            let dimension = self
                .described()
                .map_or_else(|| self.dimension.get_or_save(embedding.len()), |it| it.reply.dimension);
            if embedding.len() != dimension {
                let reason = format!(
                    "an embedding of {} floats instead of {dimension}: check that the upstream runs the configured `model` and \
                     that `dimension` is right",
                    embedding.len()
                );
                return Err(self.model.invalid_reply(&reason));
            }
        }
        Ok(())
    }
}

/// Hash of parts that determine an embedding, as 32 hex digits.
fn fingerprint(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}
