//! A disk that takes no more: budgets are not spent without a record, and a key that leaked is refused at once.
//!
//! The system is asked to refuse every write to a file of the running gateway, and to allow them again.

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::setup::{Mock, Proxy, ask, upstream};
use crate::support::client::Reply;

/// What a request costs.
const PRICE: f64 = 0.01;

/// Requests that may be answered before the first write has failed.
const UNNOTICED_MAX: usize = 30;

fn set_disk_full(proxy: &Proxy, is_full: bool) {
    let pid = Pid::from_raw(proxy.weir.id().cast_signed());
    let limit = Rlimit { current: if is_full { Some(0) } else { None }, maximum: None };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

fn chat(proxy: &Proxy, key: &str) -> Reply {
    let mut body = ask("m");
    body["max_tokens"] = 10.into();
    proxy.chat(&body, &[("authorization", &format!("Bearer {key}"))]).unwrap()
}

fn send(proxy: &Proxy, method: &str, path: &str, key: &str) -> Reply {
    proxy.client.try_send(method, path, &[("authorization", &format!("Bearer {key}"))], None).unwrap()
}

fn listed(proxy: &Proxy, admin: &str, name: &str) -> Value {
    let all = send(proxy, "GET", "/v1/keys", admin).json();
    all["data"].as_array().unwrap().iter().find(|key| key["name"] == name).cloned().unwrap()
}

fn spent(proxy: &Proxy, admin: &str) -> f64 {
    listed(proxy, admin, "budget")["spent"]["day"].as_f64().unwrap()
}

/// Sends requests until one is refused; how many were answered.
fn answered_until_refused(proxy: &Proxy, key: &str) -> (usize, Reply) {
    for answered in 0..=UNNOTICED_MAX {
        let reply = chat(proxy, key);
        if reply.status != 200 {
            return (answered, reply);
        }
    }
    panic!("more than {UNNOTICED_MAX} requests were charged without a record");
}

#[test]
fn requests_with_a_budget_are_refused_while_what_they_spend_cannot_be_stored() {
    let mock = Mock::start(&["--tokens", "10", "--latency-ms", "5"]);
    let price = "[[prices]]\nmodel = \"m\"\ninput = 0\noutput = 1000\n[[prices]]\nmodel = \"pseudo\"\ninput = 1000\noutput = 0\n";
    let mut proxy = Proxy::start(&format!("{}{price}", upstream("mock", &mock, "")));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let limits = json!({"budget_per_day": 100});
    let budget = proxy.key(&admin, &json!({"name": "budget", "scopes": ["chat", "embed"], "limits": limits}));
    let plain = proxy.key(&admin, &json!({"name": "plain", "scopes": ["chat"]}));
    assert_eq!((chat(&proxy, &budget).status, chat(&proxy, &plain).status), (200, 200));
    std::thread::sleep(std::time::Duration::from_secs(1));

    set_disk_full(&proxy, true);
    let (unnoticed, refused) = answered_until_refused(&proxy, &budget);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("store_unavailable")));
    assert!(refused.text.contains("what it spends can't be stored now"), "{}", refused.text);
    assert!(!refused.header("retry-after").is_empty());
    let embedding = json!({"model": "pseudo", "input": "a b c"});
    let bearer = format!("Bearer {budget}");
    let embedded = proxy.post("/v1/embeddings", &embedding, &[("authorization", &bearer)]).unwrap();
    assert_eq!(embedded.status, 503, "{}", embedded.text);
    for _ in 0..20 {
        assert_eq!(chat(&proxy, &budget).status, 503);
    }
    assert_eq!(chat(&proxy, &plain).status, 200, "without a budget there is nothing to forget");
    let ready = proxy.client.get("/readyz");
    assert_eq!(ready.0, 503);
    assert!(ready.1["failing"].to_string().contains("what keys spend can't be stored"), "{}", ready.1);
    let metrics = send(&proxy, "GET", "/metrics", &admin).text;
    let failures = metrics.lines().find_map(|line| line.strip_prefix("weir_ledger_write_failures_total "));
    assert!(failures.is_some_and(|count| count.parse::<f64>().unwrap() >= 1.0), "{failures:?}");

    set_disk_full(&proxy, false);
    proxy.client.wait("requests with a budget", || chat(&proxy, &budget).status == 200);
    assert_eq!(proxy.client.get("/readyz").0, 200);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let before = spent(&proxy, &admin);
    assert!((before - PRICE * (unnoticed + 2) as f64).abs() < 1e-9, "{before} for {unnoticed} and two");
    proxy.weir.kill();
    proxy.start_again();
    assert!((spent(&proxy, &admin) - before).abs() < 1e-9, "all of it is stored when it can be");

    // a kill while the disk is full forgets what was answered before that was noticed
    set_disk_full(&proxy, true);
    let (unnoticed, _) = answered_until_refused(&proxy, &budget);
    proxy.weir.kill();
    proxy.start_again();
    let lost = before + PRICE * unnoticed as f64 - spent(&proxy, &admin);
    assert!((-1e-9..=PRICE * UNNOTICED_MAX as f64).contains(&lost), "{lost}");
}

