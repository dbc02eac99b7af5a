//! Every route of the table, with keys that lack a scope, a collection, a model, documents by filter, that have ended, or whose limits are
//! reached, and without one: none of them finds what it must not see.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser as _;
use serde_json::{Value, json};
use weir_mock::{MockServer, Settings};
use weir_policy::Scope;
use weir_server::{Access, BodyLimit, ROUTES, Route};

use crate::support::client::Reply;
use crate::support::gateway::Gateway;

/// The key that may do everything.
const OPERATOR: &str = "operator";

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
fn examples(route: &Route, walk: &Walk) -> Vec<Example> {
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
    let jobs: Vec<&str> = walk.jobs.iter().map(String::as_str).collect();
    let ids: &[&str] = if route.path.contains("/jobs/") {
        &jobs
    } else if route.path.contains("/keys/") {
        &[walk.hidden_key.as_str(), "99"]
    } else {
        &["visible-doc", "hidden-doc", "secret-doc"]
    };
    uris = fill(uris, "{id}", ids);
    let queries: &[&str] = match route.path {
        "/v1/feedback" if route.method != "post" => &["?collection=open", "?collection=secret"],
        "/v1/collections/{name}/documents" => &[
            "",
            "?sort=team",
            "?sort=codename",
            "?limit=1",
            "?sort=team&limit=1",
            "?filter=%7B%22team%22%3A%22b%22%7D",
            "?filter=%7B%22codename%22%3A%22x%22%7D",
        ],
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
            for query in [
                "river", "zanzibar", "zanzibra", "zanz*", "z?nzibar", "zan*r", "quicksilver", "rivre", "riv*", "visible-doc", "stonne river",
                "codename:x river", "\"river of\" -zanzibar", "river zan",
            ] {
                for mode in ["hybrid", "lexical", "dense"] {
                    all.extend(both(&|name| json!({"query": query, "mode": mode, "collection": name, "top_k": 10, "explain": true})));
                }
            }
            for asked in [
                json!({"filter": {"codename": "x"}}),
                json!({"sort": "codename"}),
                json!({"facets": ["codename"]}),
                json!({"group_by": "codename", "query": "river"}),
                json!({"query": "codename:x", "syntax": "strict"}),
                json!({"query": "zan", "prefix": "last", "mode": "lexical"}),
                json!({"query": "riv", "prefix": "last", "mode": "lexical", "highlight": true}),
                json!({"query": "river", "collapse": true, "diversity": 0.5, "explain": true}),
                json!({"query": "river", "top_k": 1, "count": true, "explain": true}),
                json!({"query": "river", "group_by": "team", "min_relevance": 0.01, "context": 1}),
                json!({"query": "river", "fusion": {"method": "rrf"}, "smoothing": false, "explain": true}),
            ] {
                all.extend(both(&|name| {
                    let mut asked = asked.clone();
                    asked["collection"] = name.into();
                    asked
                }));
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
        ("post", "/v1/collections/{name}/chunks/preview") => vec![json!({"text": "river"}).to_string()],
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
            json!({"messages": [], "prompt": "river", "input": "river", "max_tokens": 9, "model": "forbidden-chat"}).to_string(),
            json!({"messages": [], "prompt": "river", "input": "river", "max_tokens": 9, "model": "allowed-chat"}).to_string(),
        ],
        ("post", "/api/chat") => ["forbidden-chat", "allowed-chat"]
            .map(|name| json!({"messages": [{"role": "user", "content": "river"}], "stream": false, "model": name}).to_string())
            .to_vec(),
        ("post", "/api/generate") => ["forbidden-chat", "allowed-chat"]
            .map(|name| json!({"prompt": "river", "stream": false, "model": name}).to_string())
            .to_vec(),
        ("post", "/api/show") => ["forbidden", "forbidden-chat", "allowed", "allowed-chat"]
            .map(|name| json!({"model": name}).to_string())
            .to_vec(),
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
            json!({"filter": {"codename": "x"}, "dry_run": true}).to_string(),
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
        ("put", "/v1/collections/{name}/documents/{id}" | "/v1/collections/{name}/documents/delete") => vec![
            json!({"text": "replaced", "metadata": {"team": "a"}}).to_string(),
            json!({"text": "replaced", "metadata": {"team": "b"}}).to_string(),
        ],
        ("patch", "/v1/collections/{name}/documents/{id}" | "/v1/collections/{name}/documents/delete") => vec![
            json!({"title": "river", "metadata": {"year": 2022}}).to_string(),
            json!({"metadata": {"team": "b"}}).to_string(),
        ],
        ("put", "/v1/collections/{name}") => vec![json!({"model": "forbidden"}).to_string()],
        (method, path) => {
            assert_eq!(route.body, BodyLimit::None, "add bodies for {method} {path}");
            vec![String::new()]
        }
    }
}

