//! The contract on feedback and the query log.

use weir_policy::KeyId;
use weir_store::{
    CollectionId, Error, Feedback, FeedbackBatch, FeedbackFilter, FeedbackLimits, LoggedQuery, NewFeedback,
    QueryCount, QueryReport,
};

use super::*;

const ALL: FeedbackFilter = FeedbackFilter { caller: None, since: None, until: None };

fn judgment(query: &str, document_id: &str, grade: u32) -> NewFeedback {
    NewFeedback {
        query: query.to_owned(),
        document_id: document_id.to_owned(),
        chunk: None,
        grade,
        caller: None,
        is_operator: false,
    }
}

fn stored(number: u64, feedback: NewFeedback) -> Feedback {
    let NewFeedback { query, document_id, chunk, grade, caller, is_operator } = feedback;
    Feedback { number, query, document_id, chunk, grade, created_at: 3.5, caller, is_operator }
}

pub async fn feedback_is_listed_newest_first_after_reopening(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let other = collection(&store, "other").await;
    accept(&store, &made, "j", &[document("a\0", "1")]).await;
    accept(&store, &other, "k", &[document("a\0", "1")]).await;
    let first = NewFeedback { chunk: Some(7), ..judgment("wo?\0", "a\0", 3) };
    let second = judgment("", "a\0", 0);
    for (collection, feedback) in [(&made, &first), (&other, &second), (&made, &second)] {
        view(&store, collection).add_feedback(feedback.clone(), 100, 3.5).await.unwrap().unwrap();
    }
    store.close().await;

    let store = open();
    let expected = vec![stored(2, second.clone()), stored(1, first)];
    assert_eq!(view(&store, &made).feedback(ALL, 10, None).await.unwrap(), (expected, None));
    assert_eq!(view(&store, &other).feedback(ALL, 10, None).await.unwrap(), (vec![stored(1, second)], None));
    close_sound(store).await;
}

pub async fn feedback_is_listed_in_pages(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1")]).await;
    for grade in 0..5 {
        view(&store, &made).add_feedback(judgment("q", "a", grade), 100, 3.5).await.unwrap().unwrap();
    }
    let page = async |limit, cursor| {
        let (found, next) = view(&store, &made).feedback(ALL, limit, cursor).await.unwrap();
        (found.into_iter().map(|one| one.grade).collect::<Vec<_>>(), next)
    };
    assert_eq!(page(2, None).await, (vec![4, 3], Some("4".to_owned())));
    assert_eq!(page(2, Some("4")).await, (vec![2, 1], Some("2".to_owned())));
    assert_eq!(page(2, Some("2")).await, (vec![0], None));
    assert_eq!(page(5, None).await, (vec![4, 3, 2, 1, 0], None));
    assert!(matches!(view(&store, &made).feedback(ALL, 2, Some("x")).await, Err(Error::UnknownCursor(_))));
    close_sound(store).await;
}

pub async fn the_oldest_feedback_is_deleted_beyond_the_maximum(open: Open<'_>) {
    let store = open();
    let (made, other) = (collection(&store, "c").await, collection(&store, "other").await);
    for (job, one) in [("j", &made), ("k", &other)] {
        accept(&store, one, job, &[document("a", "1")]).await;
        view(&store, one).add_feedback(judgment("q", "a", 9), 3, 3.5).await.unwrap().unwrap();
    }
    for grade in 0..5 {
        view(&store, &made).add_feedback(judgment("q", "a", grade), 3, 3.5).await.unwrap().unwrap();
    }
    let grades = async |collection| {
        let (found, _) = view(&store, collection).feedback(ALL, 10, None).await.unwrap();
        found.into_iter().map(|one| one.grade).collect::<Vec<_>>()
    };
    assert_eq!((grades(&made).await, grades(&other).await), (vec![4, 3, 2], vec![9]));
    close_sound(store).await;
}