#[test]
fn a_revocation_is_in_force_at_once_and_stored_when_it_can_be() {
    let mock = Mock::start(&["--tokens", "1"]);
    let mut proxy = Proxy::start(&upstream("mock", &mock, ""));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let leaked = proxy.key(&admin, &json!({"name": "leaked", "scopes": ["chat"]}));
    let other = proxy.key(&admin, &json!({"name": "other", "scopes": ["chat"]}));
    let path = format!("/v1/keys/{}", listed(&proxy, &admin, "leaked")["id"]);
    assert_eq!(chat(&proxy, &leaked).status, 200);
    set_disk_full(&proxy, true);
    for _ in 0..2 {
        let revoked = send(&proxy, "DELETE", &path, &admin);
        assert!([503, 507].contains(&revoked.status), "{} {}", revoked.status, revoked.text);
        assert!(
            revoked.text.contains("refused from now on, but its revocation is not stored"),
            "{}",
            revoked.text
        );
        assert_eq!((chat(&proxy, &leaked).status, chat(&proxy, &other).status), (401, 200));
    }
    assert!(listed(&proxy, &admin, "leaked")["revoked_at"].is_number());
    let failing = proxy.client.get("/readyz").1["failing"].to_string();
    assert!(failing.contains("in force but not stored: 1;"), "{failing}");
    // what changes other keys, and reads all of them again, does not bring it back
    let created =
        proxy.post("/v1/keys", &json!({"name": "late"}), &[("authorization", &format!("Bearer {admin}"))]);
    assert_ne!(created.unwrap().status, 201);
    assert_eq!(chat(&proxy, &leaked).status, 401);

    set_disk_full(&proxy, false);
    proxy.key(&admin, &json!({"name": "later", "scopes": ["chat"]}));
    assert_eq!(chat(&proxy, &leaked).status, 401);
    proxy.client.wait("the revocation to be stored", || proxy.client.get("/readyz").0 == 200);
    assert_eq!(send(&proxy, "DELETE", &path, &admin).status, 404, "it is revoked");
    proxy.weir.kill();
    proxy.start_again();
    assert_eq!((chat(&proxy, &leaked).status, chat(&proxy, &other).status), (401, 200));
    let audit = send(&proxy, "GET", "/v1/audit", &admin).json();
    let actions: Vec<&str> =
        audit["data"].as_array().unwrap().iter().filter_map(|entry| entry["action"].as_str()).collect();
    let count = |action| actions.iter().filter(|one| **one == action).count();
    assert_eq!((count("key.create"), count("key.revoke")), (4, 1), "{actions:?}");
}
