//! `GET /v1/jobs`, page by page.

use serde_json::{Value, json};

use super::Gateway;

/// Ingests one document at a time; the ids of the jobs, oldest first.
fn make_jobs(gateway: &Gateway, count: usize) -> Vec<String> {
    let ingest = |number| gateway.ingest(&[json!({"id": format!("d{number}"), "text": "a weir"})]);
    (0..count).map(|number| ingest(number)["job_id"].as_str().unwrap().to_owned()).collect()
}

fn ids_of(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(|job| job["job_id"].as_str().unwrap().to_owned()).collect()
}

/// Walks from the first page to the last; the ids in the order of the pages.
fn walk(gateway: &Gateway, limit: usize) -> Vec<String> {
    let (mut ids, mut path) = (Vec::new(), format!("/v1/jobs?limit={limit}"));
    loop {
        let (status, page) = gateway.get(&path);
        assert_eq!(status, 200, "{page}");
        let on_page = ids_of(&page);
        assert!(!on_page.is_empty() && on_page.len() <= limit, "{} jobs with limit {limit}", on_page.len());
        ids.extend(on_page);
        let Some(cursor) = page["next_cursor"].as_str() else { return ids };
        assert!(ids.len() < 1_000, "the pages have no end");
        path = format!("/v1/jobs?limit={limit}&cursor={cursor}");
    }
}

#[test]
fn the_pages_hold_every_job_once_and_the_newest_first() {
    let gateway = Gateway::start();
    let newest_first: Vec<String> = make_jobs(&gateway, 25).into_iter().rev().collect();
    for limit in [1, 7, 24, 25, 26, 100] {
        assert_eq!(walk(&gateway, limit), newest_first, "limit {limit}");
    }
    assert_eq!(ids_of(&gateway.get("/v1/jobs").1), newest_first[..20], "20 jobs when no limit is said");
}

#[test]
fn a_walk_is_not_disturbed_by_new_jobs() {
    let gateway = Gateway::start();
    let old: Vec<String> = make_jobs(&gateway, 6).into_iter().rev().collect();
    let first = gateway.get("/v1/jobs?limit=3").1;
    make_jobs(&gateway, 3);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = gateway.get(&format!("/v1/jobs?limit=3&cursor={cursor}")).1;
    assert_eq!([ids_of(&first), ids_of(&second)].concat(), old);
    assert_eq!(second["next_cursor"], Value::Null);
}
