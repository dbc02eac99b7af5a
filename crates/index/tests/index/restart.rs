//! Searches after a restart equal those before, whatever happened to files that only save time.

use std::fs;

use weir_filter::Filter;
use weir_index::Change;
use weir_ranking::RetrievalMode;

use crate::sample::*;

/// Enough for codes.
const DOCUMENTS: usize = 2500;
const QUERY: [f32; DIMENSION] = [0.9, -0.4, 0.3, 0.1];

/// Documents with distinct embeddings, and their numbers as metadata.
fn puts(numbers: std::ops::Range<usize>) -> Vec<Change> {
    numbers
        .map(|number| {
            let angle = |i: usize| (number as f32 * 0.37 + i as f32 * 1.3).sin();
            let mut document =
                document(&format!("d{number}"), 1, &[("apples", (0..DIMENSION).map(angle).collect())]);
            document.metadata = format!("{{\"number\": {number}}}");
            Change::Put(document)
        })
        .collect()
}

/// Ids and scores of a dense and of a hybrid search.
fn found(index: &Index) -> Vec<(String, f32)> {
    let modes = [RetrievalMode::Dense, RetrievalMode::Hybrid];
    let hits = modes.map(|mode| index.search(&request(mode, "apples", Some(QUERY.to_vec()))).hits);
    hits.into_iter().flatten().map(|hit| (hit.document_id, hit.score)).collect()
}

fn restarted(index: Index) -> Index {
    index.engine.close().unwrap();
    let (index, rebuilt) = index.reopen();
    assert_eq!(rebuilt, None);
    index
}

#[test]
fn searches_are_equal_with_and_without_the_stored_codes() {
    let index = Index::new(settings());
    index.apply(puts(0..DOCUMENTS), 1);
    let before = found(&index);
    let mut index = restarted(index);
    assert_eq!(found(&index), before);
    let path = index.folder.path().join("codes");
    let good = fs::read(&path).unwrap();
    for damage in [None, Some(&good[..good.len() / 2]), Some(b"not codes")] {
        match damage {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        fs::write(index.folder.path().join("codes.new"), "half a fi").unwrap();
        let (reopened, rebuilt) = index.reopen();
        assert_eq!(rebuilt, None);
        assert_eq!(found(&reopened), before);
        index = restarted(reopened);
        assert_eq!(fs::read(&path).unwrap(), good, "written again");
    }
}

#[test]
fn changes_after_the_codes_were_stored_are_found_after_a_crash() {
    let index = Index::new(settings());
    index.apply(puts(0..DOCUMENTS), 1);
    let index = restarted(index);
    index.apply(puts(DOCUMENTS..DOCUMENTS + 100), 2);
    index.apply((0..50).map(|number| remove(&format!("d{number}"))).collect(), 3);
    let before = found(&index);
    let (index, rebuilt) = index.reopen();
    assert_eq!(rebuilt, None);
    assert_eq!(found(&index), before);
    assert!(index.engine.verify().unwrap().is_sound());
}

#[test]
fn the_first_search_after_opening_filters_by_metadata_and_the_next_batch_adds_to_it() {
    let index = Index::new(settings());
    index.apply(puts(0..20), 1);
    let below = |index: &Index, limit: usize| {
        let mut filtered = lexical("apples");
        filtered.filter =
            Some(Filter::from_value(&serde_json::json!({ "number": { "lt": limit } })).unwrap());
        index.search(&filtered).hits.len()
    };
    let index = restarted(index);
    assert_eq!(below(&index, 3), 3);
    let index = restarted(index);
    index.apply(puts(20..25), 2);
    assert_eq!((below(&index, 3), below(&index, 25)), (3, 10));
    let mut counted = lexical("apples");
    counted.filter = Some(Filter::from_value(&serde_json::json!({ "number": { "gte": 19 } })).unwrap());
    assert_eq!(index.search(&counted).hits.len(), 6, "documents of both batches");
}
