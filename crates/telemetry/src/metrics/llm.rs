//! Metrics of the LLM gateway: requests of models, guardrails, kept replies.

use super::{
    FindingLabels, LabelValue, Metrics, ModelLabel, ModelTokenLabels, ModelUpstreamLabel,
    ModelUpstreamLabels, ResultLabel,
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

    /// Shows the series of a model and an upstream before the first request.
    pub fn model_series(&self, model: &str, upstream: &str) {
        let (model, upstream) = (LabelValue::from(model), LabelValue::from(upstream));
        for result in ["ok", "failed"] {
            let labels = ModelUpstreamLabels {
                model: model.clone(),
                upstream: upstream.clone(),
                result: result.into(),
            };
            drop(self.model_requests.get_or_create(&labels));
        }
        for kind in ["prompt", "cached", "completion"] {
            let labels =
                ModelTokenLabels { model: model.clone(), upstream: upstream.clone(), r#type: kind.into() };
            drop(self.model_tokens.get_or_create(&labels));
        }
        drop(self.model_cost.get_or_create(&ModelUpstreamLabel { model: model.clone(), upstream }));
        drop(self.first_token.get_or_create(&ModelLabel { model }));
    }

    /// Counts a finished request that an upstream took part in. Other models are any text of a client.
    pub fn finished(&self, record: &RequestRecord) {
        if record.saved_nanos > 0 {
            self.reply_cache_savings.inc_by(record.saved_nanos as f64 / 1e9);
        }
        let (Some(model), Some(upstream)) = (&record.model, &record.upstream) else { return };
        let (model, upstream) = (LabelValue(model.clone()), LabelValue(upstream.clone()));
        let result = if record.status >= 400 || record.error.is_some() { "failed" } else { "ok" };
        let labels =
            ModelUpstreamLabels { model: model.clone(), upstream: upstream.clone(), result: result.into() };
        self.model_requests.get_or_create(&labels).inc();
        let tokens = [
            ("prompt", record.prompt_tokens),
            ("cached", record.cached_tokens),
            ("completion", record.completion_tokens),
        ];
        for (kind, count) in tokens {
            let labels =
                ModelTokenLabels { model: model.clone(), upstream: upstream.clone(), r#type: kind.into() };
            self.model_tokens.get_or_create(&labels).inc_by(count);
        }
        let labels = ModelUpstreamLabel { model: model.clone(), upstream };
        self.model_cost.get_or_create(&labels).inc_by(record.cost_nanos as f64 / 1e9);
        if let Some(first) = record.first_token {
            self.first_token.get_or_create(&ModelLabel { model }).observe(first.as_secs_f64());
        }
    }
}
