//! API keys through the real binary: authentication, what a key can read and store, rotation, revocation and limits.

use std::io::{Read as _, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::support::client::Reply;
use crate::support::gateway::Gateway;

/// A request with a key, in the way of OpenAI's clients.
fn send(gateway: &Gateway, key: &str, method: &str, path: &str, body: &Value) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = (!body.is_null()).then(|| body.to_string());
    gateway.try_send(method, path, &headers, body.as_ref().map(|body| body.as_bytes())).unwrap()
}

/// Creates a key with another one, or with none as long as there is none; its text and its number.
fn create(gateway: &Gateway, by: &str, request: &Value) -> (String, i64) {
    let reply = send(gateway, by, "POST", "/v1/keys", request);
    assert_eq!(reply.status, 201, "{}", reply.text);
    (reply.json()["key"].as_str().unwrap().to_owned(), reply.json()["id"].as_i64().unwrap())
}

#[test]
fn as_soon_as_there_is_a_key_every_request_needs_one() {
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "a", "text": "a low dam", "metadata": {"tenant": 7}})]);
    let (admin, id) = create(&gateway, "", &json!({"name": "admin", "scopes": ["admin", "search"]}));
    assert!(admin.starts_with("weir_"));
    let search = json!({"query": "dam"});
    for headers in [
        vec![],
        vec![("authorization", "Bearer weir_wrong")],
        vec![("authorization", "Basic eDp5")],
        vec![("x-api-key", "")],
    ] {
        let reply =
            gateway.try_send("POST", "/v1/search", &headers, Some(search.to_string().as_bytes())).unwrap();
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, "Bearer"), "{headers:?}");
        assert!(!reply.text.contains("dam"), "{}", reply.text);
    }
    // which routes there are is not told either
    for (method, path, status) in
        [("GET", "/v1/keyz", 401), ("DELETE", "/v1/search", 401), ("DELETE", "/livez", 405)]
    {
        assert_eq!(gateway.try_send(method, path, &[], None).unwrap().status, status, "{method} {path}");
    }
    for name in ["x-api-key", "api-key"] {
        let reply =
            gateway.try_send("POST", "/v1/search", &[(name, &admin)], Some(search.to_string().as_bytes()));
        assert_eq!(reply.unwrap().status, 200, "{name}");
    }
    assert_eq!(send(&gateway, &admin, "POST", "/v1/search", &search).json()["results"][0]["id"], "a");
    assert_eq!(
        send(&gateway, &admin, "POST", "/v1/embeddings", &json!({"model": "pseudo", "input": "a"})).status,
        403
    );
    for path in ["/healthz", "/readyz", "/health"] {
        assert_eq!(gateway.send("GET", path, None).status, 200, "{path} needs no key");
    }
    let (rotated, same) = {
        let reply =
            send(&gateway, &admin, "POST", &format!("/v1/keys/{id}/rotate?grace_seconds=60"), &Value::Null);
        (reply.json()["key"].as_str().unwrap().to_owned(), reply.json()["id"].as_i64().unwrap())
    };
    assert_eq!(same, id);
    for key in [&admin, &rotated] {
        assert_eq!(
            send(&gateway, key, "GET", "/v1/keys", &Value::Null).status,
            200,
            "both are valid for a minute"
        );
    }
    assert_eq!(send(&gateway, &rotated, "DELETE", &format!("/v1/keys/{id}"), &Value::Null).status, 200);
    for key in [&admin, &rotated, ""] {
        assert_eq!(
            send(&gateway, key, "GET", "/v1/keys", &Value::Null).status,
            401,
            "also when all are revoked"
        );
    }
    let log = gateway.weir.log();
    assert!(!log.contains(&admin[13..]) && !log.contains(&rotated[13..]), "no key is logged");
}

