//! What an upstream is asked, and what callers get of it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::scripted::{Answer, Upstream, assert_near, scaled};
use super::{embed, embeddings, gateway, metric};
use crate::support::gateway::Gateway;

#[test]
fn a_request_is_cut_to_what_an_openai_upstream_takes_and_put_together_in_order() {
    let upstream = Upstream::start(|_, _| Answer::Late(Duration::from_millis(100)));
    let more =
        "dimension = 4\ntexts_per_request_max = 3\nconcurrent_requests_max = 2\napi_key = \"env:TEST_KEY\"";
    let (gateway, _file) = gateway("openai", &upstream.url, more, &[("TEST_KEY", "sk-1")]);
    let texts: Vec<String> = (0..10).map(|n| "aeo".repeat(n) + "a").collect();
    let made = embeddings(&embed(&gateway, json!(texts)));
    for (text, embedding) in texts.iter().zip(&made) {
        assert_near(embedding, &scaled(text));
    }
    let mut sizes: Vec<usize> = upstream.asked().iter().map(|asked| asked.texts().len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 3, 3, 3]);
    assert_eq!(upstream.running_most(), 2, "in parallel, and no more than are allowed");
    for asked in upstream.asked() {
        assert_eq!(asked.path, "/embeddings");
        assert_eq!(asked.headers["authorization"], "Bearer sk-1");
        assert_eq!(
            (&asked.body["model"], &asked.body["encoding_format"]),
            (&json!("upstream-model"), &json!("base64"))
        );
    }
    assert_eq!(metric(&gateway, "weir_embed_queue_depth{lane=\"interactive\"}"), 0.0);
    assert_eq!(metric(&gateway, "weir_embed_queue_wait_seconds_count{lane=\"interactive\"}"), 4.0);
    assert_eq!(metric(&gateway, "weir_embed_batch_size_sum"), 10.0);
    for n in 0..8 {
        embeddings(&embed(&gateway, json!(format!("alone {n}"))));
    }
    // A request may open a second connection while the one before it returns to the pool.
    assert!(upstream.connections() <= 4, "{} connections for 12 requests", upstream.connections());
}

#[test]
fn tei_is_asked_in_its_own_way_and_told_how_to_cut() {
    let upstream = Upstream::willing();
    let (gateway, _file) = gateway("tei", &upstream.url, "dimension = 4\nbytes_per_request_max = 5", &[]);
    let made = embeddings(&embed(&gateway, json!(["aaa", "ee", "o"])));
    assert_near(&made[1], &scaled("ee"));
    let body = json!({"inputs": "late", "truncate": false}).to_string();
    assert_eq!(gateway.send("POST", "/embed", Some(body.as_bytes())).status, 200);
    let mut asked = upstream.asked();
    let last = asked.pop().unwrap();
    assert_eq!((last.body["truncate"].clone(), last.path.as_str()), (json!(false), "/embed"));
    let mut texts: Vec<Vec<String>> = asked.iter().map(|asked| asked.texts()).collect();
    texts.sort();
    assert_eq!(texts, [vec!["aaa", "ee"], vec!["o"]]);
    let expected = json!({
        "inputs": asked[0].texts(), "normalize": true, "truncate": true, "truncation_direction": "Right",
    });
    assert_eq!(asked[0].body, expected);
}

#[test]
fn embeddings_are_scaled_cut_and_kept_as_those_of_other_models() {
    let upstream = Upstream::willing();
    let (gateway, _file) = gateway("tei", &upstream.url, "dimension = 4\ndimensions = [2]", &[]);
    let first = embeddings(&embed(&gateway, json!("aaaee")));
    assert_near(&first[0], &scaled("aaaee"));
    assert_eq!(embeddings(&embed(&gateway, json!("aaaee"))), first);
    assert_eq!(upstream.asked().len(), 1, "the second came from the cache");
    let body = json!({"model": "m", "input": "aaaeeee", "dimensions": 2}).to_string();
    let cut = gateway.send("POST", "/v1/embeddings", Some(body.as_bytes()));
    assert_near(&embeddings(&cut)[0], &[0.6, 0.8]);
    let body = json!({"model": "m", "input": "a", "dimensions": 3}).to_string();
    assert_eq!(gateway.send("POST", "/v1/embeddings", Some(body.as_bytes())).status, 400);
}