/// A gateway with documents, models and keys, some of them hidden.
struct Walk {
    gateway: Gateway,
    /// Texts of keys.
    keys: BTreeMap<&'static str, String>,
    jobs: Vec<String>,
    /// The id of a key for the secret collection.
    hidden_key: String,
    _upstream: MockServer,
}

impl Walk {
    fn start() -> Walk {
        Walk::start_with(&["hidden-doc", "hidden-doc-2"])
    }

    /// With these hidden documents in the collection `open`.
    fn start_with(hidden: &[&str]) -> Walk {
        let upstream = MockServer::start(Settings::parse_from(["weir-mock"])).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        let mut tables = format!(
            "[[upstreams]]\nid = \"mock\"\nprovider = \"openai\"\nurl = \"http://{}/v1\"\n",
            upstream.addr()
        );
        for name in ["allowed", "forbidden"] {
            tables += &format!("[[models]]\nid = \"{name}\"\nkind = \"pseudo\"\n");
            tables +=
                &format!("[[routes]]\nmodel = \"{name}-chat\"\ntargets = [{{ upstream = \"mock\" }}]\n");
        }
        std::fs::write(&file, tables).unwrap();
        let variables = [
            ("WEIR_CONFIG", file.to_str().unwrap()),
            ("WEIR_MODEL", ""),
            ("WEIR_SEARCH_QUERY_LOG", "true"),
            ("WEIR_SERVER_REQUEST_DEADLINE_MS", "180000"),
        ];
        let gateway = Gateway::start_with(&variables);
        let mut walk = Walk {
            gateway,
            keys: BTreeMap::new(),
            jobs: Vec::new(),
            hidden_key: String::new(),
            _upstream: upstream,
        };
        let all = Scope::ALL.map(Scope::as_str);
        walk.create(OPERATOR, json!({"scopes": all}));
        let only = json!({"scopes": all, "collections": ["open"], "models": ["allowed", "allowed-chat"], "filter": {"team": "a"}});
        walk.create("restricted", only);
        for scope in all {
            let others: Vec<&str> = all.into_iter().filter(|other| *other != scope).collect();
            walk.create(scope, json!({"scopes": others}));
        }
        let of_secret =
            walk.ask("POST", "/v1/keys", r#"{"name": "of quicksilver", "collections": ["secret"]}"#);
        walk.hidden_key = of_secret["id"].to_string();
        let mut documents = vec![
            ("open", "visible-doc", json!({"team": "a"}), "A river of stone."),
            (
                "open",
                "visible-doc-2",
                json!({"team": "a", "year": 2020}),
                "The river flows around a stone and a tree.",
            ),
            ("secret", "secret-doc", json!({"team": "a"}), "A river of quicksilver."),
        ];
        let of_hidden = json!({"team": "b", "codename": "x", "year": 2021});
        documents.extend(
            hidden
                .iter()
                .map(|id| ("open", *id, of_hidden.clone(), "A river in zanzibar. A rivre, a stonne.")),
        );
        for (collection, id, metadata, text) in documents {
            let body = json!({"collection": collection,
                "documents": [{"id": id, "text": text, "metadata": metadata}]});
            let job = walk.ask("POST", "/v1/ingest?wait=true", &body.to_string());
            walk.jobs.push(job["job_id"].as_str().unwrap().to_owned());
            let feedback =
                json!({"query": "river", "collection": collection, "document_id": id, "relevant": true});
            walk.ask("POST", "/v1/feedback", &feedback.to_string());
            let search = json!({"query": "hiddenquery zanzibar", "collection": collection});
            walk.ask("POST", "/v1/search", &search.to_string());
        }
        walk
    }

    /// Creates a key that is known by this name.
    fn create(&mut self, name: &'static str, mut request: Value) {
        request["name"] = name.into();
        let key = self.ask("POST", "/v1/keys", &request.to_string());
        self.keys.insert(name, key["key"].as_str().unwrap().to_owned());
    }

    /// Sends a request with the key of this name; an empty body is none.
    fn send(&self, key: &str, method: &str, uri: &str, body: &str) -> Reply {
        let key = self.keys.get(key).map_or("", String::as_str);
        let headers = [("x-api-key", key), ("content-type", "application/json")];
        let headers = if key.is_empty() { &headers[1..] } else { &headers };
        let body = (!body.is_empty()).then_some(body.as_bytes());
        self.gateway.try_send(&method.to_uppercase(), uri, headers, body).expect("a reply")
    }

    /// Sends a request as the operator, which must succeed.
    fn ask(&self, method: &str, uri: &str, body: &str) -> Value {
        let reply = self.send(OPERATOR, method, uri, body);
        assert!((200..300).contains(&reply.status), "{method} {uri} {body}: {} {}", reply.status, reply.text);
        reply.json()
    }
}

/// What a reply shows of what is hidden, beyond what the request itself names.
fn leaks(example: &Example, reply: &Reply) -> Vec<&'static str> {
    let named = |word: &str| example.uri.contains(word) || example.body.contains(word);
    HIDDEN.into_iter().filter(|word| reply.text.contains(word) && !named(word)).collect()
}

