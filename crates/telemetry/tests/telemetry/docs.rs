//! `docs/metrics.md` is generated from the table of metrics, and `/metrics` has the metrics of the table.

use std::collections::BTreeSet;
use std::path::Path;

use weir_api::Timings;
use weir_telemetry::metrics::{CollectionGauges, Kind, Metrics, TABLE};
use weir_telemetry::requests::RequestRecord;

fn page() -> String {
    let mut page = "# Metrics\n\n`GET /metrics` answers in OpenMetrics text. This page is generated from the table in the code.\n\n\
                    | metric | kind | labels | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for row in TABLE {
        let kind = match row.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<String> = row.labels.iter().map(|label| format!("`{label}`")).collect();
        page.push_str(&format!("| `{}` | {kind} | {} | {} |\n", row.name, labels.join(", "), row.help));
    }
    page
}

#[test]
fn the_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    #[allow(
        clippy::disallowed_methods,
        reason = "asks the test to rewrite the page; no setting of the product"
    )]
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    if update {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page(), "docs/metrics.md is stale; run the tests once with UPDATE_DOCS=1");
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana");
    for file in ["weir.json", "alerts.yml"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let is_part = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
        let names: BTreeSet<&str> = text
            .split(|byte| !is_part(byte))
            .filter(|word| word.starts_with("weir_"))
            .map(|name| name.strip_suffix("_bucket").unwrap_or(name))
            .collect();
        assert!(names.len() >= 5, "{file}: {names:?}");
        for name in names {
            assert!(TABLE.iter().any(|row| row.name == name), "{file} names {name}, which is no metric");
        }
    }
}

#[test]
fn metrics_has_exactly_the_metrics_of_the_table() {
    let metrics = Metrics::new("scalar");
    metrics.request("/v1/search", "POST", 200, 0.01);
    metrics.search(&Timings::default());
    metrics.search_degraded("embedding_deadline");
    metrics.search_corrected(2);
    metrics.recall(9, 10, 1.0);
    metrics.embedded("m", 7, 1);
    metrics.embed_cache(1, 2);
    metrics.texts_embedded("bulk", 2);
    metrics.documents_received(2, 1);
    metrics.documents_indexed(2);
    metrics.file_extracted("pdf", "extracted", std::time::Duration::from_millis(3));
    metrics.file_recognised("answered", std::time::Duration::from_millis(3));
    metrics.archive_unpacked(2, 1);
    metrics.original("kept");
    metrics.originals(1, 7);
    metrics.lines_ingested(3, 1);
    metrics.index_copies([1, 0, 0]);
    metrics.queries_logged("written", 3);
    metrics.feedback_processed(4, 1);
    metrics.queued("bulk", 3).finish();
    metrics.batch(2, 7);
    metrics.upstream_failed("m", "500");
    metrics.model_series("m", "u").count(&RequestRecord {
        model: Some("m".into()),
        upstream: Some("u".into()),
        first_token: Some(std::time::Duration::from_millis(3)),
        ..RequestRecord::default()
    });
    metrics.key_series("k").count(&RequestRecord::default());
    metrics.table("keys", 1, 2);
    metrics.guardrail_found("input", "email", "redact", 1);
    metrics.webhook_attempt("delivered");
    metrics.qdrant_call("upsert", "done", std::time::Duration::from_millis(3), 1);
    metrics.reconciliation("completed");
    metrics.reconciled("lost", 1);
    let _connection = metrics.connection();
    let gauges = CollectionGauges {
        name: "c".to_owned(),
        documents: Some(1),
        chunks: Some(2),
        pending: 3,
        index_bytes: 4,
        index_segments: 5,
        feedback_votes: 6,
        relevance_shift: 0.05,
    };
    let text = metrics.render(5, 0, &[gauges], |_| true, true);
    for row in TABLE {
        let sample =
            if row.kind == Kind::Histogram { format!("{}_count", row.name) } else { row.name.to_owned() };
        let line = text
            .lines()
            .find(|line| line.strip_prefix(&sample).is_some_and(|rest| rest.starts_with(['{', ' '])));
        let line = line.unwrap_or_else(|| panic!("{} is missing", row.name));
        for label in row.labels {
            assert!(line.contains(&format!("{label}=\"")), "{line} has no label {label}");
        }
    }
    let families = text.lines().filter(|line| line.starts_with("# TYPE")).count();
    assert_eq!(families, TABLE.len(), "{text}");
    assert!(text.contains("weir_pending_operations{collection=\"c\"} 3\n"), "{text}");
    assert!(text.contains("weir_ingest_documents_total{result=\"refused\"} 1\n"), "{text}");
    assert!(text.contains("weir_embed_tokens_total{model=\"m\"} 7\n"), "{text}");
    assert!(text.contains("weir_truncated_inputs_total{model=\"m\"} 1\n"), "{text}");
    assert!(text.contains("weir_search_degraded_total{reason=\"embedding_deadline\"} 1\n"), "{text}");
    assert!(text.contains("weir_search_corrections_total 2\n"), "{text}");
    assert!(text.contains("weir_connections 1\n"), "{text}");
}
