//! A gold set of one's own: drafted from a collection and the feedback to it, then measured.

use serde_json::json;

use super::{Gateway, collections, eval};

fn gateway_with_documents() -> Gateway {
    let gateway = Gateway::start();
    let documents: Vec<_> = [
        ("a/1", "Weirs and dams", "A weir is a low dam across a river. Boats pass the lock beside it."),
        ("b 2", "The upper locks", "A lock lifts boats between two reaches. Gates hold the water back."),
        ("c", "Old mill wheels", "A wheel turns the stones of the mill. Millers grind their grain slowly."),
    ]
    .map(|(id, title, text)| json!({"id": id, "title": title, "text": text, "metadata": {"n": 1}}))
    .to_vec();
    gateway.ingest(&documents);
    gateway
}

#[test]
fn a_draft_is_made_of_documents_and_feedback_and_can_be_measured() {
    let gateway = gateway_with_documents();
    for (document, grade) in [("c", 3), ("a/1", 0)] {
        let body = json!({"query": "who grinds grain", "document_id": document, "grade": grade}).to_string();
        assert_eq!(gateway.send("POST", "/v1/feedback", Some(body.as_bytes())).status, 200);
    }
    let folder = tempfile::tempdir().unwrap();
    let drafted = folder.path().join("gold").display().to_string();
    let seen = eval(&gateway, &["--draft", &drafted, "--collection", "default"]);
    assert_eq!(seen.code, 0, "{}", seen.err);
    assert_eq!(
        seen.out,
        format!("{drafted}: 3 documents, 3 queries drafted from them and 1 from feedback\n")
    );
    let read = |name: &str| std::fs::read_to_string(format!("{drafted}/{name}")).unwrap();
    assert_eq!(
        read("queries.jsonl"),
        "{\"_id\":\"q1\",\"metadata\":{\"from\":\"feedback\"},\"text\":\"who grinds grain\"}\n\
         {\"_id\":\"q2\",\"metadata\":{\"from\":\"title\"},\"text\":\"Weirs and dams\"}\n\
         {\"_id\":\"q3\",\"metadata\":{\"from\":\"first sentence\"},\"text\":\"A wheel turns the stones of the mill.\"}\n\
         {\"_id\":\"q4\",\"metadata\":{\"from\":\"key words\"},\"text\":\"lifts between two reaches\"}\n"
    );
    assert_eq!(
        read("qrels.tsv"),
        "query-id\tcorpus-id\tscore\nq1\ta/1\t0\nq1\tc\t3\nq2\ta/1\t1\nq3\tc\t1\nq4\tb 2\t1\n"
    );
    let first = read("corpus.jsonl").lines().next().unwrap().to_owned();
    assert_eq!(
        first,
        "{\"_id\":\"a/1\",\"metadata\":{\"n\":1},\"text\":\"A weir is a low dam across a river. Boats pass the lock beside it.\",\
         \"title\":\"Weirs and dams\"}"
    );

    for place in [&["--mode", "lexical"][..], &["--mode", "lexical", "--collection", "default"]] {
        let measured = eval(&gateway, &[&[drafted.as_str(), "--min-ndcg", "1"], place].concat());
        assert_eq!(measured.code, 0, "{}", measured.err);
    }
    assert_eq!(collections(&gateway), ["default"]);
    let again = eval(&gateway, &["--draft", &drafted, "--collection", "default"]);
    assert_eq!(again.code, 1);
    let expected =
        format!("error: {drafted}/corpus.jsonl is there already; name a new folder for the draft\n");
    assert_eq!(again.err, expected);
}

#[test]
fn a_collection_of_more_than_a_page_is_drafted_whole() {
    let gateway = Gateway::start_with(&[("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "256")]);
    let documents: Vec<_> = (0..1_203)
        .map(|i| json!({"id": format!("d{i}"), "title": format!("The lock of number {i}"), "text": "x"}))
        .collect();
    gateway.ingest(&documents);
    let folder = tempfile::tempdir().unwrap();
    let drafted = folder.path().join("gold").display().to_string();
    let seen = eval(&gateway, &["--draft", &drafted, "--collection", "default", "--queries", "20", "--json"]);
    assert_eq!(seen.code, 0, "{}", seen.err);
    let shown: serde_json::Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!((&shown["documents"], &shown["queries"]), (&1_203.into(), &20.into()));
    assert_eq!(std::fs::read_to_string(format!("{drafted}/corpus.jsonl")).unwrap().lines().count(), 1_203);
}

#[test]
fn what_gives_no_queries_leaves_no_files() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let seen = eval(&gateway, &["--draft", &path, "--collection", "default"]);
    assert_eq!(seen.code, 1);
    assert!(
        seen.err.starts_with("error: no query can be drafted from the collection `default`"),
        "{}",
        seen.err
    );
    assert_eq!(eval(&gateway, &["--draft", &path, "--collection", "none"]).code, 1);
    assert_eq!(eval(&gateway, &["--draft", &path]).code, 2, "the collection must be named");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
