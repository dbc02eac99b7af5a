//! The labels of metrics.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// The pattern of the route, not the path, so that the number of label sets is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) route: LabelValue,
    pub(super) method: LabelValue,
    pub(super) status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabel {
    pub(super) route: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StageLabel {
    pub(super) stage: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabel {
    pub(super) result: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ExtractionLabels {
    pub(super) format: LabelValue,
    pub(super) result: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabel {
    pub(super) reason: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ModelLabel {
    pub(super) model: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ModelUpstreamLabel {
    pub(super) model: LabelValue,
    pub(super) upstream: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ModelUpstreamLabels {
    pub(super) model: LabelValue,
    pub(super) upstream: LabelValue,
    pub(super) result: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ModelTokenLabels {
    pub(super) model: LabelValue,
    pub(super) upstream: LabelValue,
    pub(super) r#type: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KeyLabel {
    pub(super) key: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KeyResultLabels {
    pub(super) key: LabelValue,
    pub(super) result: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KeyTokenLabels {
    pub(super) key: LabelValue,
    pub(super) r#type: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TableLabel {
    pub(super) table: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct FindingLabels {
    pub(super) direction: LabelValue,
    pub(super) rule: LabelValue,
    pub(super) action: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RecallLabels {
    pub(super) selectivity: LabelValue,
    pub(super) result: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LaneLabel {
    pub(super) lane: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct UpstreamLabels {
    pub(super) upstream: LabelValue,
    pub(super) code: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CallLabel {
    pub(super) call: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CallLabels {
    pub(super) call: LabelValue,
    pub(super) result: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CollectionLabel {
    pub(super) collection: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BuildLabels {
    pub(super) version: LabelValue,
    pub(super) isa: LabelValue,
}

/// The value of a label, cheap to clone. Values of the same text are equal.
#[derive(Debug, Clone)]
pub(super) enum LabelValue {
    /// A text of the code, which needs no memory when a series is looked up.
    Static(&'static str),
    /// Any other text.
    Shared(Arc<str>),
}

impl LabelValue {
    fn as_str(&self) -> &str {
        match self {
            LabelValue::Static(text) => text,
            LabelValue::Shared(text) => text,
        }
    }
}

impl PartialEq for LabelValue {
    fn eq(&self, other: &LabelValue) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for LabelValue {}

impl Hash for LabelValue {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.as_str().hash(hasher);
    }
}

impl From<&str> for LabelValue {
    fn from(text: &str) -> LabelValue {
        LabelValue::Shared(text.into())
    }
}

impl EncodeLabelValue for LabelValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        encoder.write_str(self.as_str())
    }
}
