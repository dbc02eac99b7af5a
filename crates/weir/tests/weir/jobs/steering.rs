//! Jobs are cancelled, and their documents tried again.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{HELD, Model, REFUSED, document, found, post, send, start, states, wait_for};
use crate::support::gateway::Gateway;

/// The ids of the documents of a job, which are words that no search takes for each other.
const IDS: [&str; 5] = ["heron", "otter", "salmon", "beaver", "dipper"];

/// A job of five documents: two are searchable, the model waits at the third.
fn half_done(gateway: &Gateway) -> (String, Vec<Value>) {
    let words = ["river", "river", HELD, "river", "river"];
    let documents: Vec<Value> = IDS.iter().zip(words).map(|(id, words)| document(id, words)).collect();
    let job = send(gateway, &documents);
    gateway.wait("two documents", || gateway.get(&job).1["processed_documents"] == 2);
    (job, documents)
}

fn expected_states(last: &str) -> Vec<(String, String)> {
    let state = |n| if n < 2 { "searchable" } else { last };
    (0..5).map(|n| (IDS[n].to_owned(), state(n).to_owned())).collect()
}

#[test]
fn a_cancelled_job_keeps_what_is_searchable_and_embeds_no_more() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let gateway = start(folder.path(), &model.upstream.url, &[]);
    let (job, documents) = half_done(&gateway);
    assert_eq!(states(&gateway, &job), expected_states("pending"));
    let later = send(&gateway, &[document("later", "river")]);

    let begun = Instant::now();
    let (status, cancelled) = post(&gateway, &format!("{job}/cancel"));
    assert_eq!(status, 200, "{cancelled}");
    assert!(begun.elapsed() < Duration::from_secs(5), "the model still waits");
    assert_eq!((&cancelled["status"], &cancelled["processed_documents"]), (&json!("cancelled"), &json!(2)));
    assert_eq!((&cancelled["cancelled_documents"], &cancelled["failed_documents"]), (&json!(3), &json!(0)));
    assert!(cancelled["finished_at"].is_number(), "{cancelled}");
    assert_eq!(states(&gateway, &job), expected_states("cancelled"));
    assert_eq!(post(&gateway, &format!("{job}/cancel")), (200, cancelled.clone()), "again");
    wait_for(&gateway, &later, "completed");
    let asked = |gateway: &Gateway| {
        gateway.wait_until_searchable();
        let texts = model.upstream.asked().into_iter().flat_map(|asked| asked.texts());
        texts.filter(|text| text.contains(IDS[4])).count()
    };
    assert_eq!(asked(&gateway), 0, "a document was embedded after the cancellation");
    let check = |gateway: &Gateway| {
        for (id, expected) in IDS.iter().zip([1, 1, 0, 0, 0]) {
            assert_eq!(found(gateway, id).len(), expected, "{id}");
            assert!(gateway.document(id).is_some(), "it is stored");
        }
        assert_eq!(gateway.get(&job).1, cancelled);
    };
    check(&gateway);

    gateway.weir.terminate();
    let gateway = start(folder.path(), &model.upstream.url, &[]);
    gateway.wait_until_searchable();
    check(&gateway);
    assert_eq!(asked(&gateway), 0, "a document was embedded after the restart");
    gateway.weir.terminate();
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let gateway = start(folder.path(), &model.upstream.url, &[]);
    gateway.wait_until_searchable();
    check(&gateway);

    model.release();
    let again = wait_for(&gateway, &send(&gateway, &documents), "completed");
    assert_eq!((&again["unchanged_documents"], &again["changed_documents"]), (&json!(2), &json!(3)));
    assert_eq!(found(&gateway, IDS[4]), [IDS[4]]);
    assert_eq!(states(&gateway, &job), expected_states("cancelled"), "the outcome of the job stays");
}

#[test]
fn cancelled_documents_are_tried_again_by_a_new_job() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let gateway = start(folder.path(), &model.upstream.url, &[]);
    let (job, _) = half_done(&gateway);
    let (status, refusal) = post(&gateway, &format!("{job}/retry-failed"));
    assert_eq!((status, &refusal["code"]), (409, &json!("job_not_retryable")), "{refusal}");
    assert_eq!(post(&gateway, &format!("{job}/cancel")).0, 200);

    model.release();
    let (status, retried) = post(&gateway, &format!("{job}/retry-failed"));
    assert_eq!((status, &retried["total_documents"]), (202, &json!(3)), "{retried}");
    assert_eq!(retried["changed_documents"], 3);
    let new_job = format!("/v1/jobs/{}", retried["job_id"].as_str().unwrap());
    assert_ne!(new_job, job);
    let completed = wait_for(&gateway, &new_job, "completed");
    assert_eq!((&completed["processed_documents"], &completed["chunks"]), (&json!(3), &json!(3)));
    for id in IDS {
        assert_eq!(found(&gateway, id), [id]);
    }
    let (status, refusal) = post(&gateway, &format!("{job}/retry-failed"));
    assert_eq!((status, &refusal["code"]), (409, &json!("job_not_retryable")), "{refusal}");
    let (status, refusal) = post(&gateway, &format!("{new_job}/cancel"));
    assert_eq!((status, &refusal["code"]), (409, &json!("job_finished")), "{refusal}");
    assert!(refusal["detail"].as_str().unwrap().contains("retry-failed"), "{refusal}");
    for path in ["cancel", "retry-failed"] {
        assert_eq!(post(&gateway, &format!("/v1/jobs/none/{path}")).0, 404);
    }
}

