//! The contract of every engine, seen through [`Engine`] alone: each test runs over each engine. Permitted differences are in
//! [`features`](crate::features), which a test here holds them to.

mod fields;
mod pages;

use weir_filter::Filter;
use weir_policy::Caller;
use weir_qdrant::{Qdrant, QdrantSettings};
use weir_qdrant_mock::Cluster;
use weir_query::Query;
use weir_ranking::RetrievalMode;
use weir_text::Language;

use self::fields::{fields_filter_sort_count_and_group, white_space_in_names_and_values_is_as_other_text};
use self::pages::{pages_follow_each_other, pages_hold_where_scores_and_sort_keys_are_equal};
use super::Exact;
use crate::features::{FEATURES, Support};
use crate::{
    Change, CpuLimiter, Engine, EngineId, EngineKind, EngineSettings, Engines, FacetSpec, Grouping,
    HistoryPoint, IndexError, IndexQuery, IndexResult, IndexedChunk, IndexedDocument, QdrantEngines,
    QdrantPlacement, SortKey, TraceStage,
};

pub(crate) const DIMENSION: usize = 4;

/// An empty engine, and where it keeps what it has.
pub(crate) struct Opened {
    pub(crate) engine: Engine,
    _folder: Option<tempfile::TempDir>,
    _cluster: Option<Cluster>,
}

pub(crate) fn settings() -> EngineSettings {
    EngineSettings {
        dimension: DIMENSION,
        language: Language::English,
        fingerprint: "model-1".to_owned(),
        writer_memory_bytes: 15_000_000,
    }
}

pub(crate) async fn embedded() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let engines = Engines::embedded(folder.path(), CpuLimiter::start(1, || ()).unwrap(), 1);
    let id = EngineId { kind: EngineKind::Embedded, collection: 1, generation: 1 };
    let opened = engines.open(id, settings(), 1_000_000).await;
    Opened { engine: opened.unwrap().engine, _folder: Some(folder), _cluster: None }
}

pub(crate) async fn exact() -> Opened {
    Opened { engine: Engine::Exact(Exact::new(settings())), _folder: None, _cluster: None }
}

pub(crate) async fn qdrant() -> Opened {
    let cluster = Cluster::start(3, None).unwrap();
    let engine = in_cluster(&cluster.urls(), "contract", 1).await;
    Opened { engine, _folder: None, _cluster: Some(cluster) }
}

/// An engine in the cluster of `QDRANT_URLS`, for a service that there is no other of.
#[allow(clippy::disallowed_methods, reason = "an address for tests, not a setting of the gateway")]
async fn real_qdrant() -> Option<Engine> {
    let urls: Vec<String> = std::env::var("QDRANT_URLS").ok()?.split(',').map(str::to_owned).collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Some(in_cluster(&urls, &format!("contract-{}-{}", std::process::id(), now.as_nanos()), 1).await)
}

/// The engines of a process that has embedded ones too.
pub(crate) fn beside_embedded(qdrant: QdrantEngines) -> Engines {
    Engines::embedded("/nonexistent", CpuLimiter::start(1, || ()).unwrap(), 1).with_qdrant(qdrant)
}

/// An engine in a cluster.
pub(crate) async fn in_cluster(urls: &[String], service: &str, collection: i64) -> Engine {
    let client = Qdrant::new(&QdrantSettings::new(urls.to_vec())).unwrap();
    let placement = QdrantPlacement {
        prefix: "weir".to_owned(),
        service: service.to_owned(),
        shards: 6,
        copies: 3,
        copies_written: 2,
    };
    let id = EngineId { kind: EngineKind::Qdrant, collection, generation: 1 };
    let engines = beside_embedded(QdrantEngines::new(client, placement, 1 << 20));
    engines.open(id, settings(), 1_000_000).await.unwrap().engine
}

/// A document of chunks with a text and an embedding each.
pub(crate) fn document(id: &str, version: u64, chunks: &[(&str, [f32; DIMENSION])]) -> IndexedDocument {
    let mut end = 0;
    let chunk = |(text, embedding): &(&str, [f32; DIMENSION])| {
        let start = end;
        end += text.len();
        IndexedChunk { start, end, text: (*text).to_owned(), embedding: Some(embedding.to_vec()) }
    };
    IndexedDocument {
        id: id.to_owned(),
        version,
        title: None,
        metadata: "{}".to_owned(),
        pages: None,
        chunks: chunks.iter().map(chunk).collect(),
    }
}

