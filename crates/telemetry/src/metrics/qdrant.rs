//! Calls of a Qdrant cluster, its nodes, and what differed there from the store.

use std::time::Duration;

use super::labels::{CallLabel, CallLabels, LabelValue, ReasonLabel, ResultLabel};
use super::{Metrics, to_i64};

impl Metrics {
    /// Counts a call with all its attempts: `done`, `refused` or `unavailable`. `call` is one of few names.
    pub fn qdrant_call(&self, call: &'static str, result: &'static str, took: Duration, retries: usize) {
        let (call, result) = (LabelValue::Static(call), LabelValue::Static(result));
        self.qdrant_seconds.get_or_create(&CallLabel { call: call.clone() }).observe(took.as_secs_f64());
        self.qdrant_retries.get_or_create(&CallLabel { call: call.clone() }).inc_by(retries as u64);
        self.qdrant_calls.get_or_create(&CallLabels { call, result }).inc();
    }

    /// Shows how many nodes are configured, and of how many the last call was answered.
    pub fn qdrant_nodes(&self, configured: usize, answering: usize) {
        self.qdrant_nodes.set(to_i64(configured as u64));
        self.qdrant_nodes_up.set(to_i64(answering as u64));
    }

    /// Counts a comparison of an index with the store that has ended: `completed` or `failed`.
    pub fn reconciliation(&self, result: &'static str) {
        self.reconciliations.get_or_create(&ResultLabel { result: LabelValue::Static(result) }).inc();
    }

    /// Counts documents that differed: `deleted`, `lost` or `earlier`.
    pub fn reconciled(&self, reason: &'static str, documents: u64) {
        self.reconciled.get_or_create(&ReasonLabel { reason: LabelValue::Static(reason) }).inc_by(documents);
    }
}