#[test]
fn an_unknown_caller_learns_nothing_but_401() {
    let walk = Walk::start();
    for route in ROUTES.iter().filter(|route| route.access != Access::Public) {
        for example in examples(route, &walk) {
            let reply = walk.send("nobody", route.method, &example.uri, &example.body);
            assert_eq!(reply.status, 401, "{} {example:?}", route.method);
            assert_eq!(reply.header("www-authenticate"), "Bearer");
            assert_eq!(leaks(&example, &reply), [""; 0], "{} {example:?}: {}", route.method, reply.text);
        }
    }
}

#[test]
fn keys_that_have_ended_or_reached_a_limit_open_no_route() {
    let mut walk = Walk::start();
    let all = Scope::ALL.map(Scope::as_str);
    let soon = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() + 1.0;
    walk.create("expired", json!({"scopes": all, "expires_at": soon}));
    walk.create("revoked", json!({"scopes": all}));
    walk.create("limited", json!({"scopes": all, "limits": {"requests_per_minute": 1}}));
    let keys = walk.ask("GET", "/v1/keys", "");
    let revoked = keys["data"].as_array().unwrap().iter().find(|key| key["name"] == "revoked").unwrap();
    walk.ask("DELETE", &format!("/v1/keys/{}", revoked["id"]), "");
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(walk.send("limited", "GET", "/v1/models", "").status, 200);
    for route in ROUTES.iter().filter(|route| route.access != Access::Public) {
        for example in examples(route, &walk) {
            for (key, status) in [("expired", 401), ("revoked", 401), ("limited", 429)] {
                let reply = walk.send(key, route.method, &example.uri, &example.body);
                assert_eq!(reply.status, status, "{key}: {} {example:?}: {}", route.method, reply.text);
                assert_eq!(
                    leaks(&example, &reply),
                    [""; 0],
                    "{key}: {} {example:?}: {}",
                    route.method,
                    reply.text
                );
                assert_eq!(reply.header("retry-after").is_empty(), status == 401, "{key}: {example:?}");
            }
        }
    }
}

#[test]
fn every_route_demands_its_scope_and_no_other() {
    let walk = Walk::start();
    for route in ROUTES {
        let Access::Scopes(&[scope]) = route.access else { continue };
        // the requests change things: one of each is enough
        let example = examples(route, &walk).remove(0);
        for other in Scope::ALL {
            let reply = walk.send(other.as_str(), route.method, &example.uri, "not JSON");
            assert_eq!(
                reply.status == 403,
                other == scope,
                "{} {} without {}",
                route.method,
                route.path,
                other.as_str()
            );
        }
        for example in examples(route, &walk) {
            let reply = walk.send(scope.as_str(), route.method, &example.uri, &example.body);
            assert_eq!(reply.status, 403, "{} {example:?}", route.method);
            assert_eq!(leaks(&example, &reply), [""; 0], "{} {example:?}: {}", route.method, reply.text);
        }
        if route.method == "delete" && route.path == "/v1/collections/{name}" {
            // deleted by the callers that lack another scope
            start_again(&walk);
        }
    }
}

