//! The contract on the bytes of original files.

use weir_store::{Keeping, NewOriginal, Original};

use super::*;

const NAMES: [&str; 3] = ["aa", "bb", "cc"];

async fn keep(store: &Store, name: &str, parts: &[&[u8]]) {
    let bytes = parts.iter().map(|part| part.len() as u64).sum();
    assert_eq!(store.keep_file(name, bytes, 100).await.unwrap(), Keeping::Begun);
    for (number, part) in parts.iter().enumerate() {
        store.keep_part(name, number as u64, part.to_vec()).await.unwrap();
    }
    assert!(store.finish_file(name).await.unwrap());
}

async fn part(store: &Store, name: &str, number: u64) -> Option<Vec<u8>> {
    store.file_part(name, number).await.unwrap()
}

/// A document that was made from a file.
fn made_from(id: &str, name: &str) -> Submission {
    let kept = Original { sha256: name.into(), media_type: "text/plain".into(), name: "n".into(), bytes: 5 };
    let original = NewOriginal { document_id: id.into(), sha256: name.into(), kept: Some(kept) };
    Submission { originals: vec![original], ..submission(&format!("job of {id}"), &[document(id, id)]) }
}

pub async fn a_kept_file_is_read_in_parts_when_it_is_complete(open: Open<'_>) {
    let store = open();
    let [a, b, _] = NAMES;
    assert_eq!(store.keep_file(a, 5, 100).await.unwrap(), Keeping::Begun);
    store.keep_part(a, 0, b"\0ab".to_vec()).await.unwrap();
    store.keep_part(a, 0, b"\0ab".to_vec()).await.unwrap();
    assert_eq!(part(&store, a, 0).await, None, "it is not complete");
    // a gateway that begins it too
    assert_eq!(store.keep_file(a, 5, 100).await.unwrap(), Keeping::Begun);
    store.keep_part(a, 1, b"cd".to_vec()).await.unwrap();
    assert!(store.finish_file(a).await.unwrap());
    assert_eq!(store.keep_file(a, 5, 100).await.unwrap(), Keeping::Complete);
    let parts = [part(&store, a, 0).await, part(&store, a, 1).await, part(&store, a, 2).await];
    assert_eq!(parts, [Some(b"\0ab".to_vec()), Some(b"cd".to_vec()), None]);
    assert!(!store.finish_file(b).await.unwrap());
    assert_eq!(part(&store, b, 0).await, None);
    close_sound(store).await;
}

pub async fn kept_files_together_have_a_limit(open: Open<'_>) {
    let store = open();
    let [a, b, c] = NAMES;
    keep(&store, a, &[b"12345"]).await;
    assert_eq!(store.keep_file(b, 6, 10).await.unwrap(), Keeping::NoRoom);
    assert_eq!(store.keep_file(b, 5, 10).await.unwrap(), Keeping::Begun);
    // one that is not complete counts
    assert_eq!(store.keep_file(c, 1, 10).await.unwrap(), Keeping::NoRoom);
    assert_eq!(store.keep_file(a, 5, 10).await.unwrap(), Keeping::Complete);
    assert_eq!(store.kept_files().await.unwrap(), (2, 10));
    close_sound(store).await;
}

pub async fn files_that_no_document_has_are_removed(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    for name in NAMES {
        keep(&store, name, &[name.as_bytes(), b"xyz"]).await;
    }
    let [a, b, c] = NAMES;
    view(&store, &made).accept(made_from("1", a), 2.0).await.unwrap().unwrap();
    view(&store, &made).accept(made_from("2", b), 2.0).await.unwrap().unwrap();
    assert_eq!(store.remove_unused_files(600.0).await.unwrap(), 0, "each may be needed in a moment");
    assert!(view(&store, &made).delete_document("2").await.unwrap().is_some());
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(store.remove_unused_files(0.0).await.unwrap(), 2);
    assert_eq!(part(&store, a, 1).await, Some(b"xyz".to_vec()));
    for removed in [b, c] {
        assert_eq!(part(&store, removed, 0).await, None);
    }
    assert_eq!(store.kept_files().await.unwrap(), (1, 5));
    assert_eq!(store.originals().await.unwrap(), [(a.to_owned(), 5, "1".to_owned())]);
    // nothing of what was removed is left
    keep(&store, b, &[b"new"]).await;
    assert_eq!((part(&store, b, 0).await, part(&store, b, 1).await), (Some(b"new".to_vec()), None));
    close_sound(store).await;
}
