//! The metrics of requests by model and by API key. Clients choose names of models, so that the number and the length of labels have limits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::RequestRecord;
use super::row::TEXT_BYTES_MAX;
use crate::metrics::{KeySeries, Metrics, ModelSeries};

/// Most models with series of their own, and most pairs of one of them and an upstream. The others share those of [`OTHER`].
const MODELS_MAX: usize = 500;
const PAIRS_MAX: usize = 2_000;
/// Most API keys with series of their own, by name.
const KEYS_MAX: usize = 500;
/// Most entries of [`Labels::series`].
const SERIES_MAX: usize = 4_096;
/// The label of all others.
const OTHER: &str = "other";

/// Time between two warnings of a model without a price.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The series of a model and an upstream.
struct Counted {
    series: ModelSeries,
    /// When a missing price was last reported.
    warned: Option<Instant>,
}

/// The series that were counted before.
#[derive(Default)]
pub(super) struct Labels {
    /// Models that have series of their own.
    models: HashSet<Arc<str>>,
    /// Of these models and upstreams, the pairs that have series of their own.
    pairs: HashSet<(Arc<str>, Arc<str>)>,
    /// By model and upstream. A record's names have at most [`TEXT_BYTES_MAX`] bytes.
    series: HashMap<(Arc<str>, Arc<str>), Counted>,
    keys: HashMap<Arc<str>, KeySeries>,
}

impl Labels {
    /// Counts a finished request.
    pub(super) fn count(&mut self, record: &RequestRecord, metrics: &Metrics) {
        if record.saved_nanos > 0 {
            metrics.reply_cache_saved(record.saved_nanos);
        }
        if let Some(name) = &record.key_name {
            let is_named = self.keys.contains_key(name) || self.keys.len() < KEYS_MAX;
            let label = if is_named { name.clone() } else { Arc::from(OTHER) };
            let series = || metrics.key_series(&label);
            self.keys.entry(label.clone()).or_insert_with(series).count(record);
        }
        let (Some(model), Some(upstream)) = (&record.model, &record.upstream) else { return };
        if self.series.len() >= SERIES_MAX {
            self.series.clear();
        }
        let is_named = self.models.contains(model)
            || self.models.len() < MODELS_MAX && self.models.insert(model.clone());
        let pair = (model.clone(), upstream.clone());
        let is_named = is_named
            && (self.pairs.contains(&pair)
                || self.pairs.len() < PAIRS_MAX && self.pairs.insert(pair.clone()));
        let label = if is_named { model } else { OTHER };
        let counted = self
            .series
            .entry(pair)
            .or_insert_with(|| Counted { series: metrics.model_series(label, upstream), warned: None });
        counted.series.count(record);
        if record.is_unpriced && counted.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            counted.warned = Some(Instant::now());
            tracing::warn!(
                model = &**model,
                upstream = &**upstream,
                "requests have no price, and count nothing against budgets: add `[[prices]]` for the upstream's model (docs/costs.md)"
            );
        }
    }
}

/// A name that a client may have chosen, no longer than a row takes.
pub(super) fn bounded(name: &mut Option<Arc<str>>) {
    if let Some(long) = name.as_deref().filter(|name| name.len() > TEXT_BYTES_MAX) {
        *name = Some(super::row::bounded(long).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_bounded_in_number_and_in_length() {
        let (metrics, mut labels) = (Metrics::new("test"), Labels::default());
        for number in 0..KEYS_MAX.max(MODELS_MAX) + 2 {
            let record = RequestRecord {
                key_name: Some(format!("key {number}").into()),
                model: Some(format!("model-{number}").into()),
                upstream: Some("up".into()),
                status: if number == 0 { 500 } else { 200 },
                prompt_tokens: 3,
                ..RequestRecord::default()
            };
            labels.count(&record, &metrics);
        }
        let text = metrics.render(0, 0, &[], |_| true, true);
        for line in [
            "weir_key_requests_total{key=\"key 0\",result=\"failed\"} 1\n",
            "weir_key_requests_total{key=\"key 499\",result=\"ok\"} 1\n",
            "weir_key_requests_total{key=\"other\",result=\"ok\"} 2\n",
            "weir_key_tokens_total{key=\"other\",type=\"prompt\"} 6\n",
            "weir_model_requests_total{model=\"other\",upstream=\"up\",result=\"ok\"} 2\n",
        ] {
            assert!(text.contains(line), "{line}");
        }
        assert!(!text.contains("key 500") && !text.contains("model-500"));
        assert!(
            !metrics.render(0, 0, &[], |_| true, false).contains("key=\""),
            "for callers with restrictions"
        );
        let mut long = Some(Arc::from("é".repeat(400)));
        bounded(&mut long);
        assert_eq!(long.map(|name| name.len()), Some(TEXT_BYTES_MAX));
    }
}