/// Brings back what the walk deleted.
fn start_again(walk: &Walk) {
    for name in ["open", "secret"] {
        walk.ask("PUT", &format!("/v1/collections/{name}"), "");
    }
}

/// Whether requests of the route name documents that they make.
fn makes_documents(route: &Route) -> bool {
    route.path == "/v1/ingest" || route.method == "put" && route.path.ends_with("/documents/{id}")
}

#[test]
fn every_list_of_models_has_those_that_the_scopes_of_the_key_may_name() {
    let mut walk = Walk::start();
    walk.create("chats", json!({"scopes": ["chat"]}));
    walk.create("embeds", json!({"scopes": ["embed"]}));
    for (path, lists_chat) in
        [("/v1/models", true), ("/models", true), ("/api/tags", true), ("/api/ps", false)]
    {
        let shown = |key: &str| {
            let reply = walk.send(key, "GET", path, "");
            let named = |name: &str| reply.text.contains(&format!("\"{name}\""));
            (named("allowed"), named("allowed-chat"))
        };
        assert_eq!((shown("chats"), shown("embeds")), ((false, lists_chat), (true, false)), "{path}");
    }
    let show = |key: &str, model: &str| {
        walk.send(key, "POST", "/api/show", &json!({"model": model, "name": ""}).to_string()).status
    };
    assert_eq!([show("chats", "allowed"), show("chats", "allowed-chat")], [404, 200]);
    assert_eq!([show("embeds", "allowed"), show("embeds", "allowed-chat")], [200, 404]);
}

#[test]
fn a_restricted_caller_finds_nothing_of_other_collections_models_and_documents() {
    let walk = Walk::start();
    // ingest last: its requests name a hidden document, and their jobs then do too
    let (ingest, others): (Vec<&Route>, Vec<&Route>) =
        ROUTES.iter().partition(|route| makes_documents(route));
    for route in others.into_iter().chain(ingest) {
        for example in examples(route, &walk) {
            let reply = walk.send("restricted", route.method, &example.uri, &example.body);
            let what = format!("{} {example:?}: {} {}", route.method, reply.status, reply.text);
            assert_ne!(reply.status, 500, "{what}");
            assert_eq!(leaks(&example, &reply), [""; 0], "{what}");
            let names_hidden =
                ["hidden-doc", "secret", "forbidden"].iter().any(|name| example.uri.contains(name));
            // a document of another collection has an id that is free in this one
            let is_new = makes_documents(route) && example.uri.ends_with("/open/documents/secret-doc");
            if names_hidden && route.access != Access::Public && !is_new {
                let status = reply.status;
                assert!([400, 403, 404].contains(&status), "it answers for what does not exist: {what}");
            }
        }
    }
    // and what was hidden is still there
    let keys = walk.ask("GET", "/v1/keys", "");
    let hidden_key = keys["data"].as_array().unwrap().iter().find(|key| key["name"] == "of quicksilver");
    assert_eq!(hidden_key.unwrap()["revoked_at"], json!(null));
    let hidden = walk.ask("GET", "/v1/collections/open/documents/hidden-doc", "");
    assert_eq!(hidden["text"], "A river in zanzibar. A rivre, a stonne.");
    let secret = walk.ask("GET", "/v1/collections/secret/documents/secret-doc", "");
    assert_eq!(secret["text"], "A river of quicksilver.");
    let names: Vec<String> = walk.ask("GET", "/v1/collections", "")["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|collection| collection["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"open".to_owned()) && names.contains(&"secret".to_owned()), "{names:?}");
}

