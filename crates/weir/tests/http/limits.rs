//! Too much at once, and too slow: the caller hears when to come again, and the gateway goes on.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Gateway;
use crate::documented::check_error;
use crate::support::client::{Client, Reply};

/// Whatever shall happen here happens long before.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a raw connection answers, up to the end of the connection.
fn read_all(mut connection: TcpStream) -> String {
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn searches_beyond_the_concurrency_limit_are_told_to_come_again() {
    let gateway = Gateway::start_with(&[
        ("WEIR_LIMITS_SEARCH_CONCURRENCY_MAX", "1"),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "256"),
    ]);
    let words: Vec<String> = (0..2_000).map(|i| format!("w{i}")).collect();
    let documents: Vec<Value> = words.chunks(20).map(|some| json!({"text": some.join(" ")})).collect();
    gateway.ingest(&documents);
    // a search for every word takes so long that another one comes meanwhile
    let body = json!({"query": words.join(" "), "top_k": 100});
    let refused = gateway.first_refusal(8, "/v1/search", &body);
    let problem = check_error(&refused, "overloaded", "a search too many");
    assert!(problem["detail"].as_str().unwrap().contains("limits.search_concurrency_max"), "{problem}");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(gateway.search("w7", "lexical").len(), 1, "when the others are gone there is room");
}

