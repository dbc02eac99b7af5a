//! The metrics as text, for one caller.

use std::fmt::Write as _;
use std::sync::PoisonError;

use prometheus_client::encoding::text::encode;

use super::{CollectionLabel, Metrics, to_i64};

/// Gauges of a collection, read at each scrape.
#[derive(Debug, Clone, Default)]
pub struct CollectionGauges {
    /// The name.
    pub name: String,
    /// Searchable documents; `None` while the engine does not answer.
    pub documents: Option<u64>,
    /// Their chunks.
    pub chunks: Option<u64>,
    /// Acknowledged operations that are not searchable yet.
    pub pending: u64,
    /// Bytes on disk.
    pub index_bytes: u64,
    /// Segments of the lexical index.
    pub index_segments: usize,
    /// Judgments that count for relevance.
    pub feedback_votes: u64,
    /// The largest change of a relevance by judgments.
    pub relevance_shift: f64,
}

impl Metrics {
    /// The metrics in the OpenMetrics text format, with current gauges: of these collections, and of the models that `shows_model` names.
    /// `shows_keys`: whether series of API keys are shown.
    pub fn render(
        &self,
        queued_tokens: usize,
        cache_bytes: usize,
        collections: &[CollectionGauges],
        shows_model: impl Fn(&str) -> bool,
        shows_keys: bool,
    ) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.queue_tokens.set(to_i64(queued_tokens as u64));
        self.cache_bytes.set(to_i64(cache_bytes as u64));
        self.collections.set(to_i64(collections.len() as u64));
        let families = [&self.documents, &self.chunks, &self.pending, &self.index_bytes];
        for family in families.into_iter().chain([&self.index_segments, &self.feedback_votes]) {
            family.clear(); // removes deleted collections
        }
        self.relevance_shift.clear();
        for collection in collections {
            let labels = CollectionLabel { collection: collection.name.as_str().into() };
            for (family, count) in
                [(&self.documents, collection.documents), (&self.chunks, collection.chunks)]
            {
                if let Some(count) = count {
                    family.get_or_create(&labels).set(to_i64(count));
                }
            }
            self.pending.get_or_create(&labels).set(to_i64(collection.pending));
            self.index_bytes.get_or_create(&labels).set(to_i64(collection.index_bytes));
            self.index_segments.get_or_create(&labels).set(to_i64(collection.index_segments as u64));
            self.feedback_votes.get_or_create(&labels).set(to_i64(collection.feedback_votes));
            self.relevance_shift.get_or_create(&labels).set(collection.relevance_shift);
        }
        let mut text = String::new();
        if encode(&mut text, &registry).is_err() {
            let _ = writeln!(text, "# the metrics could not be written");
        }
        drop(registry);
        let is_of_key = |line: &str| line.starts_with("weir_key_");
        let is_shown =
            |line: &&str| model_of(line).is_none_or(&shows_model) && (shows_keys || !is_of_key(line));
        text.split_inclusive('\n').filter(is_shown).collect()
    }
}

impl Metrics {
    /// The metrics of documents and chunks of these collections: the others are of the whole gateway.
    pub fn render_documents(&self, collections: &[CollectionGauges]) -> String {
        let text = self.render(0, 0, collections, |_| false, false);
        text.split_inclusive('\n').filter(|line| is_of_documents(line)).collect()
    }
}

/// Whether a line is of the metrics that count documents and chunks, or ends the text.
fn is_of_documents(line: &str) -> bool {
    let series = ["# HELP ", "# TYPE "].iter().find_map(|start| line.strip_prefix(start)).unwrap_or(line);
    let end = series.find([' ', '{']).unwrap_or(series.len());
    line.starts_with("# EOF") || ["weir_documents", "weir_chunks"].contains(&&series[..end])
}

/// The value of the label `model` of a series, as it is written.
fn model_of(line: &str) -> Option<&str> {
    let labels = line.split_once('{')?.1;
    let value = labels.split_once("model=\"")?.1;
    let is_end = |(at, _): &(usize, &str)| !value[..*at].ends_with('\\');
    let (end, _) = value.match_indices('"').find(is_end)?;
    Some(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_documents_have_no_others() {
        let metrics = Metrics::new("test");
        metrics.embedded("open", 7, 0);
        let gauges = CollectionGauges {
            name: "c".to_owned(),
            documents: Some(2),
            chunks: Some(3),
            pending: 4,
            ..Default::default()
        };
        let text = metrics.render_documents(&[gauges]);
        let series: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP ")).collect();
        let expected = [
            "# TYPE weir_documents gauge",
            "weir_documents{collection=\"c\"} 2",
            "# TYPE weir_chunks gauge",
            "weir_chunks{collection=\"c\"} 3",
            "# EOF",
        ];
        assert_eq!(series, expected, "{text}");
    }

    #[test]
    fn series_of_models_that_are_not_shown_are_left_out() {
        let metrics = Metrics::new("test");
        for model in ["open", "a \"quoted\\ one", "secret"] {
            metrics.embedded(model, 7, 0);
        }
        let text = metrics.render(0, 0, &[], |model| model != "secret", true);
        assert!(text.contains("weir_embed_tokens_total{model=\"open\"} 7\n"), "{text}");
        assert!(text.contains("quoted") && !text.contains("secret") && text.ends_with("# EOF\n"), "{text}");
        assert_eq!(model_of("x{le=\"1\",model=\"a\\\"b\",upstream=\"u\"} 1"), Some("a\\\"b"));
        assert_eq!(model_of("x{upstream=\"u\"} 1"), None);
    }
}
