//! API keys and the audit log.

use weir_policy::KeyId;
use weir_policy::key::KeyHash;
use weir_store::{NewAuditEntry, NewKey};

use super::Open;

fn key(name: &str, seed: u8) -> NewKey {
    NewKey {
        name: name.to_owned(),
        prefix: format!("weir_{name}"),
        hash: KeyHash([seed; 32]),
        grants: r#"{"scopes":["search"]}"#.to_owned(),
        expires_at: (seed > 1).then_some(f64::from(seed)),
    }
}

fn entry(action: &str, subject: &str) -> NewAuditEntry {
    NewAuditEntry {
        by: Some(KeyId(7)),
        action: action.to_owned(),
        subject: subject.to_owned(),
        changes: None,
    }
}

pub async fn keys_and_what_was_done_with_them_are_stored(open: Open<'_>) {
    let store = open();
    let first = store.add_key(key("a", 1), entry("key.create", ""), 10.0).await.unwrap();
    let second = store.add_key(key("b", 2), entry("key.create", ""), 11.0).await.unwrap();
    assert_ne!(first.id, second.id);
    assert!(store.add_key(key("c", 1), entry("key.create", ""), 12.0).await.is_err(), "the hash exists");
    let text = ("weir_new".to_owned(), KeyHash([3; 32]));
    let rotated =
        store.rotate_key(first.id, text.clone(), 20.0, entry("key.rotate", "1"), 13.0).await.unwrap();
    let rotated = rotated.unwrap();
    assert_eq!((rotated.key.hash, rotated.previous), (text.1, Some((KeyHash([1; 32]), 20.0))));
    let changed = ("z".to_owned(), r#"{"scopes":["chat"]}"#.to_owned(), Some(99.0));
    let updated =
        store.update_key(first.id, changed.clone(), entry("key.update", "1"), 13.5).await.unwrap().unwrap();
    let expected =
        NewKey { name: changed.0.clone(), grants: changed.1.clone(), expires_at: changed.2, ..rotated.key };
    assert_eq!((&updated.key, updated.previous), (&expected, rotated.previous));
    let revoked = store.revoke_key(second.id, entry("key.revoke", "2"), 14.0).await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(14.0));
    assert_eq!(store.revoke_key(second.id, entry("key.revoke", "2"), 15.0).await.unwrap(), None);
    assert_eq!(store.rotate_key(second.id, text, 20.0, entry("key.rotate", "2"), 16.0).await.unwrap(), None);
    assert_eq!(store.update_key(second.id, changed, entry("key.update", "2"), 16.0).await.unwrap(), None);
    assert_eq!(store.revoke_key(KeyId(99), entry("key.revoke", "99"), 17.0).await.unwrap(), None);
    store.close().await;

    let store = open();
    assert_eq!(store.keys().await.unwrap(), [updated, revoked]);
    let entries = store.audit_entries(None, 10).await.unwrap();
    let seen: Vec<(&str, &str, f64)> =
        entries.iter().map(|one| (one.entry.action.as_str(), one.entry.subject.as_str(), one.at)).collect();
    let expected = [
        ("key.revoke", "2", 14.0),
        ("key.update", "1", 13.5),
        ("key.rotate", "1", 13.0),
        ("key.create", "2", 11.0),
        ("key.create", "1", 10.0),
    ];
    assert_eq!(seen, expected, "what failed left no entry");
    let changes = Some(r#"{"name":"b"}"#.to_owned());
    let added = NewAuditEntry { by: None, changes, ..entry("key.update", "1") };
    store.add_audit_entry(added.clone(), 18.0).await.unwrap();
    let newest = store.audit_entries(None, 1).await.unwrap();
    assert_eq!(newest[0].entry, added);
    let older = store.audit_entries(Some(newest[0].number), 1).await.unwrap();
    assert_eq!(older[0].entry, entry("key.revoke", "2"));
}
