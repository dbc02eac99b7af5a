//! Differences between the store and an index.

use std::collections::HashMap;

use weir_index::IndexedVersion;
use weir_store::PreparedVersion;

/// A document that differs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) id: String,
    /// The store does not have it, and the index has something of it.
    pub(crate) is_deleted: bool,
    /// Points of it are missing.
    pub(crate) is_lost: bool,
    /// There are points of earlier versions.
    pub(crate) is_earlier: bool,
}

/// The documents that differ, of those that were read first in the store and then in the index, which had applied `applied_seq` before. What operations
/// after that have changed is no difference: they are applied by themselves.
pub(crate) fn differences(
    stored: &[(String, Option<PreparedVersion>)],
    indexed: &[IndexedVersion],
    applied_seq: u64,
) -> Vec<Difference> {
    let mut by_id: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
    for IndexedVersion { id, version, chunks } in indexed {
        by_id.entry(id).or_default().push((*version, *chunks));
    }
    let difference = |(id, stored): &(String, Option<PreparedVersion>)| {
        let found = by_id.get(id.as_str()).map(Vec::as_slice).unwrap_or_default();
        let none = Difference { id: id.clone(), ..Difference::default() };
        let Some(stored) = stored else {
            let is_deleted = found.iter().any(|(version, _)| *version <= applied_seq);
            return Difference { is_deleted, ..none };
        };
        let is_later = |(version, _): &(u64, u64)| *version > stored.version;
        if stored.version > applied_seq || found.iter().any(is_later) {
            return none;
        }
        let current = found.iter().find(|(version, _)| *version == stored.version);
        Difference {
            is_lost: current.map_or(0, |(_, chunks)| *chunks) < stored.chunks,
            is_earlier: found.iter().any(|(version, _)| *version < stored.version),
            ..none
        }
    };
    let all = stored.iter().map(difference);
    all.filter(|one| one.is_deleted || one.is_lost || one.is_earlier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `stored`: version and chunks, if any. `found`: those of the index. `expected`: `d`, `l` and `e` for deleted, lost and earlier.
    #[track_caller]
    fn check(stored: Option<(u64, u64)>, found: &[(u64, u64)], expected: &str) {
        let id = || "a".to_owned();
        let stored = stored.map(|(version, chunks)| PreparedVersion { id: id(), version, chunks });
        let one = |&(version, chunks): &(u64, u64)| IndexedVersion { id: id(), version, chunks };
        let other = IndexedVersion { id: "b".to_owned(), version: 1, chunks: 1 };
        let indexed: Vec<IndexedVersion> = found.iter().map(one).chain([other]).collect();
        let marks = |one: &Difference| {
            [(one.is_deleted, 'd'), (one.is_lost, 'l'), (one.is_earlier, 'e')]
                .into_iter()
                .filter_map(|(is_so, mark)| is_so.then_some(mark))
                .collect::<String>()
        };
        let differences = differences(&[(id(), stored)], &indexed, 9);
        assert_eq!(differences.iter().map(marks).collect::<String>(), expected);
    }

    #[test]
    fn what_no_operation_tells_is_a_difference() {
        check(Some((5, 2)), &[(5, 2)], "");
        check(Some((5, 0)), &[], "");
        check(None, &[], "");
        check(None, &[(5, 1)], "d");
        check(Some((5, 2)), &[(5, 1)], "l");
        check(Some((5, 2)), &[], "l");
        check(Some((5, 2)), &[(4, 1), (5, 2)], "e");
        check(Some((5, 2)), &[(4, 2)], "le");
    }

    #[test]
    fn what_is_applied_later_is_none() {
        check(Some((10, 0)), &[(5, 1)], "");
        check(Some((10, 2)), &[], "");
        check(None, &[(10, 1)], "");
        // replaced between the two reads
        check(Some((5, 2)), &[(6, 1)], "");
        check(Some((5, 2)), &[(5, 1), (11, 1)], "");
    }
}