fn axis(number: usize) -> [f32; DIMENSION] {
    std::array::from_fn(|place| if place == number { 1.0 } else { 0.0 })
}

pub(crate) fn put(id: &str, version: u64, text: &str, number: usize) -> Change {
    Change::Put(document(id, version, &[(text, axis(number))]))
}

pub(crate) fn put_with(id: &str, text: &str, number: usize, metadata: &str) -> Change {
    let metadata = metadata.to_owned();
    Change::Put(IndexedDocument { metadata, ..document(id, 1, &[(text, axis(number))]) })
}

pub(crate) fn remove(id: &str, before: u64) -> Change {
    Change::Remove { id: id.to_owned(), before }
}

pub(crate) fn words(text: &str) -> IndexQuery {
    IndexQuery::new(RetrievalMode::Lexical, Some(Query::Words(text.to_owned())), None, 10)
}

fn nearest(number: usize) -> IndexQuery {
    IndexQuery::new(RetrievalMode::Dense, None, Some(axis(number).to_vec()), 10)
}

pub(crate) fn both(text: &str, number: usize) -> IndexQuery {
    IndexQuery { mode: RetrievalMode::Hybrid, embedding: Some(axis(number).to_vec()), ..words(text) }
}

fn names(found: &IndexResult) -> String {
    let names = found.hits.iter().map(|hit| format!("{}.{}", hit.document_id, hit.chunk));
    names.collect::<Vec<_>>().join(" ")
}

pub(crate) async fn found(engine: &Engine, query: IndexQuery) -> String {
    names(&engine.search(&Caller::system(), query).await.unwrap())
}

fn tenant(name: &str) -> Caller {
    let filter = Filter::from_value(&serde_json::json!({ "tenant": name })).unwrap();
    Caller { filter: Some(filter.into()), ..Caller::system() }
}

