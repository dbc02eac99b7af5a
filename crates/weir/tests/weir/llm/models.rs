//! `GET /v1/models`: the routes, and the models that upstreams list behind routes with `*`.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::setup::{Mock, Proxy, upstream};

fn route(model: &str, upstream: &str) -> String {
    format!("[[routes]]\nmodel = \"{model}\"\ntargets = [{{ upstream = \"{upstream}\" }}]\n")
}

fn ids(list: &Value) -> Vec<&str> {
    list["data"]
        .as_array()
        .unwrap_or_else(|| panic!("{list}"))
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect()
}

fn get(proxy: &Proxy, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let reply = proxy.client.try_send("GET", path, headers, None).unwrap();
    (reply.status, reply.json())
}

/// Names of models of the mock, of which not all chat.
const NAMES: [&str; 8] =
    ["--model", "gpt-b", "--model", "gpt-a", "--model", "other", "--model", "gpt-embedding"];

#[test]
fn models_of_upstreams_are_listed_once_asked_with_their_key_and_for_the_key_of_the_caller() {
    let mock = Mock::start(&NAMES);
    let routes = [route("assistant", "mock"), route("gpt-*", "mock"), route("*", "mock")].concat();
    let fixed = "[[routes]]\nmodel = \"fixed-*\"\ntargets = [{ upstream = \"mock\", model = \"gpt-a\" }]\n";
    let proxy = Proxy::start(&format!("{}{routes}{fixed}", upstream("mock", &mock, "")));
    let all = ["assistant", "gpt-a", "gpt-b", "other"];
    for _ in 0..3 {
        assert_eq!(ids(&get(&proxy, "/v1/models?capability=chat", &[]).1), all);
    }
    let last = mock.last();
    assert_eq!((&last["method"], &last["path"]), (&json!("GET"), &json!("/v1/models")));
    assert_eq!(mock.last_header("authorization"), Some("Bearer sk-provider-key-of-the-gateway".to_owned()));
    let last = mock.client_requests();
    assert_eq!(last, 1, "the list is asked for once");
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin", "chat"]}));
    let key = proxy.key(&admin, &json!({"name": "app", "scopes": ["chat"], "models": ["gpt-*"]}));
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(ids(&get(&proxy, "/v1/models", &headers).1), ["gpt-a", "gpt-b"]);
    assert_eq!(get(&proxy, "/v1/models/other", &headers).0, 404);
    let anthropic = [headers[0], ("anthropic-version", "2023-06-01")];
    let (status, model) = get(&proxy, "/v1/models/gpt-a", &anthropic);
    assert_eq!(
        (status, model["type"].as_str(), model["display_name"].as_str()),
        (200, Some("model"), Some("gpt-a"))
    );
    let (status, error) = get(&proxy, "/v1/models/other", &anthropic);
    assert_eq!((status, error["error"]["type"].as_str()), (404, Some("not_found_error")), "{error}");
    let only_embeds = proxy.key(&admin, &json!({"name": "embeds", "scopes": ["embed"]}));
    let bearer = format!("Bearer {only_embeds}");
    assert_eq!(ids(&get(&proxy, "/v1/models?capability=chat", &[("authorization", &bearer)]).1), [""; 0]);
}

#[test]
fn capabilities_are_marked_and_left_out() {
    let mock = Mock::start(&NAMES);
    let tables = format!(
        "{}{}[[models]]\nid = \"embeds\"\nkind = \"pseudo\"\n",
        upstream("mock", &mock, ""),
        route("assistant", "mock")
    );
    let proxy = Proxy::start(&tables);
    // as Open WebUI asks, with its page's origin
    let page = [
        ("origin", "http://127.0.0.1:3000"),
        ("authorization", "Bearer unused"),
        ("accept", "application/json"),
    ];
    let (status, list) = get(&proxy, "/v1/models", &page);
    assert_eq!(status, 200, "{list}");
    let capability = |id: &str| {
        let models = list["data"].as_array().unwrap();
        models.iter().find(|model| model["id"] == id).map(|model| model["capabilities"].clone())
    };
    assert_eq!(
        (capability("embeds"), capability("assistant")),
        (Some(json!(["embeddings"])), Some(json!(["chat"])))
    );
    let of = |capability: &str| get(&proxy, &format!("/v1/models?capability={capability}"), &[]);
    assert_eq!(ids(&of("chat").1), ["assistant"]);
    assert!(ids(&of("embeddings").1).contains(&"embeds") && !ids(&of("embeddings").1).contains(&"assistant"));
    assert_eq!(ids(&of("rerank").1), [""; 0]);
    let (status, error) = of("chats");
    assert_eq!(status, 400);
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("`chat`, `embeddings`, `rerank`, `classify`"), "{message}");
}

#[test]
fn clients_of_anthropic_get_pages_of_its_shape() {
    let mock = Mock::start(&[]);
    let routes: String = ["a", "b", "c", "d", "e"].map(|name| route(name, "mock")).concat();
    let proxy = Proxy::start(&format!("{}{routes}", upstream("mock", &mock, "")));
    let page =
        |query: &str| get(&proxy, &format!("/v1/models{query}"), &[("anthropic-version", "2023-06-01")]);
    let check = |query: &str, expected: &[&str], has_more: bool| {
        let (status, list) = page(query);
        assert_eq!((status, ids(&list)), (200, expected.to_vec()), "{query}: {list}");
        assert_eq!(list["has_more"], has_more, "{query}");
        assert_eq!(list["first_id"].as_str(), expected.first().copied(), "{query}");
        assert_eq!(list["last_id"].as_str(), expected.last().copied(), "{query}");
    };
    check("", &["a", "b", "c", "d", "e"], false);
    check("?limit=2", &["a", "b"], true);
    check("?limit=2&after_id=b", &["c", "d"], true);
    check("?limit=2&after_id=d", &["e"], false);
    check("?limit=2&before_id=d", &["b", "c"], true);
    check("?limit=2&before_id=b", &["a"], false);
    check("?after_id=e", &[], false);
    let (_, list) = page("?limit=1");
    assert_eq!(
        list["data"][0],
        json!({"type": "model", "id": "a", "display_name": "a", "created_at": "1970-01-01T00:00:00Z"})
    );
    for query in ["?limit=0", "?limit=1001", "?after_id=x", "?after_id=a&before_id=b", "?capability=x"] {
        let (status, error) = page(query);
        assert_eq!(
            (status, error["error"]["type"].as_str()),
            (400, Some("invalid_request_error")),
            "{query}: {error}"
        );
    }
}

#[test]
fn an_upstream_that_does_not_answer_delays_one_list_by_a_second_at_most() {
    let mock = Mock::start(&NAMES);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!(
        "[[upstreams]]\nid = \"dead\"\nprovider = \"openai\"\nurl = \"http://{}/v1\"\n",
        silent.local_addr().unwrap()
    );
    let routes = [route("gpt-*", "mock"), route("dead-*", "dead")].concat();
    let proxy = Proxy::start(&format!("{}{dead}{routes}", upstream("mock", &mock, "")));
    let timed = || {
        let started = Instant::now();
        let list = get(&proxy, "/v1/models?capability=chat", &[]).1;
        assert_eq!(ids(&list), ["gpt-a", "gpt-b"]);
        started.elapsed()
    };
    assert!(timed() < Duration::from_secs(5), "the upstream has 10 s to answer");
    let fastest = (0..5).map(|_| timed()).min();
    assert!(fastest < Some(Duration::from_millis(500)), "later lists wait again: {fastest:?}");
}
