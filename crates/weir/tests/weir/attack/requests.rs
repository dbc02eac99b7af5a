//! Requests that cost much: queries, batches, feedback that shifts the results of others.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{held, rounds};
use crate::support::client::{Client, Reply};
use crate::support::gateway::{Gateway, in_repository};

/// An answer within this time is "at once", on a busy machine too.
const AT_ONCE: Duration = Duration::from_secs(8);

fn post(client: &Client, path: &str, body: &Value) -> Reply {
    client.send("POST", path, Some(body.to_string().as_bytes()))
}

/// A word for each number, of 1,040; every letter begins 40, so that a prefix stands for all that begin by it.
fn word(number: usize) -> String {
    let letters = [number % 26, number / 26 % 8, number / 208 % 5];
    letters.iter().map(|letter| char::from(b'a' + *letter as u8)).collect::<String>() + "xq"
}

#[test]
fn a_query_of_26_prefixes_takes_little_time_and_its_reply_is_small() {
    let gateway = Gateway::start_with(&[("WEIR_CHUNKING_MAX_TOKENS", "256")]);
    let count = rounds(600, 4_000);
    let document = |number: usize| {
        let words: Vec<String> = (0..120).map(|place| word(number * 37 + place * 211)).collect();
        json!({"id": number.to_string(), "text": words.join(" ")})
    };
    gateway.ingest(&(0..count).map(document).collect::<Vec<_>>());
    let prefixes: Vec<String> = (b'a'..=b'z').map(|letter| format!("{}*", char::from(letter))).collect();
    let wildcards: Vec<String> = (b'a'..=b'z').map(|letter| format!("{}*q", char::from(letter))).collect();
    let (mut slowest, mut largest) = (Duration::ZERO, 0);
    for query in [prefixes.join(" "), wildcards.join(" "), [&prefixes[..], &wildcards].concat().join(" OR ")]
    {
        let search = json!({"query": query, "mode": "lexical", "top_k": 1000, "explain": true});
        let started = Instant::now();
        let reply = post(&gateway, "/v1/search", &search);
        slowest = slowest.max(started.elapsed());
        assert_eq!(reply.status, 200, "{}", reply.text);
        let terms = |one: &Value| one["explanation"]["terms"].as_array().map_or(0, Vec::len);
        // a word that begins by each letter and ends by `q` may be in no document
        let most = reply.json()["results"].as_array().unwrap().iter().map(terms).max();
        assert!(most.is_some() || !query.starts_with("a* "), "{}", reply.text);
        assert!(most.is_none_or(|most| (1..=32).contains(&most)), "{most:?} terms are explained");
        largest = largest.max(reply.bytes.len());
    }
    assert!(slowest < AT_ONCE, "{slowest:?}");
    assert!(largest < 8 << 20, "{largest} bytes");
    held("26 prefixes and 26 wildcards", &format!("{slowest:.0?} and {} KB", largest >> 10));
}

#[test]
fn a_reply_beyond_its_limit_is_refused_and_so_is_a_batch() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_SEARCH_REPLY_BYTES_MAX", "100000")]);
    let document =
        |number: usize| json!({"id": number.to_string(), "text": format!("dam {}", "stone ".repeat(8))});
    gateway.ingest(&(0..300).map(document).collect::<Vec<_>>());
    let search = |top_k: u64| json!({"query": "dam", "mode": "lexical", "top_k": top_k, "explain": true});
    assert_eq!(post(&gateway, "/v1/search", &search(20)).status, 200);
    let refused = post(&gateway, "/v1/search", &search(300));
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (400, &json!("invalid_parameter")),
        "{}",
        refused.text
    );
    assert!(refused.text.contains("`limits.search_reply_bytes_max`, which is 100000"), "{}", refused.text);
    let batch = post(&gateway, "/v1/search", &json!({"queries": vec![search(60); 20]}));
    assert_eq!(batch.status, 200, "{}", batch.text);
    let replies = batch.json()["replies"].as_array().unwrap().clone();
    let refused = replies.iter().filter(|one| one["code"] == "invalid_parameter").count();
    assert!((1..20).contains(&refused), "{refused} of 20 are refused");
    assert!(batch.bytes.len() < 200_000, "{} bytes", batch.bytes.len());
    held("replies beyond their limit", &format!("refused, and {refused} of 20 in a batch"));
}

#[test]
fn embeddings_of_2048_long_texts_are_answered_or_refused_at_once() {
    let model = in_repository("models/all-MiniLM-L6-v2");
    // a sixth of what they take on two cores: with about as much as they take, other work beside the test would decide
    let deadline = "5000";
    let gateway = Gateway::start_with(&[
        ("WEIR_MODEL", model.to_str().unwrap()),
        ("WEIR_SERVER_REQUEST_DEADLINE_MS", deadline),
    ]);
    let mut seen = Vec::new();
    for round in 0..rounds(1, 3) {
        let texts: Vec<String> =
            (0..2_048).map(|n| format!("{round} {n} {}", "river ".repeat(510))).collect();
        let started = Instant::now();
        let reply = post(&gateway, "/v1/embeddings", &json!({"model": "all-MiniLM-L6-v2", "input": texts}));
        let took = started.elapsed();
        match reply.status {
            200 => {}
            400 | 503 => assert!(took < AT_ONCE, "refused after {took:?}: {}", reply.text),
            other => panic!("{other} after {took:?}: {}", reply.text),
        }
        seen.push(format!("{} after {took:.1?}", reply.status));
    }
    held("2,048 texts of 512 tokens", &seen.join(", "));
}

const DOCUMENTS: usize = 40;

fn query(number: usize) -> String {
    format!("dam number{number}")
}

