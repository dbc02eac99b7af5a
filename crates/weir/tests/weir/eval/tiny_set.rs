//! The committed set `fixtures/eval/weirs`: exact scores, exit codes, and what is left behind.

use serde_json::Value;

use super::{Gateway, collections, eval, in_repository};

fn weirs() -> String {
    in_repository("fixtures/eval/weirs").display().to_string()
}

/// By hand: `ferry` finds its document first (1). `salmon` finds d5 (grade 1) before d3 (grade 2): (1 + 2/log2 3) /
/// (2 + 1/log2 3). `stones` finds d4 (3) and not d8 (1): 3 / (3 + 1/log2 3). `tunnel` finds nothing.
fn ndcg() -> f64 {
    let discount = 1.0 / 3_f64.log2();
    (1.0 + (1.0 + 2.0 * discount) / (2.0 + discount) + 3.0 / (3.0 + discount)) / 4.0
}

#[test]
fn the_scores_are_those_computed_by_hand() {
    let gateway = Gateway::start();
    let seen = eval(&gateway, &[&weirs(), "--mode", "lexical", "--json"]);
    assert_eq!(seen.code, 0, "{}", seen.err);
    let shown: Value = serde_json::from_str(&seen.out).unwrap();
    let scores = &shown["scores"][0];
    assert!((scores["ndcg_at_10"].as_f64().unwrap() - ndcg()).abs() < 1e-12, "{scores}");
    assert_eq!((&scores["recall_at_top_k"], &scores["mrr_at_10"]), (&0.625.into(), &0.75.into()));
    assert_eq!((&scores["set"], &scores["queries"]), (&"weirs".into(), &4.into()));
    assert!(seen.err.contains("weirs: 7 documents in "), "{}", seen.err);
    assert!(seen.err.contains("1 without text were left out"), "{}", seen.err);
    assert_eq!(collections(&gateway), ["default"], "the collection is removed");
}

#[test]
fn the_table_has_a_row_for_every_configuration() {
    let gateway = Gateway::start();
    let seen = eval(&gateway, &[&weirs(), "--fusion", "rrf:k=30", "--against", "lexical", "--top-k", "10"]);
    assert_eq!(seen.code, 0, "a comparison within a run is for the reader alone: {}", seen.err);
    let lines: Vec<&str> = seen.out.lines().collect();
    assert_eq!(lines[0], "set               configuration    queries  nDCG@10    recall@10  MRR@10");
    let labels: Vec<&str> = lines[1..5].iter().map(|line| line[18..33].trim()).collect();
    assert_eq!(labels, ["hybrid", "lexical", "dense", "hybrid rrf:k=30"]);
    assert_eq!(lines[2], "weirs             lexical                4   0.6715       0.6250  0.7500");
    assert_eq!(lines[6], "nDCG@10 less that of lexical, with its interval of 95 % (paired bootstrap)");
    assert_eq!(lines.len(), 10, "{}", seen.out);
}

#[test]
fn what_is_below_the_minimum_or_the_baseline_exits_with_3() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json").display().to_string();
    let lexical = |more: &[&str]| eval(&gateway, &[&[weirs().as_str(), "--mode", "lexical"], more].concat());
    let saved = lexical(&["--out", &file, "--min-ndcg", "0.6714", "--min-ndcg", "weirs/lexical=0.5"]);
    assert_eq!(saved.code, 0, "{}", saved.err);
    assert!(
        saved.out.ends_with("weirs             lexical        0.6715 of 0.5000  reached\n"),
        "{}",
        saved.out
    );

    let same = lexical(&["--baseline", &file]);
    assert_eq!(same.code, 0, "{}", same.err);
    assert!(same.out.ends_with("+0.0000  +0.0000 to +0.0000  no difference\n"), "{}", same.out);

    let mut better: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let scores = better["sets"][0]["configurations"][0]["queries"].as_object_mut().unwrap();
    scores.values_mut().for_each(|score| score["ndcg"] = (score["ndcg"].as_f64().unwrap() + 0.25).into());
    std::fs::write(&file, better.to_string()).unwrap();
    let worse = lexical(&["--baseline", &file]);
    assert_eq!(worse.code, 3);
    assert!(
        worse.err.ends_with(
            "error: the quality is below what was asked for: weirs, lexical: nDCG@10 is worse than the baseline by 0.2500\n"
        ),
        "{}",
        worse.err
    );
    let below = lexical(&["--min-ndcg", "0.6716"]);
    assert_eq!(below.code, 3);
    assert!(
        below.err.contains("mean of the sets, lexical: nDCG@10 0.6715 is below 0.6716\n"),
        "{}",
        below.err
    );
    assert_eq!(collections(&gateway), ["default"]);
}

