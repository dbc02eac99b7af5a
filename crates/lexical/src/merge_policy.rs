//! Merge policy: which segments Tantivy combines. The index is idle two seconds after the last batch.

use tantivy::index::{SegmentId, SegmentMeta};
use tantivy::indexer::{LogMergePolicy, MergeCandidate, MergePolicy};

/// This many segments of similar size are merged.
const SEGMENTS_MIN: usize = 6;
/// Larger segments are not merged, so that a large index has several, which threads search in parallel.
const ENTRIES_MAX: u32 = 40_000;
/// A segment with a larger share of deleted entries is rewritten, whatever its size.
const DELETED_SHARE_MAX: f32 = 0.3;

/// Upper bound of a segment made by an idle merge, which takes about a second.
const MERGED_ENTRIES_MAX: u64 = 128_000;
/// An idle merge includes a segment only if the smaller ones together have at least one in this many of its entries, so that an
/// entry is not rewritten for every few new ones.
const SMALLER_SHARE_DIVISOR: u64 = 4;

/// The small segments to merge when the index is idle: each segment costs every search one look-up per term.
pub(super) fn worth_merging(segments: &[SegmentMeta]) -> Option<Vec<SegmentId>> {
    let mut by_size: Vec<(u64, SegmentId)> =
        segments.iter().map(|segment| (segment.num_docs().into(), segment.id())).collect();
    by_size.sort_unstable_by_key(|(entries, _)| *entries);
    let (mut sum, mut merged) = (0, 0);
    for (index, (entries, _)) in by_size.iter().enumerate() {
        if sum + entries > MERGED_ENTRIES_MAX {
            break;
        }
        if sum * SMALLER_SHARE_DIVISOR >= *entries {
            merged = index + 1;
        }
        sum += entries;
    }
    (merged > 1).then(|| by_size[..merged].iter().map(|(_, id)| *id).collect())
}

/// Merges segments of similar size, and rewrites segments with many deleted entries.
#[derive(Debug)]
pub(super) struct SizeTieredPolicy(LogMergePolicy);

impl SizeTieredPolicy {
    pub(super) fn new() -> SizeTieredPolicy {
        let mut by_size = LogMergePolicy::default();
        by_size.set_min_num_segments(SEGMENTS_MIN);
        by_size.set_max_docs_before_merge(ENTRIES_MAX as usize);
        by_size.set_del_docs_ratio_before_merge(DELETED_SHARE_MAX);
        SizeTieredPolicy(by_size)
    }
}

impl MergePolicy for SizeTieredPolicy {
    fn compute_merge_candidates(&self, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
        let large = segments.iter().filter(|segment| segment.num_docs() > ENTRIES_MAX);
        let sparse =
            large.filter(|segment| has_many_deletions(segment.num_deleted_docs(), segment.max_doc()));
        let alone = sparse.map(|segment| MergeCandidate(vec![segment.id()]));
        self.0.compute_merge_candidates(segments).into_iter().chain(alone).collect()
    }
}

fn has_many_deletions(deleted: u32, entries: u32) -> bool {
    f64::from(deleted) > f64::from(DELETED_SHARE_MAX) * f64::from(entries)
}

#[cfg(test)]
mod tests {
    use tantivy::indexer::NoMergePolicy;
    use tantivy::schema::{INDEXED, Schema};
    use tantivy::{Index, Term, doc};

    use super::*;

    #[test]
    fn idle_merges_do_not_rewrite_a_large_segment_for_few_entries() {
        let settled = |sizes: &[u64]| {
            let mut schema = Schema::builder();
            let group = schema.add_u64_field("group", INDEXED);
            let index = Index::create_in_ram(schema.build());
            let mut writer = index.writer_with_num_threads(1, 50_000_000).unwrap();
            writer.set_merge_policy(Box::new(NoMergePolicy));
            for &entries in sizes {
                for entry in 0..entries {
                    writer.add_document(doc!(group => entry)).unwrap();
                }
                writer.commit().unwrap();
            }
            let segments = index.searchable_segment_metas().unwrap();
            let settled = worth_merging(&segments).unwrap_or_default();
            let is_settled = |segment: &&SegmentMeta| settled.contains(&segment.id());
            let mut sizes: Vec<u32> = segments.iter().filter(is_settled).map(SegmentMeta::num_docs).collect();
            sizes.sort_unstable();
            sizes
        };
        assert!(settled(&[]).is_empty());
        assert!(settled(&[7]).is_empty());
        assert_eq!(settled(&[100, 10, 15]), [10, 15, 100]);
        assert_eq!(settled(&[101, 10, 15]), [10, 15]);
        assert_eq!(settled(&[30, 4, 5, 1000]), [4, 5, 30]);
        assert!(settled(&[3000, 2, 700]).is_empty());
        assert_eq!(settled(&[60_000, 60_001, 20_000]), [20_000, 60_000]);
    }

    #[test]
    fn a_large_segment_with_many_deletions_is_rewritten_alone() {
        let mut schema = Schema::builder();
        let group = schema.add_u64_field("group", INDEXED);
        let index = Index::create_in_ram(schema.build());
        let mut writer = index.writer_with_num_threads(1, 50_000_000).unwrap();
        writer.set_merge_policy(Box::new(NoMergePolicy));
        let entries_of_a_group = u64::from(ENTRIES_MAX) / 5;
        for _ in 0..SEGMENTS_MIN {
            for entry in 0..10 * entries_of_a_group {
                writer.add_document(doc!(group => entry % 10)).unwrap();
            }
            writer.commit().unwrap();
        }
        let segments = || index.searchable_segment_metas().unwrap();
        let candidates = || SizeTieredPolicy::new().compute_merge_candidates(&segments());
        assert_eq!((segments().len(), candidates().len()), (SEGMENTS_MIN, 0), "they are large");
        for deleted in 0..3 {
            writer.delete_term(Term::from_field_u64(group, deleted));
        }
        writer.commit().unwrap();
        assert_eq!(candidates().len(), 0, "three tenths are deleted");
        writer.delete_term(Term::from_field_u64(group, 3));
        writer.commit().unwrap();
        let alone: Vec<usize> = candidates().iter().map(|candidate| candidate.0.len()).collect();
        assert_eq!(alone, [1; SEGMENTS_MIN]);
    }
}
