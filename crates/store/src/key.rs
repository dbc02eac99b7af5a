//! API keys, and the audit log of what was done with them and by administrators.

use weir_policy::KeyId;
use weir_policy::key::KeyHash;

use crate::Timestamp;

/// An API key to store.
#[derive(Debug, Clone, PartialEq)]
pub struct NewKey {
    /// Its name, for people.
    pub name: String,
    /// The characters of the key that are shown.
    pub prefix: String,
    /// The hash of the key.
    pub hash: KeyHash,
    /// What it allows, as JSON.
    pub grants: String,
    /// When it stops to be valid.
    pub expires_at: Option<Timestamp>,
}

/// An API key as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredKey {
    /// Its number.
    pub id: KeyId,
    /// What was given.
    pub key: NewKey,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The hash before the last rotation, and until when it is valid.
    pub previous: Option<(KeyHash, Timestamp)>,
}

/// What a key spent on a day, or a change of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// The key.
    pub key: KeyId,
    /// The model pattern of the budget; empty: the budget of the whole key.
    pub model: String,
    /// The day, in UTC, since 1970.
    pub day: i32,
    /// Billionths of the currency; less than none in a change that takes back what a request did not use.
    pub nanos: i64,
}

/// An entry for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAuditEntry {
    /// The key by which it was done; `None` without keys and on the command line.
    pub by: Option<KeyId>,
    /// What was done, such as `key.create`.
    pub action: String,
    /// To what: a key's number, a collection's name.
    pub subject: String,
    /// What was asked for, as JSON, where the action does not tell it.
    pub changes: Option<String>,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// Its number, in the order of time.
    pub number: u64,
    /// When it was done.
    pub at: Timestamp,
    /// The rest.
    pub entry: NewAuditEntry,
}