#[test]
fn a_key_sees_its_collections_and_documents_only_and_stores_no_others() {
    let gateway = Gateway::start();
    gateway.ingest(&[
        json!({"id": "a", "text": "a low dam", "metadata": {"tenant": 7}}),
        json!({"id": "b", "text": "a high dam", "metadata": {"tenant": 8}}),
    ]);
    let (admin, _) = create(&gateway, "", &json!({"name": "admin", "scopes": ["admin", "search", "ingest"]}));
    let limited = json!({"name": "tenant 7", "scopes": ["search", "ingest"], "collections": ["default"], "filter": {"tenant": 7}});
    let (tenant, id) = create(&gateway, &admin, &limited);
    let found = |key: &str| -> Vec<Value> {
        let reply =
            send(&gateway, key, "POST", "/v1/search", &json!({"query": "dam", "mode": "lexical"})).json();
        reply["results"].as_array().unwrap().iter().map(|hit| hit["id"].clone()).collect()
    };
    assert_eq!((found(&admin).len(), found(&tenant)), (2, vec![json!("a")]));
    assert_eq!(
        send(&gateway, &tenant, "GET", "/v1/collections/default/documents/b", &Value::Null).status,
        404
    );
    assert_eq!(send(&gateway, &tenant, "GET", "/v1/keys", &Value::Null).status, 403);
    let other = json!({"documents": [{"id": "c", "text": "c", "metadata": {"tenant": 8}}]});
    let job = send(&gateway, &tenant, "POST", "/v1/ingest", &other).json();
    assert_eq!(
        (&job["failed_documents"], &job["errors"][0]["code"]),
        (&json!(1), &json!("document_not_allowed")),
        "{job}"
    );
    let elsewhere =
        json!({"collection": "other", "documents": [{"id": "c", "text": "c", "metadata": {"tenant": 7}}]});
    assert_eq!(send(&gateway, &tenant, "POST", "/v1/ingest", &elsewhere).status, 404);

    let folder = gateway.folder().to_owned();
    gateway.weir.terminate();
    let again = Gateway::start_in(&folder, &[]);
    assert_eq!(send(&again, "", "GET", "/v1/keys", &Value::Null).status, 401, "keys are kept");
    assert_eq!(send(&again, &tenant, "POST", "/v1/search", &json!({"query": "dam"})).status, 200);
    assert_eq!(send(&again, &admin, "DELETE", &format!("/v1/keys/{id}"), &Value::Null).status, 200);
    assert_eq!(send(&again, &tenant, "POST", "/v1/search", &json!({"query": "dam"})).status, 401, "at once");
    let keys = send(&again, &admin, "GET", "/v1/keys", &Value::Null);
    assert_eq!(keys.json()["data"].as_array().unwrap().len(), 2);
    assert!(!keys.text.contains(&tenant[13..]), "{}", keys.text);
    let audit = send(&again, &admin, "GET", "/v1/audit?limit=2", &Value::Null).json();
    assert_eq!(
        (&audit["data"][0]["action"], &audit["data"][1]["action"]),
        (&json!("key.revoke"), &json!("key.create"))
    );
    assert_eq!(audit["data"][0]["subject"], id.to_string());
    let older = send(
        &again,
        &admin,
        "GET",
        &format!("/v1/audit?cursor={}", audit["next_cursor"].as_str().unwrap()),
        &Value::Null,
    );
    assert_eq!(older.json()["data"].as_array().unwrap().len(), 1, "the first key: {}", older.text);
}

