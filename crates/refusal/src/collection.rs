//! Why a collection can't be opened or changed.

use weir_index::IndexError;
use weir_inference::InferenceError;

/// Why a collection can't be opened or changed.
#[derive(Debug, thiserror::Error)]
pub enum CollectionError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] weir_store::Error),
    /// The index failed.
    #[error("collection `{collection}`: {source}")]
    Index {
        /// The collection.
        collection: String,
        /// The error of the index.
        source: IndexError,
    },
    /// An index could not be removed, or indexes could not be looked for.
    #[error("{0}")]
    Engines(#[source] IndexError),
    /// The stored settings are unknown to this version.
    #[error(
        "the settings of collection `{collection}` can't be read ({reason}); start the weir that wrote them"
    )]
    Settings {
        /// The collection.
        collection: String,
        /// The problem.
        reason: String,
    },
    /// A collection names a model that is not configured.
    #[error(
        "collection `{collection}` uses the model `{model}`, which is not configured; add it to `[[models]]`"
    )]
    NoModel {
        /// The collection.
        collection: String,
        /// The model's id.
        model: String,
    },
    /// The dimension of its model is unknown.
    #[error(
        "collection `{collection}` needs the dimension of its model; set `dimension`, or check that the upstream answers"
    )]
    Inference {
        /// The collection.
        collection: String,
        /// The upstream's failure.
        source: InferenceError,
    },
    /// An index belongs to a collection that the store has never had.
    #[error(
        "`{0}` is the index of a collection that the store has never had: the store was lost, restored or replaced; put the store that has \
         it back, or remove the folder to go on with this store"
    )]
    NotOfStore(String),
    /// The engine of a collection has not answered since the gateway started.
    #[error("the engine of collection `{collection}` does not answer")]
    Waiting {
        /// The collection.
        collection: String,
    },
    /// There are as many collections as the limit allows.
    #[error("there are {limit} collections; that is the limit `limits.collections_max`")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// Another gateway has embedded the collection by a model that this one does not have.
    #[error(
        "collection `{collection}` is embedded by the model `{embedded_by}`, which is not the one that this gateway is configured with; give all gateways of the store the same models"
    )]
    OtherModel {
        /// The collection.
        collection: String,
        /// The fingerprint of the model.
        embedded_by: String,
    },
    /// Another gateway has moved the collection to an engine that this one does not have.
    #[error(
        "collection `{collection}` was moved to a Qdrant cluster, and this gateway has none: set `qdrant.urls` as the other gateways of the store have it, and start it again"
    )]
    NoEngine {
        /// The collection.
        collection: String,
    },
    /// Collections are not opened or changed while the gateway stops.
    #[error("the gateway is stopping")]
    Stopping,
}

impl CollectionError {
    /// Whether an engine does not answer, and may do so later.
    pub fn is_engine_unavailable(&self) -> bool {
        matches!(
            self,
            CollectionError::Index { source: IndexError::Unavailable { .. }, .. }
                | CollectionError::Engines(IndexError::Unavailable { .. })
        )
    }
}
