//! Who a request is made for, and what it may do and see.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_filter::Filter;

/// Who a request is made for: what it may do, and which collections, models and documents exist for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// The API key of the caller; `None` for the gateway's own work, and without keys.
    pub key: Option<KeyId>,
    /// The name of this key, for people.
    pub name: Option<Arc<str>>,
    /// The permissions of the caller.
    pub scopes: BTreeSet<Scope>,
    /// The collections that exist for the caller.
    pub collections: Allowlist,
    /// The models that exist for the caller.
    pub models: Allowlist,
    /// The mandatory filter: documents that do not pass it do not exist for the caller. `None`: all documents exist.
    pub filter: Option<Arc<Filter>>,
}

/// The number of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub i64);

/// A group of routes that a caller may use. No scope includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Search; read collections, documents, jobs, feedback and the query log; give feedback.
    Search,
    /// Store and delete documents.
    Ingest,
    /// Compute embeddings.
    Embed,
    /// Rerank texts.
    Rerank,
    /// Chat.
    Chat,
    /// Create and delete collections; manage the gateway.
    Admin,
    /// Read the metrics.
    Metrics,
}

/// The names that a caller may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowlist {
    /// Every name, including names that do not exist yet.
    All,
    /// These names only.
    Only(BTreeSet<String>),
}

impl Caller {
    /// The caller without restrictions: the gateway's own work, and the operator of a gateway without API keys.
    pub fn system() -> Caller {
        Caller {
            key: None,
            name: None,
            scopes: BTreeSet::from(Scope::ALL),
            collections: Allowlist::All,
            models: Allowlist::All,
            filter: None,
        }
    }

    /// Whether the caller has this scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether all collections, models and documents exist for the caller.
    pub fn is_unrestricted(&self) -> bool {
        self.collections == Allowlist::All && self.models == Allowlist::All && self.filter.is_none()
    }

    /// Whether the collection with this name exists for the caller. Collections outside the allow list are answered like missing ones.
    pub fn sees(&self, collection: &str) -> bool {
        self.collections.contains(collection)
    }

    /// Whether the model with this name exists for the caller. Models outside the allow list are answered like missing ones.
    pub fn may_use_model(&self, model: &str) -> bool {
        self.models.contains(model)
    }

    /// The mandatory filter. Every read combines it with its own filter by AND.
    pub fn filter(&self) -> Option<&Filter> {
        self.filter.as_deref()
    }
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 7] = [
        Scope::Search,
        Scope::Ingest,
        Scope::Embed,
        Scope::Rerank,
        Scope::Chat,
        Scope::Admin,
        Scope::Metrics,
    ];

    /// The name of the scope in API keys and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Search => "search",
            Scope::Ingest => "ingest",
            Scope::Embed => "embed",
            Scope::Rerank => "rerank",
            Scope::Chat => "chat",
            Scope::Admin => "admin",
            Scope::Metrics => "metrics",
        }
    }
}

/// Whether `name` is what the pattern names, or begins like it if `*` is at its end.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

impl Allowlist {
    /// Whether every name of the other list is in this one.
    pub fn covers(&self, other: &Allowlist) -> bool {
        match (self, other) {
            (Allowlist::All, _) => true,
            (Allowlist::Only(_), Allowlist::All) => false,
            (Allowlist::Only(_), Allowlist::Only(other)) => other.iter().all(|name| self.contains(name)),
        }
    }

    /// Whether the list has `name`, or a pattern for it: the beginning of names, then `*`. Of a pattern, whether the list has all its names.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Allowlist::All => true,
            Allowlist::Only(names) => {
                names.contains(name) || names.iter().any(|own| matches_pattern(own, name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_caller_is_not_restricted() {
        let caller = Caller::system();
        assert!(Scope::ALL.into_iter().all(|scope| caller.may(scope)));
        assert!(caller.sees("any") && caller.may_use_model("any"));
        assert_eq!(caller.filter(), None);
    }

    #[test]
    fn a_caller_has_only_its_scopes() {
        let caller = Caller { scopes: BTreeSet::from([Scope::Search, Scope::Admin]), ..Caller::system() };
        let scopes = Scope::ALL.into_iter().filter(|scope| caller.may(*scope)).map(Scope::as_str);
        assert_eq!(scopes.collect::<Vec<_>>(), ["search", "admin"]);
    }

    #[test]
    fn allow_lists_of_collections_and_models_are_separate() {
        let only = |name: &str| Allowlist::Only(BTreeSet::from([name.to_owned()]));
        let caller = Caller { collections: only("c"), models: only("m"), ..Caller::system() };
        assert!(caller.sees("c") && !caller.sees("m"));
        assert!(caller.may_use_model("m") && !caller.may_use_model("c"));
        let nothing = Caller { collections: Allowlist::Only(BTreeSet::new()), ..Caller::system() };
        assert!(!nothing.sees(""));
    }

    #[test]
    fn a_pattern_of_an_allow_list_stands_for_all_names_that_begin_so() {
        let only = |names: &[&str]| Allowlist::Only(names.iter().map(|name| (*name).to_owned()).collect());
        let list = only(&["gpt-4o*", "claude", "*/tiny"]);
        for (name, is_in) in [
            ("gpt-4o", true),
            ("gpt-4o-mini", true),
            ("gpt-4", false),
            ("claude", true),
            ("claude-3", false),
            ("a/tiny", false),
        ] {
            assert_eq!(list.contains(name), is_in, "{name}");
        }
        for (names, is_covered) in [
            (&["gpt-4o-mini", "claude"][..], true),
            (&["gpt-4o*"], true),
            (&["gpt-4o-*"], true),
            (&["gpt-*"], false),
            (&["claude*"], false),
            (&["*"], false),
        ] {
            assert_eq!(list.covers(&only(names)), is_covered, "{names:?}");
        }
        assert!(
            only(&["*"]).covers(&list)
                && only(&["*"]).contains("any")
                && !only(&["*"]).covers(&Allowlist::All)
        );
    }
}
