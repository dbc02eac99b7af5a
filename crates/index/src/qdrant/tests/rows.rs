//! The rows that each call to the cluster names.

use weir_policy::Caller;
use weir_qdrant::TENANT;
use weir_qdrant::api::condition::ConditionOneOf;
use weir_qdrant::api::r#match::MatchValue;
use weir_qdrant::api::points_selector::PointsSelectorOneOf;
use weir_qdrant::api::{Filter, UpsertPoints};
use weir_qdrant_mock::Recorded;
use weir_text::Language;

use super::{Gateway, scores};
use crate::exact::contract::{both, document, found, put, put_with, remove, settings, words};
use crate::exact::faults::rich_query;
use crate::{Change, EngineSettings, IndexQuery, IndexedDocument};

/// Whether a filter lets points of this tenant alone through.
fn names_tenant(filter: Option<&Filter>, tenant: &str) -> bool {
    let is_it = |condition: &weir_qdrant::api::Condition| match &condition.condition_one_of {
        Some(ConditionOneOf::Field(field)) if field.key == TENANT => {
            let wanted = field.r#match.as_ref().and_then(|wanted| wanted.match_value.as_ref());
            wanted == Some(&MatchValue::Keyword(tenant.to_owned()))
        }
        _ => false,
    };
    filter.is_some_and(|filter| filter.must.iter().any(is_it))
}

fn tenants_of(upsert: &UpsertPoints) -> Vec<String> {
    upsert.points.iter().map(|point| point.payload[TENANT].to_string().trim_matches('"').to_owned()).collect()
}