#[test]
fn searches_that_would_wait_too_long_for_a_core_are_refused_unread() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_SEARCH_WAIT_MS_MAX", "1")]);
    let words: Vec<String> = (0..200).map(|i| format!("w{i}")).collect();
    let text = words.join(" ");
    let documents: Vec<Value> = (0..200).map(|i| json!({"id": format!("d{i}"), "text": text})).collect();
    gateway.ingest(&documents);
    let body = json!({"query": text, "mode": "lexical", "top_k": 100}).to_string();
    let unread = || gateway.send("POST", "/v1/search", Some(b"this is no JSON"));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (is_over, started) = (AtomicBool::new(false), Instant::now());
    let refused = std::thread::scope(|scope| {
        for _ in 0..8 * cores {
            scope.spawn(|| {
                let client = Client::new(&gateway.weir.url);
                while !is_over.load(Ordering::Relaxed) && started.elapsed() < PATIENCE {
                    client.send("POST", "/v1/search", Some(body.as_bytes()));
                }
            });
        }
        let is_it = |reply: &Reply| reply.status != 400 || started.elapsed() > PATIENCE;
        let refused = std::iter::repeat_with(unread).find(is_it);
        is_over.store(true, Ordering::Relaxed);
        refused.unwrap()
    });
    let problem = check_error(&refused, "overloaded", "a search too many");
    assert!(problem["detail"].as_str().unwrap().contains("limits.search_wait_ms_max"), "{problem}");
    assert_eq!(problem["request_id"], refused.header("x-request-id"));
    assert_eq!(refused.header("retry-after"), "1");
    let wait: u32 = refused.header("retry-after-ms").parse().unwrap();
    assert!(wait > 1, "the line was longer than its limit");
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(metrics.contains(r#"route="/v1/search",method="POST",status="503""#), "{metrics}");
    check_error(&unread(), "invalid_json", "when the others are gone there is room");
}

#[test]
fn queries_that_would_wait_too_long_for_a_core_are_told_at_once_when_to_come_again() {
    let gateway = Gateway::start_narrow();
    gateway.ingest(&[json!({"text": "A weir is a low dam."})]);
    let body = json!({"query": "weir ".repeat(200), "mode": "dense"});
    let refused = gateway.first_refusal(16, "/v1/search", &body);
    let problem = check_error(&refused, "overloaded", "a query too many");
    assert!(problem["detail"].as_str().unwrap().contains("inference.queue_wait_ms_max"), "{problem}");
    assert_eq!(refused.header("retry-after"), "1");
    assert!(
        refused.header("retry-after-ms").parse::<u32>().unwrap() > 1,
        "the queue was longer than its limit"
    );
    assert_eq!(gateway.search("low dam", "dense").len(), 1, "when the others are gone there is room");
}

#[test]
fn searches_are_refused_where_most_embeddings_are() {
    let gateway = Gateway::start_narrow();
    gateway.ingest(&[json!({"text": "A weir is a low dam.", "metadata": {"river": "Lee"}})]);
    let search = |body: &Value| gateway.send("POST", "/v1/search", Some(body.to_string().as_bytes()));
    let (refused, answered, unreadable) = gateway.under_load(|| {
        // long ones are read before they are refused, short ones are not
        let refused =
            [json!({"query": "weir ".repeat(100)}), json!({"query": "dam", "mode": "dense"})].map(|body| {
                let started = Instant::now();
                std::iter::repeat_with(|| search(&body))
                    .find(|reply| reply.status != 200 || started.elapsed() > PATIENCE)
            });
        let answered = [
            json!({"query": "dam", "mode": "lexical"}),
            json!({"query": "dam", "vector": vec![0.05; 384]}),
            json!({"queries": [{"query": "dam", "mode": "lexical"}]}),
            json!({"filter": {"river": {"eq": "Lee"}}}),
        ]
        .map(|body| search(&body));
        (refused, answered, search(&json!({"query": "dam", "top": 3})))
    });
    for refused in refused.into_iter().flatten() {
        let problem = check_error(&refused, "overloaded", "a search too many");
        assert!(problem["detail"].as_str().unwrap().contains("inference.queue_wait_ms_max"), "{problem}");
        let seconds: u32 = refused.header("retry-after").parse().unwrap();
        assert!((1..=120).contains(&seconds), "{seconds}");
    }
    for answered in answered {
        assert_eq!(answered.status, 200, "{}", answered.text);
    }
    check_error(&unreadable, "unknown_field", "which would be wrong at any time");
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(metrics.contains("weir_search_degraded_total{reason=\"embedding_overloaded\"}"), "{metrics}");
}

#[test]
fn ingest_bodies_beyond_the_memory_for_them_are_told_to_come_again() {
    const LIMIT: usize = 1 << 20;
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_INGEST_BODY_BYTES_MAX", &LIMIT.to_string())]);
    let ingest = || {
        let body = json!({"documents": [{"text": "weir ".repeat(50_000)}]}).to_string();
        gateway.send("POST", "/v1/ingest", Some(body.as_bytes()))
    };
    // there is memory for two of the largest; they must be on their way before the third comes, which nothing shows
    let stall = || {
        let stalled = [gateway.stall("/v1/ingest", LIMIT), gateway.stall("/v1/ingest", LIMIT)];
        std::thread::sleep(Duration::from_millis(100));
        (ingest().status != 202).then_some(stalled)
    };
    let stalled = (0..50).find_map(|_| stall()).expect("a third was always taken");
    check_error(&ingest(), "overloaded", "an ingest too many");
    drop(stalled);
    gateway.wait("room", || ingest().status == 202);
}

#[test]
fn callers_who_wait_take_no_memory_from_other_ingests() {
    const LIMIT: usize = 1 << 20;
    let gateway = Gateway::start_with(&[
        ("WEIR_LIMITS_INGEST_BODY_BYTES_MAX", &LIMIT.to_string()),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "1"), // thousands of commits to the disk
    ]);
    let body = |prefix: &str| {
        let documents: Vec<Value> =
            (0..1_500).map(|i| json!({"id": format!("{prefix}{i}"), "text": "a weir"})).collect();
        let body = json!({ "documents": documents }).to_string();
        " ".repeat(LIMIT - body.len()) + &body
    };
    std::thread::scope(|scope| {
        let waiting = ["a", "b"].map(|prefix| {
            let (client, body) = (Client::new(&gateway.weir.url), body(prefix));
            let json = [("content-type", "application/json")];
            scope.spawn(move || client.try_send("POST", "/v1/ingest?wait=true", &json, Some(body.as_bytes())))
        });
        gateway.wait("both to be stored", || {
            gateway.get("/v1/jobs").1["data"].as_array().is_some_and(|jobs| jobs.len() == 2)
        });
        let one = json!({"documents": [{"text": "a weir"}]});
        let started = Instant::now();
        gateway.wait("room", || gateway.try_post("/v1/ingest", &one).unwrap().0 == 202);
        assert!(started.elapsed() < PATIENCE / 3, "there was room only when the others lost their patience");
        let jobs = gateway.get("/v1/jobs").1;
        let is_one_done = jobs["data"].as_array().unwrap().iter().any(|job| job["finished_at"].is_number());
        assert!(!is_one_done, "nobody waited any more: {jobs}");
        gateway.weir.kill(); // nothing here depends on the end
        waiting.into_iter().for_each(|one| drop(one.join()));
    });
}

