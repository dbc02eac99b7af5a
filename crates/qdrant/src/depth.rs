//! How many points a ranking has to have.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Points that a ranking has at most.
pub const RANKED_MAX: usize = 10_000;
/// Points for each unit of the result that are asked for at first, in hundredths.
const FIRST: usize = 200;
/// Part of the points that were needed which is asked for beyond them.
const MARGIN: usize = 8;
/// Part of a difference by which the number rises and falls: another call costs more than points that are read in vain.
const RISE: usize = 4;
const FALL: usize = 16;

/// Points that rankings needed lately for each unit of the result, in hundredths: a document has several chunks, of which the best counts.
#[derive(Debug)]
pub struct PointsPerUnit(AtomicUsize);

impl Default for PointsPerUnit {
    fn default() -> PointsPerUnit {
        PointsPerUnit(AtomicUsize::new(FIRST))
    }
}

impl PointsPerUnit {
    /// Points to ask for, for a ranking of `units`.
    pub fn limit(&self, units: usize) -> usize {
        let needed = self.0.load(Ordering::Relaxed);
        units.saturating_mul(needed + needed / MARGIN).div_ceil(100).clamp(1, RANKED_MAX)
    }

    /// A ranking had `units` within its first `points`. What two searches note at one instant may be lost, which is harmless.
    pub fn note(&self, points: usize, units: usize) {
        let Some(needed) = (points * 100).checked_div(units) else { return };
        let before = self.0.load(Ordering::Relaxed);
        let rise = needed.saturating_sub(before) / RISE;
        let fall = before.saturating_sub(needed) / FALL;
        self.0.store(before + rise - fall, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_points_are_asked_for_as_documents_had_chunks_in_rankings() {
        let points = PointsPerUnit::default();
        assert_eq!(points.limit(100), 225, "nothing is known");
        points.note(0, 0);
        assert_eq!(points.limit(100), 225, "a ranking without hits");
        (0..100).for_each(|_| points.note(100, 100));
        assert!((112..130).contains(&points.limit(100)), "one chunk each: {}", points.limit(100));
        points.note(900, 100);
        assert!((300..400).contains(&points.limit(100)), "one large document: {}", points.limit(100));
        (0..30).for_each(|_| points.note(900, 100));
        assert!((950..1013).contains(&points.limit(100)), "nine chunks each: {}", points.limit(100));
        assert_eq!((points.limit(0), points.limit(100_000)), (1, RANKED_MAX));
    }
}
