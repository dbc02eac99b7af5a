//! Decisions without IO, clock or globals: who is calling and what they may do, and whether an upstream is called ([`upstream`]).
//!
//! Every read of the store and of the index takes a [`Caller`]. Today there is one, [`Caller::all_powerful`];
//! API keys will make others, and no reading code has to change for it.

#![forbid(unsafe_code)]

pub mod upstream;

use std::collections::BTreeSet;

/// Who a request stands for: what it may do, which collections it sees, which documents in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// What the caller may do.
    pub scopes: BTreeSet<Scope>,
    /// Which collections exist for the caller; the others answer as if they were not there.
    pub collections: Collections,
    /// Which documents of these collections exist for the caller.
    pub filter: Filter,
}

/// One thing that a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Search, and read documents, jobs and collections.
    Read,
    /// Ingest and delete documents.
    Write,
    /// Create, change and delete collections.
    Admin,
}

/// The collections that a caller sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collections {
    /// Every collection, those to come included.
    All,
    /// These names alone.
    Only(BTreeSet<String>),
}

/// The documents that a caller sees. Conditions on metadata will be further variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Every document.
    Everything,
}

impl Caller {
    /// A caller who may do everything everywhere: the operator on the loopback interface, and the gateway's own work.
    pub fn all_powerful() -> Caller {
        Caller {
            scopes: BTreeSet::from([Scope::Read, Scope::Write, Scope::Admin]),
            collections: Collections::All,
            filter: Filter::Everything,
        }
    }

    /// Whether `collection` exists for this caller.
    pub fn sees(&self, collection: &str) -> bool {
        match &self.collections {
            Collections::All => true,
            Collections::Only(names) => names.contains(collection),
        }
    }

    /// Whether the caller may do what `scope` names.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_sees_only_the_named_collections() {
        let mut caller = Caller::all_powerful();
        assert!(caller.sees("anything"));
        caller.collections = Collections::Only(BTreeSet::from(["mine".to_owned()]));
        assert!(caller.sees("mine"));
        assert!(!caller.sees("anything"));
    }

    #[test]
    fn a_caller_may_only_what_its_scopes_say() {
        let mut caller = Caller::all_powerful();
        caller.scopes.remove(&Scope::Write);
        assert!(caller.may(Scope::Read));
        assert!(!caller.may(Scope::Write));
    }
}