#[test]
fn counts_lists_and_jobs_are_those_of_the_callers_documents() {
    let walk = Walk::start();
    let get = |uri: &'static str| walk.send("restricted", "GET", uri, "");
    let collections = get("/v1/collections").json();
    assert_eq!(collections["data"].as_array().unwrap().len(), 1, "{collections}");
    assert_eq!(collections["data"][0]["document_count"], 2);
    assert_eq!(collections["data"][0]["chunk_count"], 2);
    let documents = get("/v1/collections/open/documents").json();
    assert_eq!(documents["data"].as_array().unwrap().len(), 2, "{documents}");
    let feedback = get("/v1/feedback?collection=open").json();
    assert_eq!(feedback["data"].as_array().unwrap().len(), 2, "{feedback}");
    assert_eq!(get("/v1/collections/open/queries").json()["data"].as_array().unwrap().len(), 0);
    assert_eq!(get("/v1/jobs").json()["data"].as_array().unwrap().len(), 0, "none of them is its own");
    let without_admin = Scope::Admin.as_str();
    let own = walk.send(without_admin, "DELETE", "/v1/feedback?collection=open", "").json();
    assert_eq!(own["deleted"], 0, "feedback of others is an administrator's: {own}");
    let of_others = walk.send(without_admin, "DELETE", "/v1/feedback?collection=open&key=1", "");
    assert_eq!(of_others.status, 403, "{}", of_others.text);
    let everything = walk.send(OPERATOR, "GET", "/v1/jobs", "").json();
    assert_eq!(everything["data"].as_array().unwrap().len(), walk.jobs.len());
    let metrics = get("/metrics").text;
    assert!(metrics.contains(r#"weir_documents{collection="open"} 2"#), "{metrics}");
    assert!(!metrics.contains("weir_ingest"), "counts of the whole gateway: {metrics}");
    let search = json!({"query": "river", "collection": "open", "count": true}).to_string();
    let found = walk.send("restricted", "POST", "/v1/search", &search).json();
    assert_eq!(found["results"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found["total"]["value"], 2);
    let public = walk.send("nobody", "GET", "/healthz", "").json();
    assert_eq!(public["document_count"], Value::Null, "{public}");
    assert_eq!(walk.ask("GET", "/healthz", "")["document_count"], walk.jobs.len());
}

/// Fields that differ between any two gateways: ids that are drawn or counted for all collections, times, and cursors.
const OWN_OF_A_GATEWAY: [&str; 22] = [
    "modified_at",
    "request_id",
    "job_id",
    "number",
    "id",
    "key",
    "prefix",
    "next_cursor",
    "took_ms",
    "timings_ms",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
    "created_at",
    "started_at",
    "finished_at",
    "completed_at",
    "last_asked_at",
    "created",
    "instance",
    // counts the changes of all documents
    "version",
];

/// A reply with everything that it tells of documents.
fn told(reply: &Reply, is_of_documents: bool) -> String {
    let Ok(mut body) = serde_json::from_str::<Value>(&reply.text) else {
        return format!("{} {}", reply.status, reply.text);
    };
    leave_out(&mut body, is_of_documents);
    format!("{} {body:#}", reply.status)
}

fn leave_out(value: &mut Value, keeps_ids: bool) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_own = OWN_OF_A_GATEWAY.contains(&name.as_str()) && !(keeps_ids && name == "id");
                // whether it is there is told
                match is_own && !value.is_null() {
                    true => *value = json!("own"),
                    false => leave_out(value, keeps_ids),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| leave_out(value, keeps_ids)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whole replies, numbers included. What is told all the same is in docs/keys.md.
#[test]
fn replies_are_the_same_with_and_without_hidden_documents() {
    let ids: Vec<String> = std::iter::once("hidden-doc".to_owned())
        .chain((0..40).map(|number| format!("hidden-doc-{number}")))
        .collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let walks = [Walk::start_with(&[]), Walk::start_with(&ids)];
    // judgments are processed in the background
    std::thread::sleep(Duration::from_secs(1));
    let mut different = Vec::new();
    for route in ROUTES {
        // ids are one namespace per collection: that a hidden document has one is told to who wants to store another
        let puts_document = route.method == "put" && route.path.contains("/documents/");
        let takes_ids = route.path == "/v1/ingest" || puts_document;
        // sums of requests, which are written in the background
        let counts_requests = route.path == "/v1/usage";
        let is_of_documents = route.path == "/v1/search" || route.path.ends_with("/documents");
        for example in examples(route, &walks[1]).into_iter().filter(|_| !takes_ids && !counts_requests) {
            let replies = walks.each_ref().map(|walk| {
                told(&walk.send("restricted", route.method, &example.uri, &example.body), is_of_documents)
            });
            if replies[0] != replies[1] {
                different.push(format!(
                    "{} {example:?}\nwithout: {}\nwith: {}",
                    route.method, replies[0], replies[1]
                ));
            }
        }
    }
    assert!(different.is_empty(), "{} replies differ:\n{}", different.len(), different.join("\n"));
}