#[test]
fn cancelling_an_update_hides_the_version_before_until_it_is_tried_again() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let gateway = start(folder.path(), &model.upstream.url, &[]);
    wait_for(&gateway, &send(&gateway, &[json!({"id": "a", "text": "older river"})]), "completed");
    let job = send(&gateway, &[json!({"id": "a", "text": format!("newer {HELD}")})]);
    gateway.wait("the model", || model.upstream.asked().len() >= 2);
    assert_eq!(post(&gateway, &format!("{job}/cancel")).0, 200);
    gateway.wait_until_searchable();
    assert_eq!((found(&gateway, "older"), found(&gateway, "newer")), (vec![], vec![]));
    assert!(gateway.document("a").unwrap()["text"].as_str().unwrap().starts_with("newer"));
    model.release();
    assert_eq!(post(&gateway, &format!("{job}/retry-failed")).0, 202);
    gateway.wait_until_searchable();
    assert_eq!(found(&gateway, "newer"), ["a"]);
}

#[test]
fn a_large_document_is_cancelled_and_the_other_one_goes_on() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let settings = [("WEIR_INGEST_BATCH_TOKENS_MAX", "1024"), ("WEIR_CHUNKING_MAX_TOKENS", "40")];
    let gateway = start(folder.path(), &model.upstream.url, &settings);
    let text = |word: &str| format!("{} {word}.", "A sentence of a large document. ".repeat(300));
    let jobs = [
        send(&gateway, &[json!({"id": "x", "text": text(&format!("xxxx {HELD}"))})]),
        send(&gateway, &[json!({"id": "y", "text": text(&format!("yyyy {HELD}"))})]),
        send(&gateway, &[document("small", "river")]),
    ];
    gateway.wait("the small one", || found(&gateway, "small") == ["small"]);
    let (status, cancelled) = post(&gateway, &format!("{}/cancel", jobs[0]));
    assert_eq!((status, &cancelled["cancelled_documents"]), (200, &json!(1)), "{cancelled}");
    model.release();
    wait_for(&gateway, &jobs[1], "completed");
    wait_for(&gateway, &jobs[2], "completed");
    assert_eq!((found(&gateway, "xxxx"), found(&gateway, "yyyy")), (vec![], vec!["y".to_owned()]));
    assert_eq!(found(&gateway, "small"), ["small"]);
}

#[test]
fn documents_are_listed_by_state_in_pages_with_their_reasons() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let gateway = start(folder.path(), &model.upstream.url, &[]);
    let documents =
        [json!({"id": "empty"}), document("a", "river"), document("b", REFUSED), document("c", "river")];
    let job = send(&gateway, &documents);
    let state = wait_for(&gateway, &job, "completed");
    assert_eq!((&state["failed_documents"], &state["processed_documents"]), (&json!(2), &json!(2)));
    let path = format!("{job}/documents");
    let (_, failed) = gateway.get(&format!("{path}?state=failed"));
    let reason = |n: usize| (&failed["data"][n]["document_id"], &failed["data"][n]["code"]);
    assert_eq!(reason(0), (&json!("empty"), &json!("invalid_parameter")), "{failed}");
    assert_eq!(reason(1), (&json!("b"), &json!("upstream_error")), "{failed}");
    assert!(failed["data"][1]["message"].as_str().unwrap().contains("send it again"), "{failed}");

    let (mut cursor, mut ids) = (String::new(), Vec::new());
    loop {
        let (status, page) = gateway.get(&format!("{path}?limit=1{cursor}"));
        assert_eq!((status, page["data"].as_array().map(Vec::len)), (200, Some(1)), "{page}");
        ids.push(page["data"][0]["document_id"].as_str().unwrap().to_owned());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(ids, ["empty", "a", "b", "c"]);
    for wrong in ["?cursor=x", "?state=done", "?limit=0", "?limit=1001", "?more=1"] {
        let (status, refusal) = gateway.get(&format!("{path}{wrong}"));
        assert_eq!(status, 400, "{wrong}: {refusal}");
    }
    assert_eq!(gateway.get(&format!("{path}?cursor=99999999999999999999")).0, 400);
    assert_eq!(gateway.get(&format!("{path}?cursor=9999999999999999999")).1["data"], json!([]));

    wait_for(&gateway, &send(&gateway, &[document("a", "later")]), "completed");
    let states = states(&gateway, &job);
    assert_eq!(states[1], ("a".to_owned(), "replaced".to_owned()));
}
