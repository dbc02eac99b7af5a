//! The contract with the database in memory, and what becomes of calls that fail half-way.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use weir_policy::Caller;

use super::*;
use crate::{ChunkSpan, Collection, NewDocument, PreparedDocument, StoreView, Submission};

crate::contract!(contract_tests!, open_again);

/// The memory of each test, by its folder.
static MEMORIES: LazyLock<Mutex<HashMap<PathBuf, Memory>>> = LazyLock::new(Mutex::default);

fn open_again(folder: &Path) -> Result<Store> {
    let mut memories = MEMORIES.lock().unwrap();
    let memory = memories.entry(folder.to_owned()).or_insert_with(Memory::new);
    Ok(Double::open(memory).store())
}

fn document(id: &str, text: &str) -> NewDocument {
    NewDocument {
        id: id.to_owned(),
        text: text.to_owned(),
        metadata: "{}".to_owned(),
        ..NewDocument::default()
    }
}

async fn with_collection(memory: &Memory) -> (Double, Store, Collection, StoreView) {
    let double = Double::open(memory);
    let store = double.store();
    let made = store.create_collection("c", "{}", "m", 1.0).await.unwrap().0;
    let view = store.view(&Caller::system(), &made).unwrap();
    (double, store, made, view)
}

fn submission(job: usize) -> Submission {
    let documents = ["a", "b", "c"].map(|id| document(id, &format!("text of {job}")));
    Submission { job_id: job.to_string(), documents: documents.to_vec(), ..Submission::default() }
}

/// Runs `change` with a fault at its first call, at its second, … until it succeeds; each failure must leave everything as it was. Returns the
/// number of failures.
async fn fail_at_each_call<T>(
    double: &Double,
    view: &StoreView,
    fault: Fault,
    change: impl AsyncFn() -> Result<T>,
) -> usize {
    for calls in 0.. {
        let before = view.documents_after("", 9, usize::MAX).await.unwrap();
        let last = view.last_operation().await.unwrap();
        double.faults.lock().unwrap().fails_after = Some((calls, fault));
        let changed = change().await;
        double.faults.lock().unwrap().fails_after = None;
        let Err(error) = changed else { return calls };
        let is_expected = match fault {
            Fault::Unavailable => error.retry_after() == Some(Duration::from_secs(1)),
            Fault::Conflict => matches!(error, Error::Conflict),
            Fault::Full => matches!(error, Error::Full),
        };
        assert!(is_expected, "{error:?}");
        assert_eq!(view.documents_after("", 9, usize::MAX).await.unwrap(), before);
        assert_eq!(view.last_operation().await.unwrap(), last);
    }
    unreachable!("a change has an end")
}

#[tokio::test]
async fn a_change_that_fails_at_any_call_changes_nothing() {
    let (double, store, made, view) = with_collection(&Memory::new()).await;
    for fault in [Fault::Unavailable, Fault::Conflict, Fault::Full] {
        let accept = async || view.accept(submission(fault as usize), 2.0).await;
        assert!(fail_at_each_call(&double, &view, fault, accept).await > 6, "the script has more calls");
        let version = view.document("a").await.unwrap().unwrap().version;
        let span = ChunkSpan { start: 0, end: 4, text_hash: [7; 32] };
        let prepared = PreparedDocument { document_id: "a".to_owned(), version, chunks: vec![span] };
        let prepare = async || {
            let embeddings = vec![([7; 32], vec![0.5])];
            store.save_prepared(made.generation.id, vec![prepared.clone()], embeddings).await
        };
        assert!(fail_at_each_call(&double, &view, fault, prepare).await > 4);
        assert!(fail_at_each_call(&double, &view, fault, async || view.delete_document("a").await).await > 6);
    }
    let report = store.verify().await.unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!((report.documents, report.chunks, report.embeddings), (2, 0, 0));
}

#[tokio::test]
async fn a_slow_store_delays_its_callers_and_nothing_else() {
    let (double, _, _, view) = with_collection(&Memory::new()).await;
    double.faults.lock().unwrap().delay = Duration::from_millis(20);
    let accepting = tokio::spawn(async move { view.accept(submission(1), 2.0).await });
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!accepting.is_finished());
    }
    assert_eq!(accepting.await.unwrap().unwrap().unwrap().last_operation, 3);
}

#[tokio::test]
async fn a_closed_store_refuses_its_clones() {
    let memory = Memory::new();
    let (_, store, made, view) = with_collection(&memory).await;
    store.close().await;
    assert!(matches!(view.document("a").await, Err(Error::Closed)));
    let again = Double::open(&memory).store();
    assert_eq!(again.collection(&Caller::system(), "c").await.unwrap(), Some(made));
}
