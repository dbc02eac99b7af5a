//! What administrators with a filter, scrapers of metrics, and requests to no route can do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;
use weir_index::filter::Filter;
use weir_policy::{Caller, KeyId, Scope};

use crate::in_process::{InProcess, OPERATOR};

fn caller(key: i64, scopes: &[Scope], tenant: Option<u32>) -> Caller {
    let filter = tenant.map(|tenant| Filter::parse(&format!(r#"{{"tenant": {tenant}}}"#)).unwrap());
    Caller {
        key: Some(KeyId(key)),
        name: Some(format!("key {key}").into()),
        scopes: scopes.iter().copied().collect::<BTreeSet<_>>(),
        filter: filter.map(Arc::new),
        ..Caller::system()
    }
}

async fn gateway() -> InProcess {
    let callers = BTreeMap::from([
        ("tenant 8", caller(1, &[Scope::Search, Scope::Ingest], Some(8))),
        ("admin 7", caller(2, &[Scope::Search, Scope::Admin], Some(7))),
        ("admin 8", caller(3, &[Scope::Search, Scope::Admin], Some(8))),
        ("scraper", caller(4, &[Scope::Metrics], None)),
        ("search", caller(5, &[Scope::Search], None)),
    ]);
    InProcess::start(&[], callers).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_with_a_filter_leaves_feedback_of_others_and_shared_settings() {
    let gateway = gateway().await;
    let document = json!({"id": "d", "text": "merger", "metadata": {"tenant": 8}});
    let stored = json!({"documents": [document]}).to_string();
    assert!(gateway.send("tenant 8", "POST", "/v1/ingest?wait=true", &stored).await.status.is_success());
    let vote = json!({"query": "merger", "document_id": "d", "relevant": true}).to_string();
    for caller in ["tenant 8", "admin 8"] {
        assert_eq!(gateway.send(caller, "POST", "/v1/feedback", &vote).await.status, 200);
    }
    for admin in ["admin 7", "admin 8"] {
        let refused = gateway.send(admin, "DELETE", "/v1/feedback?collection=default&key=1", "").await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["code"]),
            (403, &json!("insufficient_scope")),
            "{admin}"
        );
        assert!(refused.text.contains("no filter"), "{}", refused.text);
    }
    // as of callers without the scope, the own feedback
    let deleted =
        async |admin| gateway.send(admin, "DELETE", "/v1/feedback?collection=default", "").await.json();
    assert_eq!(deleted("admin 7").await["deleted"], 0);
    assert_eq!(deleted("admin 8").await["deleted"], 1);
    assert_eq!(deleted(OPERATOR).await["deleted"], 1);

    let settings = |lexical| json!({"lexical": lexical}).to_string();
    let put =
        async |caller, body: String| gateway.send(caller, "PUT", "/v1/collections/default", &body).await;
    let synonyms = settings(json!({"synonyms": {"merger": ["fusion"]}, "title_weight": 2}));
    let refused = put("admin 7", synonyms.clone()).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (403, &json!("insufficient_scope")));
    assert!(refused.text.contains("use a key without filter"), "{}", refused.text);
    assert_eq!(put(OPERATOR, synonyms.clone()).await.status, 200);
    let kept = put("admin 7", settings(json!({}))).await;
    assert_eq!(kept.status, 403, "to take settings away is a change");
    assert_eq!(put("admin 7", synonyms).await.status, 200, "what is in force is no change");
    assert_eq!(put("admin 7", "{}".to_owned()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_metrics_reads_them_and_nothing_else() {
    let gateway = gateway().await;
    let metrics = gateway.send("scraper", "GET", "/metrics", "").await;
    assert_eq!(metrics.status, 200);
    for line in [
        "# TYPE weir_documents gauge\n",
        "weir_table_bytes{table=\"keys\"} 0\n",
        "weir_table_bytes_max{table=\"replies\"} 268435456\n",
    ] {
        assert!(metrics.text.contains(line), "{line}");
    }
    assert_eq!(gateway.send("admin 7", "GET", "/metrics", "").await.status, 200);
    let refused = gateway.send("search", "GET", "/metrics", "").await;
    assert_eq!(refused.status, 403);
    assert!(refused.text.contains("the scope `metrics` or `admin`"), "{}", refused.text);
    for (method, path) in
        [("GET", "/v1/keys"), ("POST", "/v1/search"), ("PUT", "/v1/collections/a"), ("GET", "/v1/audit")]
    {
        assert_eq!(gateway.send("scraper", method, path, "{}").await.status, 403, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_no_route_are_in_the_request_log_with_their_key() {
    let gateway = gateway().await;
    assert_eq!(gateway.send("search", "GET", "/v1/serach", "").await.status, 404);
    assert_eq!(gateway.send("search", "PUT", "/v1/search", "").await.status, 405);
    assert_eq!(gateway.send("nobody", "GET", "/wp-login.php", "").await.status, 401);
    let mut sums = json!(null);
    for _ in 0..300 {
        sums = gateway.ask("GET", "/v1/usage?group_by=key", "").await["data"].clone();
        let errors = |at: usize| sums[at]["errors"].as_u64().unwrap_or(0);
        if errors(0) + errors(1) == 3 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let of_key = sums.as_array().unwrap().iter().find(|sum| sum["key"] == 5).unwrap();
    assert_eq!(of_key["errors"], 2, "{sums}");
    let without = sums.as_array().unwrap().iter().find(|sum| sum["key"].is_null()).unwrap();
    assert_eq!(without["errors"], 1, "{sums}");
    let metrics = gateway.send("scraper", "GET", "/metrics", "").await.text;
    assert!(metrics.contains("weir_key_requests_total{key=\"key 5\",result=\"failed\"} 2\n"), "{metrics}");
    assert!(!gateway.send("admin 7", "GET", "/metrics", "").await.text.contains("key=\""), "of other keys");
}
