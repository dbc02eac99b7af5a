//! The contract on what is told of changes.

use std::time::Duration;

use weir_policy::key::KeyHash;
use weir_store::{Change, Changes, NewAuditEntry, NewKey};

use super::*;

/// Waits until a change is told, or that there may be any: a database tells that when it begins to tell changes.
pub async fn wait_for(changes: &mut Changes, expected: Change) {
    let told = async {
        while let Some(change) = changes.next().await {
            if change == expected || change == Change::Unknown {
                return true;
            }
        }
        false
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), told).await, Ok(true), "{expected:?}");
}

pub async fn committed_changes_are_told(open: Open<'_>) {
    let store = open();
    let mut changes = store.changes();
    let made = collection(&store, "c").await;
    wait_for(&mut changes, Change::Collections).await;
    accept(&store, &made, "j", &[document("a", "text")]).await;
    wait_for(&mut changes, Change::Operations(made.id)).await;
    view(&store, &made).delete_document("a").await.unwrap();
    wait_for(&mut changes, Change::Operations(made.id)).await;
    let key = NewKey {
        name: "k".to_owned(),
        prefix: "p".to_owned(),
        hash: KeyHash([1; 32]),
        grants: "{}".to_owned(),
        expires_at: None,
    };
    let entry =
        NewAuditEntry { by: None, action: "key.create".to_owned(), subject: String::new(), changes: None };
    let stored = store.add_key(key, entry.clone(), 1.0).await.unwrap();
    wait_for(&mut changes, Change::Keys).await;
    store.revoke_key(stored.id, entry, 2.0).await.unwrap();
    wait_for(&mut changes, Change::Keys).await;
    view(&store, &made).delete_collection(3.0).await.unwrap();
    wait_for(&mut changes, Change::Collections).await;
    close_sound(store).await;
    let ended = async { while changes.next().await.is_some() {} };
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), ended).await, Ok(()));
}