#[test]
fn without_normalize_embeddings_stay_as_they_come() {
    let upstream = Upstream::willing();
    let (gateway, _file) = gateway("openai", &upstream.url, "normalize = false", &[]);
    assert_eq!(embeddings(&embed(&gateway, json!("aaee"))), [[2.0, 2.0, 0.0, 1.0]]);
}

/// Sends a request for an embedding of `text` without waiting for the reply.
fn send_embed(gateway: &Gateway, text: &str) -> TcpStream {
    let body = json!({"model": "m", "input": text}).to_string();
    let mut caller = gateway.connect();
    let head = format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    caller.write_all((head + &body).as_bytes()).unwrap();
    caller
}

#[test]
fn a_caller_who_left_is_not_sent() {
    let upstream = Upstream::start(|_, asked| match asked.texts()[0].as_str() {
        "slow" => Answer::Late(Duration::from_millis(800)),
        _ => Answer::Embeddings,
    });
    let (gateway, _file) = gateway("tei", &upstream.url, "dimension = 4\nconcurrent_requests_max = 1", &[]);
    std::thread::scope(|scope| {
        scope.spawn(|| embed(&gateway, json!("slow")));
        gateway.wait("the slow request", || upstream.asked().len() == 1);
        let caller = send_embed(&gateway, "left");
        gateway.wait("the caller in the queue", || {
            metric(&gateway, "weir_embed_queue_depth{lane=\"interactive\"}") == 1.0
        });
        drop(caller);
    });
    assert_eq!(embed(&gateway, json!("after")).status, 200);
    let texts: Vec<String> = upstream.asked().iter().flat_map(|asked| asked.texts()).collect();
    assert_eq!(texts, ["slow", "after"]);
}

#[test]
fn a_request_in_flight_is_cancelled_when_its_caller_disconnects() {
    let upstream = Upstream::start(|_, asked| match asked.texts()[0].as_str() {
        "slow" => Answer::Late(Duration::from_secs(60)),
        _ => Answer::Embeddings,
    });
    let more = "dimension = 4\nconcurrent_requests_max = 1\ntimeout_ms = 60000";
    let (gateway, _file) =
        gateway("tei", &upstream.url, more, &[("WEIR_SERVER_REQUEST_DEADLINE_MS", "60000")]);
    let caller = send_embed(&gateway, "slow");
    gateway.wait("the slow request", || upstream.asked().len() == 1);
    drop(caller);
    let started = Instant::now();
    assert_eq!(embed(&gateway, json!("after")).status, 200);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "the only permit was free after {:?}",
        started.elapsed()
    );
}

/// A proxy that makes tunnels to `upstream` and counts them.
fn start_proxy(upstream: &Upstream) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let target = upstream.url.strip_prefix("http://").unwrap().to_owned();
    let tunnels = Arc::new(AtomicUsize::new(0));
    let counted = tunnels.clone();
    std::thread::spawn(move || {
        for mut from in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut head = [0; 1024];
            let length = from.read(&mut head).unwrap();
            assert!(head[..length].starts_with(b"CONNECT upstream.test:80 "), "{}", head.escape_ascii());
            from.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
            let to = TcpStream::connect(&target).unwrap();
            for (mut from, mut to) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
    (url, tunnels)
}

#[test]
fn the_proxy_of_the_environment_is_used_but_for_loopback() {
    let upstream = Upstream::willing();
    let (proxy, tunnels) = start_proxy(&upstream);
    for (url, expected) in [(upstream.url.as_str(), 0), ("http://upstream.test", 1)] {
        let (gateway, _file) = gateway("tei", url, "dimension = 4", &[("HTTP_PROXY", &proxy)]);
        assert_near(&embeddings(&embed(&gateway, json!("ae")))[0], &scaled("ae"));
        assert_eq!(tunnels.load(Ordering::Relaxed), expected, "{url}");
    }
}

#[test]
fn what_would_come_after_the_deadline_is_not_waited_for() {
    let upstream = Upstream::start(|_, _| Answer::Late(Duration::from_secs(5)));
    let variables = [("WEIR_SERVER_REQUEST_DEADLINE_MS", "400")];
    let (gateway, _file) = gateway("tei", &upstream.url, "dimension = 4", &variables);
    let started = Instant::now();
    let reply = embed(&gateway, json!("a"));
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (504, &json!("upstream_timeout")),
        "{}",
        reply.text
    );
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}
