//! A job that cannot advance names the reason, and goes on by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::events::Events;
use super::{HELD, Model, document, send, start, start_with, wait_for};
use crate::upstreams::scripted::{Answer, Upstream, error};

/// Demand 12: a job that cannot advance is not stuck without a reason.
#[test]
fn demand_12_a_job_whose_upstream_is_down_names_it_and_goes_on_when_it_is_back() {
    let (folder, is_down) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(true)));
    let down = is_down.clone();
    let upstream = Upstream::start(move |_, _| match down.load(Ordering::Relaxed) {
        true => error(503),
        false => Answer::Embeddings,
    });
    let gateway = start(folder.path(), &upstream.url, &[]);
    let job = send(&gateway, &[document("a", "river")]);
    gateway.wait("the reason", || gateway.get(&job).1["waiting_for"].is_string());
    let state = gateway.get(&job).1;
    assert!(state["waiting_for"].as_str().unwrap().contains("503"), "{state}");
    let since = state["waiting_since"].as_f64().unwrap();
    assert!(since >= state["started_at"].as_f64().unwrap(), "{state}");
    // further attempts do not begin it anew
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(gateway.get(&job).1["waiting_since"], since);
    let (_, event) = Events::open(&gateway, &job).0.next().unwrap();
    assert_eq!(event["waiting_since"], since);
    assert!(event["waiting_for"].as_str().unwrap().contains("503"), "{event}");
    assert!(["pending", "running"].contains(&state["status"].as_str().unwrap()), "{state}");
    gateway.weir.terminate();

    let gateway = start(folder.path(), &upstream.url, &[]);
    gateway.wait("the reason after a restart", || gateway.get(&job).1["waiting_for"].is_string());
    is_down.store(false, Ordering::Relaxed);
    let completed = wait_for(&gateway, &job, "completed");
    assert!(completed["waiting_since"].is_null());
    assert!(completed["waiting_for"].is_null() && completed["error"].is_null(), "{completed}");
}

#[test]
fn a_job_whose_upstream_does_not_answer_names_it_and_ends() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let fields = "dimension = 4\ntimeout_ms = 300";
    let variables = [("WEIR_INGEST_ATTEMPTS_MAX", "8")];
    let gateway = start_with(folder.path(), &model.upstream.url, fields, &variables);
    let job = send(&gateway, &[document("a", HELD)]);
    gateway.wait("the reason", || gateway.get(&job).1["waiting_for"].is_string());
    let state = gateway.get(&job).1;
    assert!(state["waiting_for"].as_str().unwrap().contains("300 ms"), "{state}");
    let failed = wait_for(&gateway, &job, "failed");
    assert!(failed["finished_at"].is_number() && failed["waiting_for"].is_null(), "{failed}");
}

#[test]
fn a_job_whose_upstream_stays_down_fails_with_the_reason_and_can_be_tried_again() {
    let (folder, is_down) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(true)));
    let down = is_down.clone();
    let upstream = Upstream::start(move |_, _| match down.load(Ordering::Relaxed) {
        true => error(503),
        false => Answer::Embeddings,
    });
    let gateway = start(folder.path(), &upstream.url, &[("WEIR_INGEST_ATTEMPTS_MAX", "2")]);
    let job = send(&gateway, &[document("a", "river")]);
    let failed = wait_for(&gateway, &job, "failed");
    assert!(failed["error"].as_str().unwrap().contains("503"), "{failed}");
    assert!(failed["waiting_for"].is_null(), "{failed}");
    is_down.store(false, Ordering::Relaxed);
    // it has one attempt, which fails while the circuit breaker is open
    let (mut last, mut status) = (job, json!("failed"));
    for _ in 0..60 {
        let (code, retried) = super::post(&gateway, &format!("{last}/retry-failed"));
        assert_eq!(code, 202, "{retried}");
        last = format!("/v1/jobs/{}", retried["job_id"].as_str().unwrap());
        gateway.wait("the end", || gateway.get(&last).1["finished_at"].is_number());
        status = gateway.get(&last).1["status"].clone();
        if status == "completed" {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(status, "completed");
    assert_eq!(super::found(&gateway, "a"), ["a"]);
}