pub async fn the_last_judgment_of_each_query_and_document_counts(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "1")]).await;
    for (query, id, grade) in [("q", "a", 1), ("q", "b", 0), (" q ", "a", 0), ("other", "a", 3)] {
        view(&store, &made).add_feedback(judgment(query, id, grade), 100, 3.5).await.unwrap().unwrap();
    }
    let batch = async |store: &Store, fingerprint, entries_max, pending_max| {
        let limits = FeedbackLimits { entries_max, per_caller_max: 100, pending_max };
        let FeedbackBatch { processed, pending } =
            view(store, &made).feedback_batch(fingerprint, limits).await.unwrap();
        let processed: Vec<_> = processed.into_iter().map(|one| (one.is_relevant, one.features)).collect();
        (processed, pending.into_iter().map(|one| one.number).collect::<Vec<_>>())
    };
    assert_eq!(batch(&store, "m", 100, 100).await, (vec![], vec![4, 3, 2]));
    assert_eq!(batch(&store, "m", 3, 2).await, (vec![], vec![4, 3]));
    let features = |text: &str| Some(text.to_owned());
    let found = vec![(4, features("four")), (3, features("three")), (2, None), (77, features("x"))];
    store.save_features(made.id, "m", found).await.unwrap();
    store.close().await;

    let store = open();
    let processed = vec![(false, "three".to_owned()), (true, "four".to_owned())];
    assert_eq!(batch(&store, "m", 100, 100).await, (processed, vec![]));
    assert_eq!(batch(&store, "m", 1, 100).await, (vec![(true, "four".to_owned())], vec![]));
    for unknown in ["another model", ""] {
        assert_eq!(batch(&store, unknown, 100, 100).await, (vec![], vec![4, 3, 2]));
    }
    // a new judgment replaces the last one of its query and document, and is pending
    view(&store, &made).add_feedback(judgment("other", "a", 0), 100, 3.5).await.unwrap().unwrap();
    assert_eq!(batch(&store, "m", 100, 100).await, (vec![(false, "three".to_owned())], vec![5]));
    close_sound(store).await;
}

pub async fn feedback_counts_and_is_deleted_by_caller_and_time(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "1")]).await;
    let by = |caller: Option<i64>, query: &str| NewFeedback {
        caller: caller.map(KeyId),
        is_operator: caller == Some(9),
        ..judgment(query, "a", 1)
    };
    for (at, caller, query) in [
        (1.0, Some(7), "q"),
        (2.0, Some(8), "q"),
        (3.0, Some(7), "r"),
        (4.0, Some(7), "s"),
        (5.0, None, "q"),
        (6.0, Some(9), "q"),
    ] {
        view(&store, &made).add_feedback(by(caller, query), 100, at).await.unwrap().unwrap();
    }
    let numbers = async |filter| {
        let (found, _) = view(&store, &made).feedback(filter, 10, None).await.unwrap();
        found.into_iter().map(|one| one.number).collect::<Vec<_>>()
    };
    let of = |caller| FeedbackFilter { caller: Some(KeyId(caller)), ..ALL };
    assert_eq!(numbers(of(7)).await, [4, 3, 1]);
    assert_eq!(numbers(FeedbackFilter { since: Some(2.0), until: Some(4.0), ..ALL }).await, [3, 2]);
    let counting = async |per_caller_max| {
        let limits = FeedbackLimits { entries_max: 100, per_caller_max, pending_max: 100 };
        let batch = view(&store, &made).feedback_batch("m", limits).await.unwrap();
        batch.pending.into_iter().map(|one| (one.number, one.is_operator)).collect::<Vec<_>>()
    };
    let every = [(6, true), (5, false), (4, false), (3, false), (2, false), (1, false)];
    assert_eq!(counting(100).await, every);
    assert_eq!(counting(2).await, [(6, true), (5, false), (4, false), (3, false), (2, false)]);
    let delete = async |filter| view(&store, &made).delete_feedback(filter).await.unwrap();
    assert_eq!(delete(FeedbackFilter { until: Some(3.0), ..of(7) }).await, 1);
    assert_eq!(numbers(ALL).await, [6, 5, 4, 3, 2]);
    assert_eq!(delete(of(7)).await, 2);
    assert_eq!(delete(ALL).await, 3);
    assert_eq!(delete(ALL).await, 0);
    close_sound(store).await;
}

