//! When an index is compared with the store: when it was asked for, and from time to time.

use std::collections::HashMap;

use weir_api::{ReconciliationReply, ReconciliationStatus};
use weir_store::{CollectionId, Store, Upkeep, UpkeepKind};
use weir_telemetry::metrics::Metrics;

use crate::reconcile::Run;
use crate::{Kept, UpkeepError};

/// Seconds after which one that failed is tried again.
const RETRY_AFTER_S: f64 = 600.0;

/// When comparisons are made, and how fast.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Seconds between the beginnings of two; 0: only when they are asked for.
    pub every_s: u64,
    /// Points that are compared in a second.
    pub points_per_s: u64,
}

impl Schedule {
    fn is_due(&self, report: &ReconciliationReply, created_at: f64, now: f64) -> bool {
        let every = self.every_s as f64;
        match report.status {
            ReconciliationStatus::Waiting | ReconciliationStatus::Running => true,
            _ if self.every_s == 0 => false,
            ReconciliationStatus::Never => now >= created_at + every,
            ReconciliationStatus::Completed => now >= report.started_at.unwrap_or(created_at) + every,
            ReconciliationStatus::Failed => {
                now >= report.finished_at.unwrap_or(created_at) + every.min(RETRY_AFTER_S)
            }
        }
    }
}

/// Makes the comparisons that are due, one after the other, of those collections whose index this process may change.
///
/// # Errors
/// When the store can't be read. What fails of a collection is in its report and the log.
pub async fn reconcile_due(
    store: &Store,
    all: &[impl Kept],
    schedule: Schedule,
    metrics: &Metrics,
    now: impl Fn() -> f64,
) -> weir_store::Result<()> {
    let rows = store.upkeep(UpkeepKind::Reconcile).await?;
    let mut rows: HashMap<CollectionId, Upkeep> = rows.into_iter().map(|row| (row.collection, row)).collect();
    for kept in all {
        let Some(inventory) = kept.engine().inventory() else { continue };
        let (report, revision) = read(rows.remove(&kept.id()), kept.name());
        let is_due = schedule.is_due(&report, kept.created_at(), now());
        if !kept.may_change(is_due) || !is_due {
            continue;
        }
        let begun = ReconciliationReply {
            collection: kept.name().to_owned(),
            status: ReconciliationStatus::Running,
            started_at: Some(now()),
            ..ReconciliationReply::default()
        };
        let run = Run::new(kept, inventory, metrics, schedule.points_per_s, (begun, revision));
        match run.run(&now).await {
            Ok(ReconciliationReply { documents, points, deleted, lost, earlier, mended, .. }) => {
                metrics.reconciliation("completed");
                tracing::info!(
                    collection = kept.name(),
                    documents,
                    points,
                    deleted,
                    lost,
                    earlier,
                    mended,
                    "the index was compared with the store"
                );
            }
            Err(error @ (UpkeepError::TakenOver | UpkeepError::Store(weir_store::Error::LeaseLost))) => {
                tracing::info!(collection = kept.name(), %error, "the comparison of the index is left to it");
            }
            Err(error) => {
                metrics.reconciliation("failed");
                tracing::warn!(collection = kept.name(), %error, "the index can't be compared with the store; it is tried again");
            }
        }
    }
    Ok(())
}

/// Asks for a comparison, unless one was asked for that has not ended; the one that is asked for.
///
/// # Errors
/// Errors of the store.
pub async fn ask(store: &Store, id: CollectionId, name: &str) -> weir_store::Result<ReconciliationReply> {
    loop {
        let (report, revision) = find(store, id, name).await?;
        if report.status.is_open() {
            return Ok(report);
        }
        let asked = ReconciliationReply {
            collection: name.to_owned(),
            status: ReconciliationStatus::Waiting,
            ..ReconciliationReply::default()
        };
        let state = serde_json::to_string(&asked).unwrap_or_default();
        if store.replace_upkeep(id, UpkeepKind::Reconcile, revision, &state).await?.is_some() {
            return Ok(asked);
        }
        if !store.has_collection(id).await? {
            return Err(weir_store::Error::UnknownCollection(name.to_owned()));
        }
    }
}

/// The last comparison.
///
/// # Errors
/// Errors of the store.
pub async fn last(store: &Store, id: CollectionId, name: &str) -> weir_store::Result<ReconciliationReply> {
    Ok(find(store, id, name).await?.0)
}

async fn find(store: &Store, id: CollectionId, name: &str) -> weir_store::Result<(ReconciliationReply, u64)> {
    let rows = store.upkeep(UpkeepKind::Reconcile).await?;
    Ok(read(rows.into_iter().find(|row| row.collection == id), name))
}

/// The report of a row, and its revision. What can't be read is as if there were none.
fn read(row: Option<Upkeep>, name: &str) -> (ReconciliationReply, u64) {
    let none = ReconciliationReply { collection: name.to_owned(), ..ReconciliationReply::default() };
    match row {
        Some(row) => (serde_json::from_str(&row.state).unwrap_or(none), row.revision),
        None => (none, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(every_s: u64, status: ReconciliationStatus, ages: (Option<f64>, Option<f64>), expected: bool) {
        let at = |age: Option<f64>| age.map(|age| 1_000_000.0 - age);
        let (started_at, finished_at) = (at(ages.0), at(ages.1));
        let report = ReconciliationReply { status, started_at, finished_at, ..Default::default() };
        let schedule = Schedule { every_s, points_per_s: 1 };
        assert_eq!(schedule.is_due(&report, 1_000_000.0 - 5_000.0, 1_000_000.0), expected, "{report:?}");
    }

    #[test]
    fn comparisons_are_due_when_asked_for_and_from_time_to_time() {
        use ReconciliationStatus::{Completed, Failed, Never, Running, Waiting};
        check(0, Never, (None, None), false);
        check(5_000, Never, (None, None), true);
        check(5_001, Never, (None, None), false);
        check(0, Waiting, (None, None), true);
        check(0, Running, (Some(1.0), None), true);
        check(5_000, Completed, (Some(5_000.0), Some(1.0)), true);
        check(5_000, Completed, (Some(4_999.0), Some(1.0)), false);
        check(5_000, Failed, (Some(1_000.0), Some(600.0)), true);
        check(5_000, Failed, (Some(1_000.0), Some(599.0)), false);
        check(100, Failed, (Some(1_000.0), Some(100.0)), true);
        check(0, Failed, (Some(9_000.0), Some(9_000.0)), false);
    }
}
