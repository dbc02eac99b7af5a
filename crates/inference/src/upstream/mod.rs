//! Models that another server runs: texts become requests of the size that it takes, several at once, sent again where that helps.
//!
//! Every request waits for one of `concurrent_requests_max` places; bulk work leaves one of them to callers who wait. A request runs on
//! one of the runtime's threads for work that blocks, never on one that embeds. Whoever no longer waits is not sent; what is
//! already on its way keeps its place until it ends, so that the upstream never gets more at once than it should.
//!
//! When to give up, to wait and to try again is decided in [`weir_policy::upstream`].

mod call;
mod dimension;
mod error;
mod line;
mod wire;

use std::time::Instant;

use super::scheduler::{Embedded, Lane};
use super::{InferenceError, Truncation};
use dimension::Dimension;
pub use error::UpstreamError;

pub(super) use line::{Ask, Line, UpstreamText};

/// A model that another server runs, and that embeds.
pub struct Upstream {
    line: Line,
    dimension: Dimension,
}

impl Upstream {
    /// The model at the end of `line`; nothing is sent yet. What its embeddings' length is found to be is kept in `folder`.
    pub(super) fn new(line: Line, folder: &std::path::Path) -> Upstream {
        let dimension = Dimension::new(line.settings().dimension, folder, line.fingerprint());
        Upstream { line, dimension }
    }

    /// Floats of an embedding, as soon as that is known.
    pub fn dimension(&self) -> Option<usize> {
        self.dimension.get()
    }

    /// Lengths that an embedding may be cut to.
    pub fn dimensions(&self) -> &[usize] {
        &self.line.settings().dimensions
    }

    /// Whether every embedding has length one.
    pub fn is_normalised(&self) -> bool {
        self.line.settings().normalize
    }

    /// Hash of the kind, the address, the model's name, and the embeddings' length as soon as that is known. It tells one configured
    /// upstream from another, and can't tell that somebody put another model behind the same name.
    pub fn fingerprint(&self) -> String {
        let dimension = self.dimension().map_or_else(String::new, |dimension| dimension.to_string());
        fingerprint(&[self.line.fingerprint(), &dimension])
    }

    /// Finds out the embeddings' length where it is not known yet, by one request.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub async fn learn_dimension(&self) -> Result<(), InferenceError> {
        if self.dimension().is_some() {
            return Ok(());
        }
        let text = UpstreamText { text: "dimension".to_owned(), tokens: 1, truncation: Truncation::End };
        self.embed(vec![text], Lane::Interactive, None).await.map(drop)
    }

    /// The embeddings of `texts`, in order. What can't be had before `until` is not waited for.
    ///
    /// # Errors
    /// [`InferenceError`]; the first failure counts, and what was not sent by then is not sent.
    pub(super) async fn embed(
        &self,
        texts: Vec<UpstreamText>,
        lane: Lane,
        until: Option<Instant>,
    ) -> Result<Embedded, InferenceError> {
        let (embeddings, waited) = self.line.rows(Ask { query: None, texts }, lane, until).await?;
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
                return Err(self.line.caller.reply(reason).into());
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