/// Defines each test for each engine.
macro_rules! contract {
    ($($name:ident)*) => {
        mod with_embedded {
            $(#[tokio::test] async fn $name() { super::$name(&super::embedded().await.engine).await })*
        }
        mod with_qdrant {
            $(#[tokio::test] async fn $name() { super::$name(&super::qdrant().await.engine).await })*
        }
        mod with_a_real_qdrant {
            $(#[tokio::test] async fn $name() {
                let Some(engine) = super::real_qdrant().await else {
                    return println!("skipped: set QDRANT_URLS to the addresses of a Qdrant cluster, separated by commas");
                };
                super::$name(&engine).await;
                drop(engine.discard().await);
            })*
        }
        mod with_exact {
            $(#[tokio::test] async fn $name() { super::$name(&super::exact().await.engine).await })*
        }
    };
}

contract! {
    a_batch_is_visible_when_it_is_applied_and_again_changes_nothing
    batches_come_in_order_and_embeddings_fit
    a_removed_document_is_hidden_at_once_and_stays_hidden
    a_closed_engine_answers_and_applies_nothing
    a_discarded_engine_says_so_and_starts_again
    both_retrievers_rank_and_are_fused
    names_come_first_and_their_part_is_explained
    hits_have_texts_neighbours_and_documents
    documents_that_a_filter_hides_do_not_exist
    fields_filter_sort_count_and_group
    white_space_in_names_and_values_is_as_other_text
    near_duplicates_are_one_hit_and_diversity_reorders
    pages_follow_each_other
    pages_hold_where_scores_and_sort_keys_are_equal
    a_document_is_followed_through_the_stages
    features_of_a_document_are_those_of_its_hit
    what_the_table_refuses_is_refused_and_nothing_else
    unfit_queries_are_refused_alike
}

async fn a_batch_is_visible_when_it_is_applied_and_again_changes_nothing(engine: &Engine) {
    assert_eq!((engine.applied_seq(), engine.read_to().await.unwrap()), (0, None));
    let point = Some(HistoryPoint { operation: 9, identity: -4 });
    let batch =
        || vec![put("a", 1, "green apples", 0), put("b", 1, "pears", 1), put("a", 2, "red apples", 2)];
    for _ in 0..2 {
        engine.apply(batch(), 3, point).await.unwrap();
        let counts = engine.counts().await.unwrap();
        assert_eq!((counts.documents, counts.chunks), (2, 2));
        assert_eq!((engine.applied_seq(), engine.read_to().await.unwrap()), (3, point));
        assert_eq!(found(engine, words("apples pears")).await.len(), "a.0 b.0".len());
        assert_eq!(found(engine, words("green")).await, "");
        assert_eq!(found(engine, IndexQuery { limit: 1, ..nearest(2) }).await, "a.0");
    }
    engine.apply(vec![put("a", 1, "old apples", 0), remove("b", 5)], 4, None).await.unwrap();
    assert_eq!(found(engine, words("old pears red")).await, "a.0", "an older version replaces nothing");
    assert_eq!(engine.read_to().await.unwrap(), point, "a batch without a number keeps the last one");
    assert!(engine.verify().await.unwrap().is_sound());
    engine.flush().await.unwrap();
    engine.check_files().await.unwrap();
    assert_eq!(found(engine, words("red")).await, "a.0");
}

async fn batches_come_in_order_and_embeddings_fit(engine: &Engine) {
    engine.apply(vec![put("a", 1, "apples", 0)], 5, None).await.unwrap();
    let late = engine.apply(vec![put("b", 1, "pears", 0)], 4, None).await;
    assert!(matches!(late, Err(IndexError::OutOfOrder { applied_seq: 4, current: 5 })));
    let mut short = document("b", 1, &[("pears", axis(0))]);
    short.chunks[0].embedding = Some(vec![1.0]);
    let unfit = engine.apply(vec![put("c", 1, "plums", 0), Change::Put(short.clone())], 6, None).await;
    assert!(matches!(unfit, Err(IndexError::EmbeddingLength { expected: DIMENSION, actual: 1 })));
    short.chunks[0].embedding = None;
    let missing = engine.apply(vec![Change::Put(short)], 6, None).await;
    assert!(matches!(missing, Err(IndexError::EmbeddingMissing(DIMENSION))));
    assert_eq!(
        (engine.applied_seq(), found(engine, words("apples pears plums")).await),
        (5, "a.0".to_owned())
    );
}

async fn a_removed_document_is_hidden_at_once_and_stays_hidden(engine: &Engine) {
    engine.apply(vec![put("a", 1, "apples", 0), put("b", 1, "apples", 1)], 2, None).await.unwrap();
    assert!(engine.remove_now("a", 5).await.unwrap());
    assert!(!engine.remove_now("a", 5).await.unwrap(), "it is hidden already");
    assert!(!engine.remove_now("x", 6).await.unwrap(), "there is none");
    assert!(!engine.remove_now("b", 2).await.unwrap(), "what was applied is newer");
    assert_eq!(
        (found(engine, words("apples")).await, found(engine, nearest(0)).await),
        ("b.0".into(), "b.0".into())
    );
    engine.apply(vec![put("a", 4, "apples", 0)], 4, None).await.unwrap();
    assert_eq!(found(engine, words("apples")).await, "b.0", "an earlier change does not bring it back");
    engine.apply(vec![put("a", 7, "apples", 0)], 7, None).await.unwrap();
    assert_eq!(found(engine, words("apples")).await, "b.0 a.0");
}

async fn a_closed_engine_answers_and_applies_nothing(engine: &Engine) {
    engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await.unwrap();
    engine.close().await.unwrap();
    engine.close().await.unwrap();
    assert_eq!(found(engine, both("apples", 0)).await, "a.0");
    let refused = engine.apply(vec![put("b", 1, "apples", 0)], 2, None).await;
    assert!(matches!(refused, Err(IndexError::Closed)), "{refused:?}");
    assert_eq!(found(engine, both("apples", 0)).await, "a.0");
}

async fn a_discarded_engine_says_so_and_starts_again(engine: &Engine) {
    engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await.unwrap();
    assert!(matches!(engine.discard().await, Err(IndexError::Lost { .. })));
    assert_eq!((engine.applied_seq(), engine.counts().await.unwrap().documents), (0, 0));
    engine.apply(vec![put("b", 1, "apples", 0)], 1, None).await.unwrap();
    assert_eq!(found(engine, words("apples")).await, "b.0");
}

async fn both_retrievers_rank_and_are_fused(engine: &Engine) {
    let mixed = [0.8, 0.6, 0.0, 0.0];
    let long =
        document("b", 1, &[("pears", axis(1)), ("apples apples", mixed), ("apples and more", axis(0))]);
    engine.apply(vec![put("a", 1, "apples", 2), Change::Put(long)], 1, None).await.unwrap();
    assert_eq!(found(engine, words("apples")).await, "b.1 a.0");
    assert_eq!(found(engine, nearest(0)).await, "b.2 a.0");
    let result = engine.search(&Caller::system(), both("apples", 2)).await.unwrap();
    assert_eq!((result.lexical.documents, result.dense.documents, result.existing_chunks), (2, 2, 4));
    assert_eq!(names(&result), "a.0 b.1");
    assert_eq!(result.hits[0].dense.map(|rank| (rank.rank, rank.score)), Some((1, 1.0)));
    assert_eq!(result.dense.best[0].document_id, "a");
    let chunks = IndexQuery { group_by: Grouping::Chunk, smoothing: false, ..words("apples") };
    assert_eq!(found(engine, chunks).await, "b.1 a.0 b.2");
    assert_eq!(found(engine, words("nothing")).await, "");
}

async fn names_come_first_and_their_part_is_explained(engine: &Engine) {
    let titled = |id: &str, title: &str, text: &str| {
        let title = Some(title.to_owned());
        Change::Put(IndexedDocument { title, ..document(id, 1, &[(text, axis(0))]) })
    };
    let text = "weir weir weir";
    let all = vec![
        titled("x", "of weirs", text),
        titled("weir-guide", "a guide", "stones"),
        titled("y", "Weir", "dams"),
    ];
    engine.apply(all, 1, None).await.unwrap();
    let query = IndexQuery { explain: true, ..words("weir") };
    let result = engine.search(&Caller::system(), query).await.unwrap();
    assert_eq!(names(&result), "y.0 weir-guide.0 x.0", "the whole title, a beginning, the words");
    let parts = result.hits[0].explanation.as_ref().unwrap();
    assert!(parts.name > 0.0 && parts.terms[0].frequency == 1, "{parts:?}");
    assert!((parts.lexical + parts.neighbours + parts.name - result.hits[0].score).abs() < 1e-4, "{parts:?}");
}

async fn hits_have_texts_neighbours_and_documents(engine: &Engine) {
    let texts = ["one", "two", "three", "four"];
    let chunks: Vec<(&str, [f32; DIMENSION])> = texts.into_iter().zip((0..4).map(axis)).collect();
    let whole = IndexedDocument {
        title: Some("Numbers".to_owned()),
        metadata: r#"{"odd":"\u00fc"}"#.to_owned(),
        pages: Some("pages".to_owned()),
        ..document("n", 7, &chunks)
    };
    engine.apply(vec![Change::Put(whole), put("m", 1, "five", 3)], 1, None).await.unwrap();
    let query = IndexQuery { context: 2, limit: 1, ..nearest(1) };
    let hit = engine.search(&Caller::system(), query).await.unwrap().hits.remove(0);
    assert_eq!((hit.text.as_str(), hit.chunk, hit.start, hit.end, hit.version), ("two", 1, 3, 6, 7));
    assert_eq!((hit.title.as_deref(), hit.pages.as_deref()), (Some("Numbers"), Some("pages")));
    assert_eq!(hit.metadata, r#"{"odd":"\u00fc"}"#, "byte for byte");
    let context: Vec<(u32, &str)> =
        hit.context.iter().map(|chunk| (chunk.chunk, chunk.text.as_str())).collect();
    assert_eq!(context, [(0, "one"), (2, "three"), (3, "four")], "none of another document");
}

async fn documents_that_a_filter_hides_do_not_exist(engine: &Engine) {
    let own = r#"{"tenant":"a","kind":"note"}"#;
    let all = vec![
        put_with("hidden", "apples apples", 0, r#"{"tenant":"b","secret":1}"#),
        put_with("own", "apples and pears", 1, own),
    ];
    engine.apply(all, 1, None).await.unwrap();
    let query = || IndexQuery { explain: true, trace: Some("hidden".to_owned()), ..both("apples", 0) };
    let result = engine.search(&tenant("a"), query()).await.unwrap();
    assert_eq!((names(&result), result.existing_chunks, result.selected), ("own.0".to_owned(), 1, Some(1)));
    assert_eq!(result.trace.map(|trace| trace.stage), Some(TraceStage::Missing));
    assert_eq!(
        result.hits[0].explanation.as_ref().unwrap().terms[0].chunks,
        1,
        "frequencies are of one's own"
    );
    assert_eq!((result.applied_seq, result.shown_seq), (1, 1));
    let sorted = |field: &str| {
        let sort = vec![SortKey { field: field.to_owned(), descending: false }];
        IndexQuery { sort, ..words("apples") }
    };
    let unknown = engine.search(&tenant("a"), sorted("secret")).await;
    assert!(matches!(unknown, Err(IndexError::UnknownField { field, .. }) if field == "secret"));
    assert_eq!(engine.search(&tenant("a"), sorted("kind")).await.unwrap().hits.len(), 1);
    assert_eq!(engine.search(&tenant("c"), words("apples")).await.unwrap().hits.len(), 0);
    assert_eq!(engine.features(&tenant("a"), words("apples"), "hidden").await.unwrap(), None);
}

async fn near_duplicates_are_one_hit_and_diversity_reorders(engine: &Engine) {
    let text = "the sluice lets the water of the river through the weir";
    let near = [0.9, 0.1, 0.0, 0.0];
    let all = vec![
        put("a", 1, text, 0),
        put("b", 1, text, 0),
        Change::Put(document("c", 1, &[("a sluice of stone", near)])),
        put("d", 1, "sluice", 1),
    ];
    engine.apply(all, 1, None).await.unwrap();
    let query = IndexQuery { collapse: true, ..nearest(0) };
    let result = engine.search(&Caller::system(), query).await.unwrap();
    assert_eq!(
        (names(&result), result.hits[0].collapsed.join(" ")),
        ("a.0 c.0 d.0".to_owned(), "b".to_owned())
    );
    assert_eq!(found(engine, IndexQuery { diversity: 0.9, ..nearest(0) }).await, "a.0 d.0 b.0 c.0");
}

async fn a_document_is_followed_through_the_stages(engine: &Engine) {
    let all = vec![
        put_with("a", "apples", 0, r#"{"year":1}"#),
        put_with("b", "apples", 0, r#"{"year":1}"#),
        put_with("c", "pears", 1, r#"{"year":2}"#),
    ];
    engine.apply(all, 1, None).await.unwrap();
    let filter = Filter::parse(r#"{"year":1}"#).unwrap();
    let base = IndexQuery { limit: 1, filter: Some(filter), ..words("apples") };
    for (id, group_by, stage) in [
        ("a", Grouping::Document, TraceStage::Found),
        ("b", Grouping::Document, TraceStage::Limit),
        ("b", Grouping::Field("year".to_owned()), TraceStage::Limit),
        ("c", Grouping::Document, TraceStage::Filter),
        ("x", Grouping::Document, TraceStage::Missing),
    ] {
        let query = IndexQuery { trace: Some(id.to_owned()), group_by, ..base.clone() };
        let trace = engine.search(&Caller::system(), query).await.unwrap().trace.unwrap();
        assert_eq!(trace.stage, stage, "{id}");
    }
    let query = IndexQuery { trace: Some("c".to_owned()), ..words("apples") };
    let trace = engine.search(&Caller::system(), query).await.unwrap().trace.unwrap();
    assert_eq!((trace.stage, trace.lexical), (TraceStage::Candidates, None));
}

async fn features_of_a_document_are_those_of_its_hit(engine: &Engine) {
    let put =
        |number: usize| put(&format!("d{number}"), 1, if number == 3 { "weir" } else { "stone" }, number % 4);
    engine.apply((0..40).map(put).collect(), 1, None).await.unwrap();
    for query in [words("weir"), nearest(3), both("weir", 3)] {
        let hit = engine.search(&Caller::system(), query.clone()).await.unwrap().hits.remove(0);
        let features = engine.features(&Caller::system(), query.clone(), &hit.document_id).await.unwrap();
        assert!(features.is_some() && hit.relevance.is_some());
        // each search teaches the score baseline
        let again = engine.features(&Caller::system(), query, &hit.document_id).await.unwrap();
        assert_eq!(again, features);
    }
    assert_eq!(engine.features(&Caller::system(), words("weir"), "d4").await.unwrap(), None);
    engine.reset_baseline().await.unwrap();
    assert_eq!(engine.learned_relevance().1, (0.0, 0.0));
}

/// A query for each row that can be asked for.
fn asking(name: &str) -> Option<IndexQuery> {
    let parsed = |text: &str| IndexQuery { query: weir_query::parse(text).ok(), ..words("") };
    let base = words("apples");
    Some(match name {
        "phrases, `AND`, `OR`, `NOT`" => parsed("apples AND NOT pears"),
        "prefixes and wildcards" => parsed("appl*"),
        "`field:value` in queries" => parsed("year:1"),
        "unfinished last word" => IndexQuery { is_unfinished: true, ..base },
        "dense ranking" => nearest(0),
        "fusion" | "smoothing" => both("apples", 0),
        "filter" => IndexQuery { filter: Filter::parse(r#"{"year":1}"#).ok(), ..base },
        "order of strings in filters" => {
            IndexQuery { filter: Filter::parse(r#"{"not":{"year":{"gt":"x"}}}"#).ok(), ..base }
        }
        "list without a query" => IndexQuery { query: None, ..base },
        "sort by fields" => {
            IndexQuery { sort: vec![SortKey { field: "year".to_owned(), descending: true }], ..base }
        }
        "facets" => IndexQuery { facets: vec![FacetSpec { field: "year".to_owned(), limit: 1 }], ..base },
        "count of all matches" => IndexQuery { count: true, ..base },
        "group by chunk" => IndexQuery { group_by: Grouping::Chunk, ..base },
        "group by field" => IndexQuery { group_by: Grouping::Field("year".to_owned()), ..base },
        "near-duplicates" => IndexQuery { collapse: true, ..base },
        "diversity" => IndexQuery { diversity: 0.5, ..base },
        "pages of one snapshot" => IndexQuery { pin: true, ..base },
        "neighbouring chunks" => IndexQuery { context: 1, ..base },
        "parts of scores" => IndexQuery { explain: true, ..base },
        "the way of a document" => IndexQuery { trace: Some("a".to_owned()), ..base },
        "lexical ranking" | "pages" | "relevance" | "exact names first" => base,
        "exact dense scores of lexical candidates" => both("apples", 0),
        "spelling correction"
        | "synonyms, stop words, weight of titles"
        | "fields of deleted documents stay known" => return None,
        other => panic!("`{other}` needs a query here"),
    })
}

async fn what_the_table_refuses_is_refused_and_nothing_else(engine: &Engine) {
    engine.apply(vec![put_with("a", "apples", 0, r#"{"year":1}"#)], 1, None).await.unwrap();
    for feature in FEATURES {
        let Some(query) = asking(feature.name) else { continue };
        let result = engine.search(&Caller::system(), query.clone()).await;
        match (engine.support(feature), result) {
            (Support::Refused(remedy), Err(error)) => {
                assert!(
                    error.to_string().contains(remedy) && error.to_string().contains(feature.name),
                    "{error}"
                );
                assert!(matches!(error, IndexError::NotSupported { .. }));
                assert!(engine.features(&Caller::system(), query, "a").await.is_err());
            }
            (Support::Engine | Support::Pipeline | Support::Absent, Ok(result)) => {
                assert_eq!(names(&result), "a.0", "{query:?}")
            }
            (support, result) => panic!("`{}` is {support:?}: {result:?}", feature.name),
        }
    }
}

async fn unfit_queries_are_refused_alike(engine: &Engine) {
    let refused = async |query: IndexQuery| engine.search(&Caller::system(), query).await.unwrap_err();
    let short = IndexQuery { embedding: Some(vec![1.0; 3]), ..nearest(0) };
    assert!(matches!(refused(short).await, IndexError::EmbeddingLength { expected: DIMENSION, actual: 3 }));
    let none = IndexQuery { embedding: None, ..both("apples", 0) };
    assert!(matches!(refused(none).await, IndexError::EmbeddingMissing(DIMENSION)));
    let diverse = IndexQuery { diversity: 2.0, ..words("apples") };
    assert!(matches!(refused(diverse).await, IndexError::InvalidParameter { name: "diversity", .. }));
    let unknown = IndexQuery { group_by: Grouping::Field("none".to_owned()), ..words("apples") };
    assert!(matches!(refused(unknown).await, IndexError::UnknownField { .. }));
}

/// Every part of a query belongs to a row: a new one does not compile here before it has a place in the table.
#[test]
fn every_part_of_a_query_has_a_row() {
    let IndexQuery {
        query: _,
        is_unfinished: _,
        expanded_terms_max: _,
        lexical: _,
        strict: _,
        embedding: _,
        mode: _,
        fusion: _,
        smoothing: _,
        depth: _,
        offset: _,
        limit: _,
        as_of: _,
        pin: _,
        filter: _,
        group_by: _,
        sort: _,
        facets: _,
        exact_facets: _,
        count: _,
        diversity: _,
        collapse: _,
        context: _,
        explain: _,
        trace: _,
    } = words("");
    let names: std::collections::HashSet<&str> = FEATURES.iter().map(|feature| feature.name).collect();
    assert_eq!(names.len(), FEATURES.len(), "names are distinct");
    FEATURES.iter().for_each(|feature| drop(asking(feature.name)));
}