#[test]
fn what_cannot_be_measured_is_told_before_anything_is_done() {
    let gateway = Gateway::start();
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let seen = eval(&gateway, arguments);
        assert_eq!((seen.code, seen.out.as_str()), (code, ""), "{arguments:?}: {}", seen.err);
        assert!(seen.err.contains(expected), "{arguments:?}: {}", seen.err);
    };
    let weirs = weirs();
    check(&["no/such/folder"], 1, "error: no/such/folder can't be read: ");
    check(&[&weirs, &weirs], 1, "error: two sets are called `weirs`; rename one of the folders\n");
    check(&[&weirs, &weirs, "--collection", "c"], 1, "error: --collection goes with one folder");
    check(&[&weirs, "--min-ndcg", "scifact=0.5"], 1, "error: no set is called `scifact`; there are: weirs\n");
    check(&[&weirs, "--min-ndcg", "1.5"], 2, "`1.5` is not a number from 0 to 1");
    check(&[&weirs, "--against", "rrf"], 1, "error: no configuration is called `rrf`");
    check(&[&weirs, "--fusion", "sum"], 2, "the method is `rrf` or `convex`");
    check(&[&weirs, "--baseline", &format!("{weirs}/corpus.jsonl")], 1, "is not a run file: ");
    check(&[&weirs, "--queries", "5"], 2, "--draft");
    check(&[&weirs, "--late-interaction", "0.6"], 2, "weight is 0.6; it must be above 0 and at most 0.5");
    check(&[&weirs, "--late-interaction", "0.2:0"], 2, "top_n is 0; it must be from 1 to 100");
    assert_eq!(collections(&gateway), ["default"]);
}

#[test]
fn a_collection_that_is_there_is_asked_as_it_stands_and_left_alone() {
    let gateway = Gateway::start();
    let ask = |more: &[&str]| {
        let common = [
            weirs(),
            "--mode".into(),
            "lexical".into(),
            "--collection".into(),
            "kept".into(),
            "--json".into(),
        ];
        let arguments: Vec<&str> = common.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let seen = eval(&gateway, &arguments);
        assert_eq!(seen.code, 0, "{}", seen.err);
        let shown: Value = serde_json::from_str(&seen.out).unwrap();
        shown["scores"][0]["recall_at_top_k"].as_f64().unwrap()
    };
    assert_eq!(ask(&[]), 0.625);
    assert_eq!(collections(&gateway), ["default"], "it was made by the run");
    assert_eq!(ask(&["--keep"]), 0.625);
    assert_eq!(collections(&gateway), ["default", "kept"]);
    gateway.send("DELETE", "/v1/collections/kept/documents/d6", None);
    assert_eq!(ask(&[]), 0.375, "`ferry` finds nothing any more");
    assert_eq!(collections(&gateway), ["default", "kept"], "it was there before the run");
}

#[test]
fn a_run_that_fails_leaves_nothing_behind() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_TOP_K_MAX", "50")]);
    let seen = eval(&gateway, &[&weirs(), "--top-k", "51"]);
    assert_eq!(seen.code, 1);
    // refused before the documents went in, which would have been told first
    assert!(
        seen.err.starts_with("error: query weirs/ferry: top_k is 51; it must be from 1 to 50"),
        "{}",
        seen.err
    );
    assert_eq!(collections(&gateway), ["default"]);
}

#[test]
fn where_no_judged_document_is_nothing_is_measured() {
    let gateway = Gateway::start();
    gateway.ingest(&[serde_json::json!({"id": "other", "text": "a weir"})]);
    let seen = eval(&gateway, &[&weirs(), "--collection", "default"]);
    assert_eq!((seen.code, seen.out.as_str()), (1, ""), "{}", seen.err);
    let said = "error: none of the 5 documents that `weirs` calls relevant is in the collection `default`\nhint: compare";
    assert!(seen.err.contains(said), "{}", seen.err);

    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("corpus.jsonl", "{\"_id\":\"d 1\",\"text\":\"a weir\"}\n");
    write("queries.jsonl", "{\"_id\":\"q\",\"text\":\"weir\"}\n");
    let path = folder.path().display().to_string();
    for (judged, code) in [("d1", 1), ("d 1", 0)] {
        write("qrels.tsv", &format!("q\t{judged}\t1\n"));
        let seen = eval(&gateway, &[&path, "--mode", "lexical"]);
        assert_eq!(seen.code, code, "{}", seen.err);
        let is_told = seen.err.contains(&format!("relevant is in {path}/corpus.jsonl\n"));
        assert_eq!(is_told, code == 1, "{}", seen.err);
    }
    assert_eq!(collections(&gateway), ["default"]);
}

#[test]
fn ctrl_c_removes_what_was_made() {
    let gateway = Gateway::start_with(&[("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "256")]);
    let folder = tempfile::tempdir().unwrap();
    let lines = |line: &dyn Fn(usize) -> String| (0..3_000).map(line).collect::<String>();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    write("corpus.jsonl", lines(&|i| format!("{{\"_id\":\"d{i}\",\"text\":\"the lock of number {i}\"}}\n")));
    write("queries.jsonl", lines(&|i| format!("{{\"_id\":\"q{i}\",\"text\":\"lock {i}\"}}\n")));
    write("qrels.tsv", lines(&|i| format!("q{i}\td{i}\t1\n")));
    let path = folder.path().display().to_string();
    let running = super::Weir::new().start(&["eval", "--url", &gateway.weir.url, &path]);
    gateway.wait("the collection", || collections(&gateway).len() == 2);
    running.interrupt();
    let seen = running.finish();
    assert_eq!(seen.code, 130, "{}", seen.err);
    assert!(seen.err.ends_with("error: interrupted\n"), "{}", seen.err);
    assert_eq!(collections(&gateway), ["default"]);
}
