//! Problem 7: trouble of the database of the request log neither stops nor changes an answer. Problem 9: rows are written in batches, and
//! wait on disk while they can't be.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::postgres::Postgres;
use super::setup::{Mock, Proxy, ask, ask_stream, upstream};

/// MiB that the gateway may hold beyond what it held before the database was stopped.
const GROWTH_MIB_MAX: u64 = 64;

/// A request takes no longer, whatever the database does.
const LATENCY_MAX: Duration = Duration::from_secs(5);

/// Requests without a pause by four clients, as long as `during` runs; how many.
fn under_load(proxy: &Proxy, key: &str, during: impl FnOnce()) -> usize {
    let (is_over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (is_over, sent) = (&is_over, &sent);
            scope.spawn(move || {
                let bearer = format!("Bearer {key}");
                let body = if client == 0 { ask_stream("m") } else { ask("m") };
                while !is_over.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    let reply = proxy.chat(&body, &[("authorization", &bearer)]).expect("a reply");
                    sent.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(reply.status, 200, "{}", reply.text);
                    assert!(started.elapsed() < LATENCY_MAX, "{:?}", started.elapsed());
                }
            });
        }
        during();
        is_over.store(true, Ordering::Relaxed);
    });
    sent.into_inner()
}

#[test]
fn no_request_fails_while_postgresql_is_stopped_or_killed() {
    let mut server = Postgres::start();
    let mock = Mock::start(&["--tokens", "5", "--latency-ms", "5"]);
    let url = server.url();
    let variables = [
        ("WEIR_TELEMETRY_REQUESTS", "postgres"),
        ("WEIR_TELEMETRY_POSTGRES_URL", "env:DATABASE"),
        ("DATABASE", &url),
    ];
    let proxy = Proxy::start_with(&upstream("mock", &mock, ""), &variables);
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let key = proxy.key(&admin, &json!({"name": "app", "scopes": ["chat"]}));
    let refused = |key: &str| proxy.chat(&ask("m"), &[("x-api-key", key)]).unwrap().status;
    let rows = |server: &Postgres| {
        server.count("SELECT count(*) FROM weir_requests WHERE status = 200 AND model = 'm'") as usize
    };
    let wait_for_rows = |server: &Postgres, sent: usize| {
        proxy.client.wait("the rows", || rows(server) >= sent);
        assert_eq!(rows(server), sent);
    };

    let second = Duration::from_secs(1);
    let mut sent = under_load(&proxy, &key, || std::thread::sleep(2 * second));
    wait_for_rows(&server, sent);
    let commits =
        server.count("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'") as usize;
    assert!(commits < sent / 4, "{commits} transactions for {sent} rows");

    let memory = proxy.weir.rss_mib();
    sent += under_load(&proxy, &key, || {
        server.signal(Signal::STOP);
        std::thread::sleep(6 * second);
        assert_eq!(refused("weir_wrong"), 401);
        assert_eq!(refused(&admin), 403);
    });
    let grown = proxy.weir.rss_mib().saturating_sub(memory);
    assert!(grown <= GROWTH_MIB_MAX, "{grown} MiB more");
    server.signal(Signal::CONT);
    wait_for_rows(&server, sent);

    sent += under_load(&proxy, &key, || {
        server.signal(Signal::KILL);
        std::thread::sleep(2 * second);
        assert_eq!(refused("weir_wrong"), 401);
        server.restart();
        std::thread::sleep(second);
    });
    wait_for_rows(&server, sent);
    println!("{sent} requests, as many rows; {grown} MiB more while PostgreSQL was stopped");
}
