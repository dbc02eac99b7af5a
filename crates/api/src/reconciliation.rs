//! `POST` and `GET /v1/collections/{name}/reconcile`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The last comparison of an index in a Qdrant cluster with the store: how far it is, what was found, and what was mended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Reconciliation")]
pub struct ReconciliationReply {
    /// The collection.
    pub collection: String,
    /// The status.
    pub status: ReconciliationStatus,
    /// When it began, in unix seconds.
    pub started_at: Option<f64>,
    /// When it ended, in unix seconds.
    pub finished_at: Option<f64>,
    /// Documents of the store that were compared with the index.
    pub documents: u64,
    /// Points of the index that were compared with the store.
    pub points: u64,
    /// Documents that the store does not have, and of which the index had points.
    pub deleted: u64,
    /// Documents of which the index lacked points.
    pub lost: u64,
    /// Documents of which the index had points of earlier versions.
    pub earlier: u64,
    /// Documents that were removed from the index, or put into it again. Those that were changed meanwhile are left to their jobs.
    pub mended: u64,
    /// Why it failed. It is tried again later.
    pub error: Option<String>,
}

/// The status of a comparison.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ReconciliationStatus {
    /// There was none yet.
    #[default]
    Never,
    /// It was asked for, and begins when the gateway that changes the index comes to it.
    Waiting,
    /// It is on its way.
    Running,
    /// Everything was compared.
    Completed,
    /// It ended by an error; what was mended until then is mended.
    Failed,
}

impl ReconciliationStatus {
    /// Whether it is asked for and has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, ReconciliationStatus::Waiting | ReconciliationStatus::Running)
    }
}
