//! Every route of the table, with callers that lack a key, a scope, a collection, a model, or documents by filter: none of them finds
//! what it must not see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::json;
use weir_filter::Filter;
use weir_policy::{Allowlist, Caller, Scope};
use weir_server::{Access, BodyLimit, ROUTES, Route};

use crate::in_process::{InProcess, OPERATOR, Reply};

/// Words and ids that no restricted caller may find in a reply, unless its own request names them.
const HIDDEN: [&str; 7] =
    ["hidden-doc", "zanzibar", "secret-doc", "quicksilver", "hiddenquery", "secret", "forbidden"];

/// A request for a route.
#[derive(Debug)]
struct Example {
    uri: String,
    body: String,
}

/// Requests for every collection, document, job and model that exists.
fn examples(route: &Route, jobs: &[String]) -> Vec<Example> {
    let mut uris = vec![route.path.to_owned()];
    let fill = |uris: Vec<String>, pattern: &str, values: &[&str]| -> Vec<String> {
        uris.iter()
            .flat_map(|uri| values.iter().map(|value| uri.replace(pattern, value)))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    };
    uris = fill(uris, "{name}", &["open", "secret"]);
    uris = fill(uris, "{*id}", &["allowed", "forbidden"]);
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let ids: &[&str] = if route.path.contains("/jobs/") {
        &jobs
    } else if route.path.contains("/keys/") {
        &["1", "99"]
    } else {
        &["visible-doc", "hidden-doc", "secret-doc"]
    };
    uris = fill(uris, "{id}", ids);
    let queries: &[&str] = match route.path {
        "/v1/feedback" if route.method != "post" => &["?collection=open", "?collection=secret"],
        "/v1/collections/{name}/documents" => &["", "?sort=team", "?filter=%7B%22team%22%3A%22b%22%7D"],
        _ => &[""],
    };
    let bodies = bodies(route);
    uris.iter()
        .flat_map(|uri| queries.iter().map(move |query| format!("{uri}{query}")))
        .flat_map(|uri| bodies.iter().map(move |body| Example { uri: uri.clone(), body: body.clone() }))
        .collect()
}

/// Bodies for a route; every route with a body must have some here.
fn bodies(route: &Route) -> Vec<String> {
    let both =
        |body: &dyn Fn(&str) -> serde_json::Value| vec![body("open").to_string(), body("secret").to_string()];
    match (route.method, route.path) {
        ("post", "/v1/search") => {
            let mut all = Vec::new();
            for query in ["river", "zanzibar", "zanzibra", "zanz*", "z?nzibar", "zan*r", "quicksilver"] {
                for mode in ["hybrid", "lexical", "dense"] {
                    all.extend(both(&|name| json!({"query": query, "mode": mode, "collection": name, "top_k": 10, "explain": true})));
                }
            }
            all.extend(both(&|name| json!({"collection": name, "facets": ["team"], "count": true})));
            all.extend(both(&|name| json!({"query": "river", "collection": name, "facets": ["team"], "facet_counts": "exact"})));
            all.extend(both(&|name| json!({"query": "river", "collection": name, "why_not": "hidden-doc"})));
            all.extend(both(&|name| json!({"queries": [{"query": "river", "collection": name}]})));
            all
        }
        ("post", "/v1/feedback") => vec![
            json!({"query": "river", "collection": "open", "document_id": "hidden-doc", "relevant": true}).to_string(),
            json!({"query": "river", "collection": "secret", "document_id": "secret-doc", "relevant": true}).to_string(),
        ],
        ("post", "/v1/ingest") => vec![
            json!({"collection": "secret", "documents": [{"id": "new", "text": "new"}]}).to_string(),
            json!({"collection": "open", "documents": [{"id": "hidden-doc", "text": "replaced", "metadata": {"team": "a"}}]}).to_string(),
            json!({"collection": "open", "documents": [{"id": "new-doc", "text": "new", "metadata": {"team": "b"}}]}).to_string(),
        ],
        ("post", "/v1/embeddings" | "/embeddings") => vec![
            json!({"input": "river", "model": "forbidden"}).to_string(),
            json!({"input": "river", "model": "allowed"}).to_string(),
        ],
        ("post", "/embed" | "/" | "/embed_all" | "/embed_sparse" | "/tokenize") => {
            vec![json!({"inputs": "river"}).to_string()]
        }
        ("post", "/similarity") => {
            vec![json!({"inputs": {"source_sentence": "river", "sentences": ["dam"]}}).to_string()]
        }
        ("post", "/decode") => vec![json!({"ids": [1, 2]}).to_string()],
        ("post", "/predict") => vec![json!({"inputs": ["river", "dam"]}).to_string()],
        ("post", "/rerank" | "/v1/rerank" | "/v2/rerank") => vec![
            json!({"query": "river", "documents": ["dam"], "model": "forbidden"}).to_string(),
            json!({"query": "river", "documents": ["dam"]}).to_string(),
        ],
        ("post", "/v1/chat/completions" | "/chat/completions" | "/v1/completions" | "/v1/responses" | "/v1/messages" | "/v1/messages/count_tokens") => vec![
            json!({"messages": [], "prompt": "river", "input": "river", "max_tokens": 9, "model": "forbidden"}).to_string(),
            json!({"messages": [], "prompt": "river", "input": "river", "max_tokens": 9, "model": "allowed"}).to_string(),
        ],
        ("post", "/v1/embed" | "/v2/embed") => vec![
            json!({"texts": ["river"], "model": "forbidden"}).to_string(),
            json!({"texts": ["river"], "model": "allowed"}).to_string(),
        ],
        ("post", "/api/embed" | "/api/embeddings") => vec![
            json!({"input": "river", "prompt": "river", "model": "forbidden"}).to_string(),
            json!({"input": "river", "prompt": "river", "model": "allowed"}).to_string(),
        ],
        ("post", "/v1/collections/{name}/documents/delete") => vec![
            json!({"filter": {"team": "b"}, "dry_run": true}).to_string(),
            json!({"all": true, "dry_run": true}).to_string(),
        ],
        ("post", "/v1/keys") => vec![
            json!({"name": "new"}).to_string(),
            json!({"name": "new", "scopes": ["search"], "collections": ["open"], "models": ["allowed"]}).to_string(),
        ],
        ("patch", "/v1/keys/{id}") => vec![
            json!({"name": "changed"}).to_string(),
            json!({"collections": ["secret"], "models": null, "filter": null}).to_string(),
        ],
        ("put", "/v1/collections/{name}") => vec![json!({"model": "forbidden"}).to_string()],
        (method, path) => {
            assert_eq!(route.body, BodyLimit::None, "add bodies for {method} {path}");
            vec![String::new()]
        }
    }
}

