//! The limit on the terms that the prefixes and wildcards of a query together expand to: each term costs work for every hit.

use weir_query::Query;

/// Maximum number of terms of one prefix or wildcard: the most frequent.
const TERMS_MAX: usize = 64;

/// The limits of one prefix or wildcard of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExpansionLimit {
    /// Maximum number of terms that it expands to.
    pub(super) terms: usize,
    /// Prefixes and wildcards of the query.
    count: usize,
}

impl ExpansionLimit {
    /// Each prefix and wildcard of `query` may expand to an equal share of `terms_max` terms, at least one.
    pub(super) fn of(query: &Query, terms_max: usize) -> ExpansionLimit {
        let count = expansions(query).max(1);
        ExpansionLimit { terms: (terms_max / count).clamp(1, TERMS_MAX), count }
    }

    /// Its share of `scanned_max` terms of the index.
    pub(super) fn scanned(self, scanned_max: usize) -> usize {
        (scanned_max / self.count).max(1)
    }

    /// The first of the terms found, the most frequent first. `is_scanned`: whether all terms of the index were looked at that could match.
    pub(super) fn cut(self, mut terms: Vec<String>, is_scanned: bool) -> Expansion {
        let is_complete = is_scanned && terms.len() <= self.terms;
        terms.truncate(self.terms);
        Expansion { terms, is_complete }
    }
}

/// The terms of one prefix or wildcard of a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expansion {
    /// The most frequent first.
    pub(super) terms: Vec<String>,
    /// Whether no other term of the index matches.
    pub(super) is_complete: bool,
}

/// Number of prefixes and wildcards. Those in metadata are counted too, although they are conditions and expand to no term.
fn expansions(query: &Query) -> usize {
    match query {
        Query::Words(_) | Query::Phrase(_) => 0,
        Query::Prefix(_) | Query::Wildcard(_) => 1,
        Query::Field { value, .. } => expansions(value),
        Query::Boolean { must, should, must_not } => {
            [must, should, must_not].into_iter().flatten().map(expansions).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Expansion, ExpansionLimit};
    use weir_query::parse;

    #[test]
    fn an_expansion_is_complete_if_no_term_is_left_out() {
        let limit = ExpansionLimit::of(&parse("we* so*").unwrap(), 4);
        let check = |terms: &[&str], is_scanned, kept: &[&str], is_complete| {
            let owned = |terms: &[&str]| terms.iter().map(|term| (*term).to_owned()).collect();
            let expected = Expansion { terms: owned(kept), is_complete };
            assert_eq!(limit.cut(owned(terms), is_scanned), expected, "{terms:?} {is_scanned}");
        };
        check(&["weir", "west"], true, &["weir", "west"], true);
        check(&["weir", "west"], false, &["weir", "west"], false);
        check(&["weir", "west", "well"], true, &["weir", "west"], false);
        check(&[], true, &[], true);
    }

    #[test]
    fn prefixes_and_wildcards_share_the_terms_of_a_query() {
        let check = |text: &str, terms, scanned| {
            let limit = ExpansionLimit::of(&parse(text).unwrap(), 256);
            assert_eq!((limit.terms, limit.scanned(20_000)), (terms, scanned), "{text}");
        };
        check("weir", 64, 20_000);
        check("we*", 64, 20_000);
        check("we* OR title:so* -w?nd", 64, 6_666);
        let letters: Vec<String> = (b'a'..=b'z').map(|letter| format!("{}*", char::from(letter))).collect();
        check(&letters.join(" "), 9, 769);
        check(&vec![letters.join(" "); 9].join(" "), 1, 85);
    }
}
