//! API keys, and the audit log of what was done with them and by administrators.

use std::ops::Range;

use weir_policy::KeyId;
use weir_policy::budget::Overspent;
use weir_policy::budget_lease::{LeaseGrant, LeaseNeed};
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
    /// Its grants, as JSON.
    pub grants: String,
    /// When it stops to be valid.
    pub expires_at: Option<Timestamp>,
}

/// An API key as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredKey {
    /// Its number.
    pub id: KeyId,
    /// The new key.
    pub key: NewKey,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The hash before the last rotation, and until when it is valid.
    pub previous: Option<(KeyHash, Timestamp)>,
}

/// Spending of a key on a day, or a change of it.
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

/// A gateway's writes to the shared ledger, and its request for a lease. Applied as a whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerWrite {
    /// The name of the gateway, which no other one has, and none had before.
    pub gateway: String,
    /// Changes of what was spent, by their numbers, in order: a write that may have failed is repeated, and what it has stored is left out.
    pub changes: Vec<(u64, Vec<Spent>)>,
    /// The gateway's present leases from the budgets that have changed.
    pub held: Vec<HeldBudget>,
    /// A lease that it asks for.
    pub ask: Option<LeaseAsk>,
    /// How long leases hold, from now on.
    pub lease_seconds: f64,
    /// Whether all leases of the gateway are prolonged.
    pub renews: bool,
}

/// A gateway's lease from a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBudget {
    /// The key.
    pub key: KeyId,
    /// The model pattern of the budget; empty: the budget of the whole key.
    pub model: String,
    /// Leased and not reserved, in billionths of the currency.
    pub leased: u64,
    /// Reserved for requests on their way; it is spent as well.
    pub reserved: u64,
}

/// A lease of a budget that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseAsk {
    /// The key.
    pub key: KeyId,
    /// The model pattern of the budget; empty: the budget of the whole key.
    pub model: String,
    /// The day, in UTC, since 1970.
    pub day: i32,
    /// The days of its month.
    pub month: Range<i32>,
    /// The need.
    pub need: LeaseNeed,
}

/// The outcome of a [`LedgerWrite`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerWritten {
    /// The requested lease.
    pub lease: Option<Result<LeaseGrant, Overspent>>,
    /// Whether the gateway has any lease, where they were prolonged.
    pub has_leases: bool,
}

/// An entry for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAuditEntry {
    /// The key by which it was done; `None` without keys and on the command line.
    pub by: Option<KeyId>,
    /// The action, such as `key.create`.
    pub action: String,
    /// To what: a key's number, a collection's name.
    pub subject: String,
    /// The request, as JSON, where the action does not imply it.
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