pub async fn feedback_on_missing_documents_is_not_stored(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1")]).await;
    assert_eq!(view(&store, &made).add_feedback(judgment("q", "b", 1), 10, 3.5).await.unwrap(), None);
    view(&store, &made).add_feedback(judgment("q", "a", 1), 10, 3.5).await.unwrap().unwrap();
    store.log_queries(vec![logged(made.id, "q", 0, None, 1.0)], 10).await.unwrap();
    assert!(view(&store, &made).delete_collection(4.0).await.unwrap());
    assert_eq!(view(&store, &made).add_feedback(judgment("q", "a", 1), 10, 3.5).await.unwrap(), None);
    assert_eq!(view(&store, &made).feedback(ALL, 10, None).await.unwrap(), (Vec::new(), None));
    assert_eq!(view(&store, &made).query_report(QueryReport::Popular, 10).await.unwrap(), []);
    close_sound(store).await;
}

fn logged(
    collection: CollectionId,
    query: &str,
    results: u64,
    relevance: Option<f64>,
    asked_at: f64,
) -> LoggedQuery {
    LoggedQuery { collection, query: query.to_owned(), results, relevance, asked_at }
}

/// The queries of a report, best first.
async fn queries(store: &Store, made: &Collection, report: QueryReport, limit: usize) -> String {
    let found = view(store, made).query_report(report, limit).await.unwrap();
    found.into_iter().map(|one| one.query).collect::<Vec<_>>().join(" ")
}

pub async fn the_query_log_is_summed_up_by_query(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let entries = vec![
        logged(made.id, "found", 5, Some(0.75), 1.0),
        logged(made.id, "nothing", 0, None, 2.0),
        logged(made.id, "found", 5, Some(0.25), 3.0),
        logged(made.id, "nothing", 0, None, 5.0),
        logged(made.id, "nothing", 1, Some(0.125), 4.0),
        logged(made.id, "other", 0, None, 6.0),
        logged(CollectionId(77), "of no collection", 0, None, 6.0),
    ];
    store.log_queries(entries, 100).await.unwrap();
    store.close().await;

    let store = open();
    let nothing = QueryCount {
        query: "nothing".to_owned(),
        count: 3,
        zero_results: 2,
        relevance: Some(0.125),
        last_asked_at: 5.0,
    };
    assert_eq!(view(&store, &made).query_report(QueryReport::Popular, 1).await.unwrap(), [nothing]);
    assert_eq!(queries(&store, &made, QueryReport::Popular, 10).await, "nothing found other");
    assert_eq!(queries(&store, &made, QueryReport::ZeroResults, 10).await, "nothing other");
    let low = |below| QueryReport::LowRelevance { below };
    assert_eq!(queries(&store, &made, low(0.5), 10).await, "nothing");
    assert_eq!(queries(&store, &made, low(0.51), 10).await, "nothing found");
    close_sound(store).await;
}

pub async fn the_oldest_logged_queries_are_deleted_beyond_the_maximum(open: Open<'_>) {
    let store = open();
    let (made, other) = (collection(&store, "c").await, collection(&store, "other").await);
    let entries = ["a", "b", "c", "d"].map(|query| logged(made.id, query, 0, None, 1.0)).to_vec();
    store.log_queries(vec![logged(other.id, "kept", 0, None, 1.0)], 2).await.unwrap();
    store.log_queries(entries, 2).await.unwrap();
    assert_eq!(queries(&store, &made, QueryReport::Popular, 10).await, "c d");
    assert_eq!(queries(&store, &other, QueryReport::Popular, 10).await, "kept");
    store.log_queries(Vec::new(), 2).await.unwrap();
    close_sound(store).await;
}