fn with_documents(variables: &[(&str, &str)]) -> Gateway {
    let gateway = Gateway::start_with(variables);
    let document = |number: usize| json!({"id": number.to_string(), "text": format!("a low dam number{number} of stone")});
    gateway.ingest(&(0..DOCUMENTS).map(document).collect::<Vec<_>>());
    gateway
}

/// A caller with an API key, or without.
struct Caller<'a> {
    gateway: &'a Gateway,
    key: Option<String>,
}

impl Caller<'_> {
    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let authorization = self.key.as_ref().map(|key| format!("Bearer {key}"));
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(authorization.as_ref().map(|value| ("authorization", value.as_str())));
        let body = body.map(Value::to_string);
        let reply =
            self.gateway.try_send(method, path, &headers, body.as_ref().map(String::as_bytes)).unwrap();
        assert!(reply.status < 300, "{method} {path}: {} {}", reply.status, reply.text);
        reply
    }

    /// Says of as many hits that they answer nothing.
    fn complain(&self, count: usize) {
        for number in 0..count {
            let (query, document) = (query(number % DOCUMENTS), (number % DOCUMENTS).to_string());
            let said = json!({"query": query, "document_id": document, "relevant": false});
            self.send("POST", "/v1/feedback", Some(&said));
        }
    }

    /// The relevance of a hit. By chunks, from which the collection doesn't learn.
    fn relevance(&self) -> f64 {
        let search = json!({"query": query(0), "group_by": "chunk"});
        self.send("POST", "/v1/search", Some(&search)).json()["results"][0]["relevance"].as_f64().unwrap()
    }

    fn metric(&self, name: &str) -> f64 {
        let text = self.send("GET", "/metrics", None).text;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing")).parse().unwrap()
    }

    /// Waits until as many judgments are processed as were ever given.
    fn wait_until_processed(&self, judgments: usize) {
        let processed = || self.metric("weir_feedback_judgments_total{result=\"hit\"}") as usize;
        self.gateway.wait("the judgments", || processed() >= judgments);
    }
}

#[test]
fn votes_of_one_client_move_relevance_by_5_percent_at_most_and_are_taken_back() {
    let gateway = with_documents(&[]);
    let client = Caller { gateway: &gateway, key: None };
    let before = client.relevance();
    let votes = rounds(30, 400);
    client.complain(votes);
    client.wait_until_processed(votes.min(DOCUMENTS));
    gateway.wait("the votes", || client.metric("weir_feedback_votes{collection=\"default\"}") >= 30.0);
    let after = client.relevance();
    assert!(after < before && before - after < 0.0501, "{after} after {before}");
    assert!((client.metric("weir_relevance_shift{collection=\"default\"}") + 0.05).abs() < 0.001);
    let explained = client.send("POST", "/v1/search", Some(&json!({"query": "dam", "explain": true}))).json();
    let learned = &explained["explain"]["learned"];
    assert_eq!(learned["callers"], 0, "{learned}");
    assert!(learned["votes"].as_u64().unwrap() >= 30, "{learned}");
    let deleted = client.send("DELETE", "/v1/feedback?collection=default", None).json();
    assert_eq!(deleted, json!({"deleted": votes, "reset": true}));
    gateway.wait("the old relevance", || (client.relevance() - before).abs() < 1e-6);
    held("votes of one client", &format!("{votes} move {before:.3} to {after:.3}, and are taken back"));
}

#[test]
fn a_key_alone_moves_nothing_and_deletes_its_own_votes_only() {
    let gateway = with_documents(&[]);
    let operator = Caller { gateway: &gateway, key: None };
    let new_key = |maker: &Caller, scopes: Value| {
        let made = maker.send("POST", "/v1/keys", Some(&json!({"name": "k", "scopes": scopes}))).json();
        let text = made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        (made["id"].as_i64().unwrap_or_else(|| panic!("{made}")), text)
    };
    let (_, admin) = new_key(&operator, json!(["search", "ingest", "admin"]));
    let admin = Caller { gateway: &gateway, key: Some(admin) };
    let callers: Vec<(i64, Caller)> = (0..2)
        .map(|_| new_key(&admin, json!(["search"])))
        .map(|(id, text)| (id, Caller { gateway: &gateway, key: Some(text) }))
        .collect();
    let [(first_id, first), (_, second)] = callers.as_slice() else { unreachable!() };
    let before = second.relevance();
    first.complain(30);
    admin.wait_until_processed(30);
    gateway.wait("the votes", || admin.metric("weir_feedback_votes{collection=\"default\"}") == 30.0);
    assert_eq!(second.relevance(), before, "nobody agrees");
    second.complain(30);
    admin.wait_until_processed(60);
    gateway.wait("agreement", || second.relevance() < before);
    let agreed = second.relevance();
    assert!(before - agreed < 0.0501, "{agreed} after {before}");
    let listed = first.send("GET", &format!("/v1/feedback?key={first_id}&limit=100"), None).json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 30);
    let deleted = first.send("DELETE", "/v1/feedback?collection=default", None).json();
    assert_eq!(deleted, json!({"deleted": 30, "reset": false}), "its own alone");
    gateway.wait("the old relevance", || second.relevance() == before);
    held("votes of a key", &format!("alone nothing, two that agree {:.3}", agreed - before));
}

#[test]
fn a_repeated_query_teaches_once() {
    let gateway = with_documents(&[]);
    let client = Caller { gateway: &gateway, key: None };
    let search =
        |number: usize| drop(client.send("POST", "/v1/search", Some(&json!({"query": query(number)}))));
    search(1);
    let once = client.relevance();
    let count = rounds(50, 2_000);
    (0..count).for_each(|_| search(1));
    assert_eq!(client.relevance(), once);
    search(2);
    assert_ne!(client.relevance(), once);
    held("a repeated query", &format!("{count} searches teach as much as one"));
}