fn only(names: &[&str]) -> Allowlist {
    Allowlist::Only(names.iter().map(|name| (*name).to_owned()).collect())
}

async fn start() -> (InProcess, Vec<String>) {
    let team_a = Filter::parse(r#"{"team": "a"}"#).unwrap();
    let restricted = Caller {
        collections: only(&["open"]),
        models: only(&["allowed"]),
        filter: Some(Arc::new(team_a)),
        ..Caller::system()
    };
    let mut callers = BTreeMap::from([
        ("restricted", restricted),
        ("no-scope", Caller { scopes: BTreeSet::new(), ..Caller::system() }),
    ]);
    for scope in Scope::ALL {
        let scopes = Scope::ALL.into_iter().filter(|other| *other != scope).collect();
        callers.insert(scope.as_str(), Caller { scopes, ..Caller::system() });
    }
    let gateway = InProcess::start(&[("WEIR_SEARCH_QUERY_LOG", "true")], callers).await;
    let mut jobs = Vec::new();
    for (collection, id, team, text) in [
        ("open", "visible-doc", "a", "A river of stone."),
        ("open", "hidden-doc", "b", "A river in zanzibar."),
        ("secret", "secret-doc", "a", "A river of quicksilver."),
    ] {
        let body = json!({"collection": collection,
            "documents": [{"id": id, "text": text, "metadata": {"team": team}}]});
        let job = gateway.ask("POST", "/v1/ingest?wait=true", &body.to_string()).await;
        jobs.push(job["job_id"].as_str().unwrap().to_owned());
        let feedback =
            json!({"query": "river", "collection": collection, "document_id": id, "relevant": true});
        gateway.ask("POST", "/v1/feedback", &feedback.to_string()).await;
        let search = json!({"query": "hiddenquery zanzibar", "collection": collection});
        gateway.ask("POST", "/v1/search", &search.to_string()).await;
    }
    gateway.ask("POST", "/v1/keys", r#"{"name": "of quicksilver", "collections": ["secret"]}"#).await;
    (gateway, jobs)
}

/// What a reply shows of what is hidden, beyond what the request itself names.
fn leaks(example: &Example, reply: &Reply) -> Vec<&'static str> {
    let named = |word: &str| example.uri.contains(word) || example.body.contains(word);
    HIDDEN.into_iter().filter(|word| reply.text.contains(word) && !named(word)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_caller_learns_nothing_but_401() {
    let (gateway, jobs) = start().await;
    for route in ROUTES.iter().filter(|route| route.access != Access::Public) {
        for example in examples(route, &jobs) {
            let reply = gateway.send("nobody", route.method, &example.uri, &example.body).await;
            assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{} {example:?}", route.method);
            assert_eq!(reply.headers["www-authenticate"], "Bearer");
            assert_eq!(leaks(&example, &reply), [""; 0], "{} {example:?}: {}", route.method, reply.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_demands_its_scope_and_no_other() {
    let (gateway, jobs) = start().await;
    for route in ROUTES {
        let Access::Scope(scope) = route.access else { continue };
        // the requests change things: one of each is enough
        let example = examples(route, &jobs).remove(0);
        for other in Scope::ALL {
            let reply = gateway.send(other.as_str(), route.method, &example.uri, "not JSON").await;
            let is_refused = reply.status == StatusCode::FORBIDDEN;
            // feedback of others is an administrator's
            let is_of_others = (route.method, route.path) == ("delete", "/v1/feedback");
            assert_eq!(
                is_refused,
                other == scope || is_of_others && other == Scope::Admin,
                "{} {} without {}",
                route.method,
                route.path,
                other.as_str()
            );
        }
        for example in examples(route, &jobs) {
            let reply = gateway.send("no-scope", route.method, &example.uri, &example.body).await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN, "{} {example:?}", route.method);
            assert_eq!(leaks(&example, &reply), [""; 0], "{} {example:?}: {}", route.method, reply.text);
        }
        if route.method == "delete" && route.path == "/v1/collections/{name}" {
            // deleted by the callers that lack another scope
            start_again(&gateway).await;
        }
    }
}

/// Brings back what the walk deleted.
async fn start_again(gateway: &InProcess) {
    for name in ["open", "secret"] {
        gateway.ask("PUT", &format!("/v1/collections/{name}"), "").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_caller_finds_nothing_of_other_collections_models_and_documents() {
    let (gateway, jobs) = start().await;
    // ingest last: its requests name a hidden document, and their jobs then do too
    let (ingest, others): (Vec<&Route>, Vec<&Route>) =
        ROUTES.iter().partition(|route| route.path == "/v1/ingest");
    for route in others.into_iter().chain(ingest) {
        for example in examples(route, &jobs) {
            let reply = gateway.send("restricted", route.method, &example.uri, &example.body).await;
            let what = format!("{} {example:?}: {} {}", route.method, reply.status, reply.text);
            assert_ne!(reply.status, StatusCode::INTERNAL_SERVER_ERROR, "{what}");
            assert_eq!(leaks(&example, &reply), [""; 0], "{what}");
            let names_hidden =
                ["hidden-doc", "secret", "forbidden"].iter().any(|name| example.uri.contains(name));
            if names_hidden && route.access != Access::Public {
                let status = reply.status.as_u16();
                assert!([400, 403, 404].contains(&status), "it answers for what does not exist: {what}");
            }
        }
    }
    // and what was hidden is still there
    let keys = gateway.ask("GET", "/v1/keys", "").await;
    assert_eq!(
        (&keys["data"][0]["name"], &keys["data"][0]["revoked_at"]),
        (&json!("of quicksilver"), &json!(null))
    );
    let hidden = gateway.ask("GET", "/v1/collections/open/documents/hidden-doc", "").await;
    assert_eq!(hidden["text"], "A river in zanzibar.");
    let secret = gateway.ask("GET", "/v1/collections/secret/documents/secret-doc", "").await;
    assert_eq!(secret["text"], "A river of quicksilver.");
    let names: Vec<String> = gateway.ask("GET", "/v1/collections", "").await["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|collection| collection["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"open".to_owned()) && names.contains(&"secret".to_owned()), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_lists_and_jobs_are_those_of_the_callers_documents() {
    let (gateway, jobs) = start().await;
    let get = |uri: &'static str| gateway.send("restricted", "GET", uri, "");
    let collections = get("/v1/collections").await.json();
    assert_eq!(collections["data"].as_array().unwrap().len(), 1, "{collections}");
    assert_eq!(collections["data"][0]["document_count"], 1);
    assert_eq!(collections["data"][0]["chunk_count"], 1);
    let documents = get("/v1/collections/open/documents").await.json();
    assert_eq!(documents["data"].as_array().unwrap().len(), 1, "{documents}");
    let feedback = get("/v1/feedback?collection=open").await.json();
    assert_eq!(feedback["data"].as_array().unwrap().len(), 1, "{feedback}");
    assert_eq!(get("/v1/collections/open/queries").await.json()["data"].as_array().unwrap().len(), 0);
    assert_eq!(get("/v1/jobs").await.json()["data"].as_array().unwrap().len(), 0, "none of them is its own");
    let everything = gateway.send(OPERATOR, "GET", "/v1/jobs", "").await.json();
    assert_eq!(everything["data"].as_array().unwrap().len(), jobs.len());
    let metrics = get("/metrics").await.text;
    assert!(metrics.contains(r#"weir_documents{collection="open"} 1"#), "{metrics}");
    let search = json!({"query": "river", "collection": "open", "count": true}).to_string();
    let found = gateway.send("restricted", "POST", "/v1/search", &search).await.json();
    assert_eq!(found["results"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["total"]["value"], 1);
}