#[test]
fn documents_beyond_the_backlog_are_told_to_come_again() {
    let gateway = Gateway::start_with(&[
        ("WEIR_LIMITS_PENDING_OPERATIONS_MAX", "10"),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "1"),
    ]);
    let documents: Vec<Value> = (0..100).map(|i| json!({"id": format!("d{i}"), "text": "a weir"})).collect();
    assert_eq!(gateway.try_post("/v1/ingest", &json!({ "documents": documents })).unwrap().0, 202);
    let one = json!({"documents": [{"id": "late", "text": "a weir"}]}).to_string();
    let refused = gateway.send("POST", "/v1/ingest", Some(one.as_bytes()));
    let problem = check_error(&refused, "overloaded", "a document too many");
    assert!(problem["detail"].as_str().unwrap().contains("limits.pending_operations_max"), "{problem}");
    assert_eq!(gateway.document("late"), None);
    gateway.wait_until_searchable();
    assert_eq!(gateway.send("POST", "/v1/ingest", Some(one.as_bytes())).status, 202);
}

#[test]
fn a_caller_who_never_sends_his_body_hears_the_deadline() {
    let gateway = Gateway::start_with(&[("WEIR_SERVER_REQUEST_DEADLINE_MS", "300")]);
    for path in ["/v1/search", "/v1/ingest"] {
        let started = Instant::now();
        let answer = read_all(gateway.stall(path, 100));
        assert!(answer.starts_with("HTTP/1.1 504 "), "{path}: {answer}");
        assert!(answer.contains("\"code\":\"deadline_exceeded\""), "{path}: {answer}");
        assert!(answer.contains("retry-after: 1\r\n"), "{path}: {answer}");
        assert!(answer.contains("server.request_deadline_ms"), "{path}: {answer}");
        assert!(started.elapsed() >= Duration::from_millis(300), "{path}: {:?}", started.elapsed());
    }
    assert_eq!(gateway.get("/healthz").0, 200);
}

#[test]
fn an_ingest_that_waits_beyond_the_deadline_answers_the_job_as_it_stands() {
    let gateway = Gateway::start_with(&[
        ("WEIR_SERVER_REQUEST_DEADLINE_MS", "3000"),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "1"), // thousands of commits to the disk
    ]);
    const DOCUMENTS: usize = 10_000;
    let documents: Vec<Value> =
        (0..DOCUMENTS).map(|i| json!({"id": format!("d{i}"), "text": "a weir"})).collect();
    let body = json!({ "documents": documents }).to_string();
    // the body takes its share of the deadline too
    let mut connection = gateway.stall("/v1/ingest?wait=true", body.len());
    std::thread::sleep(Duration::from_millis(1_000));
    connection.write_all(&body.as_bytes()[1..]).unwrap();
    let answer = read_all(connection);
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    let job: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert!(job["status"] == "running" || job["status"] == "pending", "{job}");
    assert!(job["processed_documents"].as_u64().unwrap() < DOCUMENTS as u64, "{job}");
    assert_eq!(job["finished_at"], Value::Null);
    assert_eq!(gateway.document("d9999").unwrap()["text"], "a weir", "it is stored all the same");
}

#[test]
fn a_connection_beyond_the_limit_waits_for_its_turn() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_CONNECTIONS_MAX", "1")]);
    let ask = || {
        let mut connection = gateway.connect();
        connection.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        connection
    };
    let mut first = ask();
    let mut answer = [0; 12];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    let mut second = ask();
    second.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let nothing = second.read_exact(&mut answer).unwrap_err().kind();
    assert!(matches!(nothing, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{nothing}");
    drop(first);
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    second.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}
