//! Metrics of the LLM gateway: requests of models, guardrails, kept replies.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::{
    FindingLabels, KeyLabel, KeyResultLabels, KeyTokenLabels, LabelValue, Metrics, ModelLabel,
    ModelTokenLabels, ModelUpstreamLabel, ModelUpstreamLabels, ResultLabel,
};
use crate::requests::RequestRecord;

impl Metrics {
    /// Shows the series of a rule before its first finding.
    pub fn guardrail_rule(&self, direction: &str, rule: &str, action: &str) {
        self.guardrail_found(direction, rule, action, 0);
    }

    /// Counts what a guardrail's rule found.
    pub fn guardrail_found(&self, direction: &str, rule: &str, action: &str, count: u64) {
        let labels = FindingLabels { direction: direction.into(), rule: rule.into(), action: action.into() };
        self.findings.get_or_create(&labels).inc_by(count);
    }

    /// Counts a lookup of a kept reply.
    pub fn reply_cache(&self, result: &str) {
        self.reply_cache.get_or_create(&ResultLabel { result: result.into() }).inc();
    }

    /// Sets the bytes of the kept replies.
    pub fn reply_cache_bytes(&self, bytes: usize) {
        self.reply_cache_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts a lookup of a reply in Redis.
    pub fn shared_reply_lookup(&self, result: &'static str) {
        self.shared_reply_lookups.get_or_create(&ResultLabel { result: result.into() }).inc();
    }

    /// Counts replies for Redis.
    pub fn shared_reply_write(&self, result: &'static str, replies: usize) {
        self.shared_reply_writes.get_or_create(&ResultLabel { result: result.into() }).inc_by(replies as u64);
    }

    /// Counts bytes of a reply that were read from Redis.
    pub fn shared_reply_read(&self, bytes: usize) {
        self.shared_reply_read.inc_by(bytes as u64);
    }

    /// Counts bytes of replies that were written to Redis.
    pub fn shared_reply_written(&self, bytes: usize) {
        self.shared_reply_written.inc_by(bytes as u64);
    }

    /// The series of a model and an upstream, which exist from then on. Models without a route of their own are any text of a client.
    pub fn model_series(&self, model: &str, upstream: &str) -> ModelSeries {
        let (model, upstream) = (LabelValue::from(model), LabelValue::from(upstream));
        let requests = |result| {
            self.model_requests.get_or_create_owned(&ModelUpstreamLabels {
                model: model.clone(),
                upstream: upstream.clone(),
                result: LabelValue::Static(result),
            })
        };
        let tokens = |kind| {
            self.model_tokens.get_or_create_owned(&ModelTokenLabels {
                model: model.clone(),
                upstream: upstream.clone(),
                r#type: LabelValue::Static(kind),
            })
        };
        let labels = ModelUpstreamLabel { model: model.clone(), upstream: upstream.clone() };
        ModelSeries {
            ok: requests("ok"),
            failed: requests("failed"),
            prompt: tokens("prompt"),
            cached: tokens("cached"),
            completion: tokens("completion"),
            cost: self.model_cost.get_or_create_owned(&labels),
            unpriced: self.model_unpriced.get_or_create_owned(&labels),
            first_token: self.first_token.get_or_create_owned(&ModelLabel { model: model.clone() }),
        }
    }

    /// The series of API keys of this name, which exist from then on.
    pub fn key_series(&self, key: &str) -> KeySeries {
        let key = LabelValue::from(key);
        let requests = |result| {
            let labels = KeyResultLabels { key: key.clone(), result: LabelValue::Static(result) };
            self.key_requests.get_or_create_owned(&labels)
        };
        let tokens = |kind| {
            let labels = KeyTokenLabels { key: key.clone(), r#type: LabelValue::Static(kind) };
            self.key_tokens.get_or_create_owned(&labels)
        };
        KeySeries {
            ok: requests("ok"),
            failed: requests("failed"),
            prompt: tokens("prompt"),
            cached: tokens("cached"),
            completion: tokens("completion"),
            cost: self.key_cost.get_or_create_owned(&KeyLabel { key: key.clone() }),
        }
    }

    /// Counts the cost that a kept reply saved.
    pub fn reply_cache_saved(&self, nanos: u64) {
        self.reply_cache_savings.inc_by(nanos as f64 / 1e9);
    }
}

/// The series of a model and an upstream, looked up once for many requests.
pub struct ModelSeries {
    ok: Counter,
    failed: Counter,
    prompt: Counter,
    cached: Counter,
    completion: Counter,
    cost: Counter<f64, AtomicU64>,
    unpriced: Counter,
    first_token: Histogram,
}

/// The series of the API keys of a name, looked up once for many requests.
pub struct KeySeries {
    ok: Counter,
    failed: Counter,
    prompt: Counter,
    cached: Counter,
    completion: Counter,
    cost: Counter<f64, AtomicU64>,
}

impl KeySeries {
    /// Counts a finished request.
    pub fn count(&self, record: &RequestRecord) {
        if record.is_failed() { &self.failed } else { &self.ok }.inc();
        self.prompt.inc_by(record.prompt_tokens);
        self.cached.inc_by(record.cached_tokens);
        self.completion.inc_by(record.completion_tokens);
        self.cost.inc_by(record.cost_nanos as f64 / 1e9);
    }
}

impl ModelSeries {
    /// Counts a finished request of the model that the upstream took part in.
    pub fn count(&self, record: &RequestRecord) {
        if record.is_failed() { &self.failed } else { &self.ok }.inc();
        self.prompt.inc_by(record.prompt_tokens);
        self.cached.inc_by(record.cached_tokens);
        self.completion.inc_by(record.completion_tokens);
        self.cost.inc_by(record.cost_nanos as f64 / 1e9);
        self.unpriced.inc_by(u64::from(record.is_unpriced));
        if let Some(first) = record.first_token {
            self.first_token.observe(first.as_secs_f64());
        }
    }
}