#[test]
fn requests_about_keys_are_checked() {
    let gateway = Gateway::start();
    for (body, code) in [
        (json!({}), "invalid_parameter"),
        (json!({"name": ""}), "invalid_parameter"),
        (json!({"name": "a", "scopes": ["root"]}), "invalid_parameter"),
        (json!({"name": "a", "filter": {"a": {"near": 1}}}), "invalid_filter"),
        (json!({"name": "a", "expires_at": 1}), "invalid_parameter"),
        (json!({"name": "a", "expiry": 1}), "unknown_field"),
    ] {
        let reply = send(&gateway, "", "POST", "/v1/keys", &body);
        assert_eq!((reply.status, &reply.json()["code"]), (400, &json!(code)), "{body}: {}", reply.text);
    }
    for path in ["/v1/keys/9", "/v1/keys/x"] {
        assert_eq!(send(&gateway, "", "DELETE", path, &Value::Null).status, 404, "{path}");
    }
    let (key, id) = create(&gateway, "", &json!({"name": "a", "scopes": ["admin"]}));
    let with_body = json!({"grace_seconds": 60});
    let reply = send(&gateway, &key, "POST", &format!("/v1/keys/{id}/rotate"), &with_body);
    assert!(reply.status == 400 && reply.text.contains("?grace_seconds=60"), "{}", reply.text);
    for query in ["grace_seconds=-1", "grace_seconds=1e9", "grace=1"] {
        let reply = send(&gateway, &key, "POST", &format!("/v1/keys/{id}/rotate?{query}"), &Value::Null);
        assert_eq!(reply.status, 400, "{query}: {}", reply.text);
    }
}