#[tokio::test]
async fn row_tenants_every_call_names_the_tenant_and_a_point_that_is_not_ours_is_never_shown() {
    let gateway = Gateway::start();
    let (own, other) = (gateway.engine_of(1).await, gateway.engine_of(2).await);
    let change = |id: &str| put_with(id, "apples", 0, r#"{"year":1}"#);
    other.apply(vec![change("theirs"), change("b")], 1, None).await.unwrap();
    gateway.cluster.take_recorded();
    own.apply(vec![change("a"), change("b"), remove("theirs", 2)], 1, None).await.unwrap();
    own.remove_now("theirs", 2).await.unwrap();
    let listing = IndexQuery { query: None, ..words("") };
    for (query, expected) in [(rich_query(), "a.0"), (words("apples"), "a.0 b.0"), (listing, "a.0 b.0")] {
        assert_eq!(found(&own, query).await, expected);
    }
    own.verify().await.unwrap();
    own.counts().await.unwrap();
    let (tenant, head) = ("service/1/1", "service/1/1/head");
    for recorded in gateway.cluster.take_recorded() {
        match recorded {
            Recorded::Upsert(upsert) => {
                assert!(tenants_of(&upsert).iter().all(|name| name == tenant || name == head), "{upsert:?}");
            }
            Recorded::Delete(delete) => match delete.points.unwrap().points_selector_one_of.unwrap() {
                PointsSelectorOneOf::Filter(filter) => {
                    // before the first batch also what is applied
                    let is_ours = [tenant, head].iter().any(|name| names_tenant(Some(&filter), name));
                    assert!(is_ours, "{filter:?}");
                }
                PointsSelectorOneOf::Points(points) => panic!("{points:?}"),
            },
            Recorded::Scroll(scroll) => assert!(names_tenant(scroll.filter.as_ref(), tenant), "{scroll:?}"),
            Recorded::Count(count) => assert!(names_tenant(count.filter.as_ref(), tenant), "{count:?}"),
            Recorded::QueryBatch(batch) => {
                let all = batch.query_points.iter();
                all.for_each(|query| assert!(names_tenant(query.filter.as_ref(), tenant), "{query:?}"));
            }
            // by ids, which are of the tenant; what comes back is checked
            Recorded::Get(_) => {}
            Recorded::Other(name) => panic!("{name}"),
        }
    }
    assert_eq!(found(&other, words("apples")).await, "b.0 theirs.0");
    // a point that a fault of the cluster has put under an id of ours
    let alias = |state: &weir_qdrant_mock::ClusterState| state.aliases.keys().next().unwrap().clone();
    {
        let state = &mut *gateway.cluster.state();
        let name = alias(state);
        let points = &mut state.collection_mut(&name).unwrap().points;
        points
            .get_mut(&weir_qdrant::point_id(tenant, "a", 0).to_string())
            .unwrap()
            .payload
            .insert("m".to_owned(), r#"{"year":2}"#.into());
    }
    let filter = Some(weir_filter::Filter::parse(r#"{"year":1}"#).unwrap());
    assert_eq!(
        found(&own, IndexQuery { filter, ..words("apples") }).await,
        "b.0",
        "the cluster says that it passes"
    );
}

#[tokio::test]
async fn row_idf_rarity_is_of_the_collection_and_not_of_others() {
    let gateway = Gateway::start();
    let own = gateway.engine_of(1).await;
    let all = vec![put("a", 1, "apples and pears", 0), put("b", 1, "pears", 1), put("c", 1, "pears", 2)];
    own.apply(all, 1, None).await.unwrap();
    let before = scores(&own, words("apples pears")).await;
    assert_eq!(before[0].0, "a");
    let other = gateway.engine_of(2).await;
    let many = (0..40).map(|number| put(&format!("x{number}"), 1, "apples", 0)).collect();
    other.apply(many, 1, None).await.unwrap();
    gateway.cluster.take_recorded();
    assert_eq!(scores(&own, words("apples pears")).await, before);
    for recorded in gateway.cluster.take_recorded() {
        let Recorded::QueryBatch(batch) = recorded else { continue };
        // those that name a document rank nothing
        for query in batch.query_points.into_iter().filter(|query| query.query.is_some()) {
            let corpus = query.params.unwrap().idf.unwrap().corpus;
            assert!(names_tenant(corpus.as_ref(), "service/1/1"), "{corpus:?}");
        }
    }
    let query = IndexQuery { explain: true, ..words("apples pears") };
    let result = own.search(&Caller::system(), query).await.unwrap();
    let terms = &result.hits[0].explanation.as_ref().unwrap().terms;
    let held: Vec<(&str, u64)> = terms.iter().map(|term| (term.term.as_str(), term.chunks)).collect();
    assert_eq!(held, [("appl", 1), ("pear", 3)], "computed from the scores of the cluster");
}

#[tokio::test]
async fn row_bm25_terms_are_those_of_our_analysis_in_every_language() {
    let gateway = Gateway::start();
    for (generation, language, text, query) in [
        (1, Language::German, "Der Donaudampfschifffahrtskapitän grüßt", "donaudampfschifffahrtskapitan"),
        (2, Language::English, "running weirs", "run weir"),
        (3, Language::English, "東京都の天気", "東京"),
        (4, Language::English, "set WEIR_HOME_DIR first", "home dir"),
    ] {
        let settings = EngineSettings { language, ..settings() };
        let id = crate::EngineId { kind: crate::EngineKind::Qdrant, collection: 1, generation };
        let engine = gateway.engines.open(id, settings, 1_000).await.unwrap().engine;
        gateway.cluster.take_recorded();
        engine.apply(vec![put("a", 1, text, 0)], 1, None).await.unwrap();
        assert_eq!(found(&engine, words(query)).await, "a.0", "{text}");
        let sent = format!("{:?}", gateway.cluster.take_recorded());
        assert!(
            !sent.contains("Document(") && !sent.contains("qdrant/bm25"),
            "no text is left to the server"
        );
    }
}

#[tokio::test]
async fn row_rrf_rankings_are_fused_here_and_each_is_filtered() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(vec![put_with("a", "apples", 0, r#"{"year":1}"#)], 1, None).await.unwrap();
    gateway.cluster.take_recorded();
    let filter = Some(weir_filter::Filter::parse(r#"{"year":1}"#).unwrap());
    assert_eq!(found(&engine, IndexQuery { filter, ..both("apples", 0) }).await, "a.0");
    let recorded = gateway.cluster.take_recorded();
    let batches = recorded.iter().filter_map(|one| match one {
        Recorded::QueryBatch(batch) => Some(&batch.query_points),
        _ => None,
    });
    let queries: Vec<_> = batches.flatten().collect();
    assert!(queries.iter().all(|query| query.prefetch.is_empty()), "{queries:?}");
    // the read terms give their rarity
    let ranking = queries.iter().filter(|query| query.with_vectors.is_none());
    assert!(ranking.clone().count() >= 2);
    let filter = queries[0].filter.as_ref().unwrap();
    assert_eq!(filter.must.len(), 2, "{filter:?}");
    ranking.for_each(|query| {
        assert!(query.filter.as_ref().unwrap().must.starts_with(&filter.must), "{query:?}")
    });
}

#[tokio::test]
async fn row_quantization_what_int8_ranks_is_compared_exactly() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await.unwrap();
    gateway.cluster.take_recorded();
    found(&engine, both("apples", 0)).await;
    let sent = gateway.cluster.take_recorded();
    let dense = sent.iter().filter_map(|one| match one {
        Recorded::QueryBatch(batch) => {
            batch.query_points.iter().find(|query| query.using.as_deref() == Some("dense"))
        }
        _ => None,
    });
    let params: Vec<_> = dense.map(|query| query.params.clone().unwrap()).collect();
    let quantization = params[0].quantization.unwrap();
    assert_eq!((quantization.rescore, quantization.oversampling), (Some(true), Some(2.0)));
}

#[tokio::test]
async fn row_batching_a_large_batch_is_sent_in_parts_and_small_documents_together() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    gateway.cluster.take_recorded();
    let texts: Vec<String> = (0..300).map(|number| format!("word{number}")).collect();
    let chunks: Vec<(&str, [f32; 4])> =
        texts.iter().map(|text| (text.as_str(), [1.0, 0.0, 0.0, 0.0])).collect();
    let mut all = vec![Change::Put(document("long", 1, &chunks))];
    all.extend((0..200).map(|number| put(&format!("d{number}"), 1, "apples", 0)));
    engine.apply(all, 1, None).await.unwrap();
    let sizes: Vec<usize> = gateway
        .cluster
        .take_recorded()
        .iter()
        .filter_map(|one| match one {
            Recorded::Upsert(upsert) => Some(upsert.points.len()),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [128, 128, 44, 128, 72, 1], "the last is what is applied");
    let counts = engine.counts().await.unwrap();
    assert_eq!((counts.documents, counts.chunks), (201, 500));
}

#[tokio::test]
async fn row_reads_no_call_of_a_search_waits_for_more_than_one_replica() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(vec![put_with("b", "apples", 0, r#"{"year":1}"#)], 1, None).await.unwrap();
    gateway.cluster.take_recorded();
    found(&engine, rich_query()).await;
    let sent = format!("{:?}", gateway.cluster.take_recorded());
    assert!(!sent.contains("read_consistency: Some"), "{sent}");
}

#[tokio::test]
async fn names_are_found_by_their_leading_words() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let titled = |id: &str, title: &str| {
        let title = Some(title.to_owned());
        Change::Put(IndexedDocument { title, ..document(id, 1, &[("stones", [1.0, 0.0, 0.0, 0.0])]) })
    };
    let long = "weir guide of the upper river ".repeat(6);
    engine
        .apply(
            vec![titled("a", "Weir guide of the river"), titled("b", &long), titled("c", "Weirs")],
            1,
            None,
        )
        .await
        .unwrap();
    assert_eq!(
        found(&engine, words("Weir guide of the")).await,
        "a.0 b.0 c.0",
        "the last by its words alone"
    );
    assert_eq!(found(&engine, words("weir guide of the river")).await.split(' ').next(), Some("a.0"));
}