#[test]
fn a_restricted_administrator_gives_no_more_than_its_own() {
    let gateway = Gateway::start();
    let (root, _) = create(&gateway, "", &json!({"name": "root", "scopes": ["admin"]}));
    let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() + 3600.0;
    let limits = json!({"budget_per_day": 0, "requests_per_minute": 100});
    let own = json!({"name": "admin 7", "scopes": ["admin", "search"], "filter": {"tenant": 7}, "expires_at": end, "limits": limits});
    let (admin, id) = create(&gateway, &root, &own);
    let refused = |method: &str, path: &str, body: Value| {
        let reply = send(&gateway, &admin, method, path, &body);
        assert_eq!((reply.status, &reply.json()["code"]), (403, &json!("insufficient_scope")), "{body}");
        reply.text
    };
    let own_path = format!("/v1/keys/{id}");
    for (changes, remedy) in [
        (json!({"expires_at": null}), "`expires_at` of at most"),
        (json!({"expires_at": end + 1.0}), "`expires_at` of at most"),
        (json!({"limits": null}), "`limits.requests_per_minute` of at most 100"),
        (json!({"limits": {"requests_per_minute": 101}}), "`limits.requests_per_minute` of at most 100"),
        (json!({"limits": {"budget_per_day": 0.01}}), "`limits.budget_per_day` of at most 0"),
    ] {
        assert!(refused("PATCH", &own_path, changes.clone()).contains(remedy), "{changes}");
    }
    assert!(refused("POST", "/v1/keys", json!({"name": "kid"})).contains("`expires_at`"));
    let within = json!({"name": "kid", "expires_at": end, "limits": limits});
    let (_, kid) = create(&gateway, &admin, &within);
    let listed = send(&gateway, &admin, "GET", "/v1/keys", &Value::Null).json();
    let ids: Vec<i64> =
        listed["data"].as_array().unwrap().iter().map(|key| key["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, [id, kid]);
    assert_eq!(send(&gateway, &root, "PATCH", &own_path, &json!({"expires_at": null})).status, 200);
}

#[test]
fn a_key_uses_no_more_than_its_limits_and_is_told_what_is_left() {
    let gateway = Gateway::start();
    let (admin, _) = create(&gateway, "", &json!({"name": "admin", "scopes": ["admin"]}));
    let limits = json!({"requests_per_minute": 3, "tokens_per_minute": 10});
    let (key, id) = create(&gateway, &admin, &json!({"name": "app", "limits": limits}));
    let embed = |words: &str| {
        send(&gateway, &key, "POST", "/v1/embeddings", &json!({"model": "pseudo", "input": words}))
    };
    let first = embed("a b c d");
    assert_eq!(first.status, 200, "{}", first.text);
    let told = |reply: &Reply, name: &str| reply.header(name).to_owned();
    assert_eq!(told(&first, "x-ratelimit-limit-requests"), "3");
    assert_eq!(told(&first, "x-ratelimit-remaining-requests"), "2");
    assert_eq!(told(&first, "x-ratelimit-remaining-tokens"), "6");
    assert_eq!(told(&first, "content-length"), first.text.len().to_string());
    assert_eq!(told(&first, "ratelimit-policy"), "\"requests\";q=3;w=60, \"tokens\";q=10;w=60");
    let tokens = embed("a b c d e f g h");
    assert_eq!((tokens.status, &tokens.json()["error"]["code"]), (429, &json!("rate_limit_exceeded")));
    assert!((1..=60).contains(&told(&tokens, "retry-after").parse::<u64>().unwrap()), "{}", tokens.text);
    assert_eq!(told(&tokens, "x-should-retry"), "");
    let never = embed("a b c d e f g h i j k");
    assert_eq!((never.status, never.header("retry-after")), (429, ""), "{}", never.text);
    assert_eq!(told(&never, "x-should-retry"), "false", "a client of OpenAI repeats it otherwise");
    assert!(never.text.contains("send less in one"), "{}", never.text);
    let requests = send(&gateway, &key, "POST", "/v1/search", &json!({"query": "a"}));
    assert_eq!((requests.status, &requests.json()["code"]), (429, &json!("rate_limit_exceeded")));
    assert_eq!(told(&requests, "x-ratelimit-remaining-requests"), "0");
    assert_eq!(
        send(&gateway, &admin, "GET", "/v1/keys", &Value::Null).header("x-ratelimit-limit-requests"),
        ""
    );
    // rotating the key gives nothing back
    let reply =
        send(&gateway, &admin, "POST", &format!("/v1/keys/{id}/rotate?grace_seconds=60"), &Value::Null);
    assert_eq!(reply.json()["limits"]["requests_per_minute"], 3);
    assert_eq!(embed("a").status, 429);
    // another limit holds at once, and for the same text
    let change = json!({"limits": {"requests_per_minute": 100}});
    let reply = send(&gateway, &admin, "PATCH", &format!("/v1/keys/{id}"), &change);
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json()["limits"]["tokens_per_minute"], 10, "what is left out stays");
    let after = embed("a");
    assert_eq!(after.status, 200, "{}", after.text);
    assert_eq!(told(&after, "x-ratelimit-remaining-requests"), "99");
    for (change, status) in [
        (json!({"limit": 1}), 400),
        (json!({"limits": {"requests_per_minute": 0}}), 400),
        (json!({"filter": {"a": {"near": 1}}}), 400),
        (json!([]), 400),
    ] {
        let reply = send(&gateway, &admin, "PATCH", &format!("/v1/keys/{id}"), &change);
        assert_eq!(reply.status, status, "{change}: {}", reply.text);
    }
    assert_eq!(send(&gateway, &admin, "PATCH", "/v1/keys/99", &json!({})).status, 404);
    for limits in [json!({"requests_per_minute": 0}), json!({"tokens": 1})] {
        let body = json!({"name": "wrong", "limits": limits});
        assert_eq!(send(&gateway, &admin, "POST", "/v1/keys", &body).status, 400, "{body}");
    }
}

#[test]
fn a_key_runs_no_more_requests_at_one_time_than_its_limit() {
    let gateway = Gateway::start();
    let limits = json!({"concurrent_requests": 1});
    let (key, _) = create(&gateway, "", &json!({"name": "app", "limits": limits}));
    let embed = || send(&gateway, &key, "POST", "/v1/embeddings", &json!({"model": "pseudo", "input": "a"}));
    assert_eq!(embed().status, 200);
    let mut running = gateway.connect();
    let head = format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n"
    );
    running.write_all(head.as_bytes()).unwrap();
    // the gateway asks for the body when it has admitted the request
    let mut asked = [0; 25];
    running.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    let refused = embed();
    assert_eq!(refused.status, 429);
    assert!(refused.text.contains("limited to 1 requests at one time"), "{}", refused.text);
    assert_eq!(refused.header("retry-after"), "1");
    drop(running);
    gateway.wait("the end of the request that was running", || embed().status == 200);
}
