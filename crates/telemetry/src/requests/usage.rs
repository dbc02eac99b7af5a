//! Sums of the request log by day, API key and model. The sinks keep them beside the rows, so that a report reads few rows, and days whose
//! rows were deleted.

use std::collections::BTreeMap;

use super::row::{Batch, Charge, Row, signed};

/// Days for which sums are kept.
pub(super) const USAGE_DAYS_KEPT: u64 = 400;
/// Most sums in a report.
pub const USAGE_ROWS_MAX: usize = 10_000;
/// Most sums by class that are read for a report: those of as many rows.
const CLASS_ROWS_MAX: usize = 16 * USAGE_ROWS_MAX;

/// The requests of a usage report, and the groups by which it sums them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// The first day, as `2026-01-31`, in UTC.
    pub from: String,
    /// The last day.
    pub to: String,
    /// Only requests with this API key.
    pub key: Option<i64>,
    /// A sum for each API key.
    pub by_key: bool,
    /// A sum for each model.
    pub by_model: bool,
    /// A sum for each day.
    pub by_day: bool,
}

/// Sums over requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageRow {
    /// The day, if sums are by day.
    pub day: Option<String>,
    /// The number of the API key, if sums are by key and the requests had one.
    pub key: Option<i64>,
    /// The model, if sums are by model and the requests had one.
    pub model: Option<String>,
    /// The sums.
    pub sums: UsageSums,
}

/// The sums of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// The rows.
    pub rows: Vec<UsageRow>,
    /// Whether they are of this gateway alone, because the database that all gateways share can't be read.
    pub is_of_this_gateway: bool,
}

/// A sum of one class, as a database has it.
pub(super) struct ClassRow {
    pub(super) day: String,
    pub(super) key: i64,
    pub(super) model: String,
    pub(super) class: String,
    pub(super) units: i64,
    pub(super) cost_nanos: i64,
}

/// Counters of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageSums {
    /// Requests.
    pub requests: i64,
    /// Those that failed: status 400 and above, or an error after the head of the reply.
    pub errors: i64,
    /// Tokens of prompts and texts.
    pub prompt_tokens: i64,
    /// Those of them that the provider had cached.
    pub cached_tokens: i64,
    /// Tokens of completions.
    pub completion_tokens: i64,
    /// Cost in billionths.
    pub cost_nanos: i64,
    /// Units and cost in billionths, by class.
    pub classes: BTreeMap<String, (i64, i64)>,
}

impl UsageSums {
    fn add(&mut self, row: &Row, charges: &[Charge]) {
        let add = |sum: &mut i64, value: u64| *sum = sum.saturating_add(signed(value));
        add(&mut self.requests, 1);
        add(&mut self.errors, u64::from(row.status >= 400 || row.error.is_some()));
        add(&mut self.prompt_tokens, row.prompt_tokens);
        add(&mut self.cached_tokens, row.cached_tokens);
        add(&mut self.completion_tokens, row.completion_tokens);
        add(&mut self.cost_nanos, row.cost_nanos);
        for charge in charges {
            let (units, cost) = self.classes.entry(charge.class.to_string()).or_default();
            add(units, charge.units);
            add(cost, charge.cost_nanos);
        }
    }
}

/// The API keys of the data folder: their numbers are known there alone.
#[derive(Debug, Clone, Default)]
pub struct KnownKeys {
    /// Whether the store has been created by this start.
    pub is_new_store: bool,
    /// When each key was created, in unix seconds.
    pub created_at: BTreeMap<i64, f64>,
}

/// The first day of each key's usage, 0 for requests without a key. In the SQL of SQLite and of PostgreSQL.
pub(super) const FIRST_DAYS: &str = "SELECT key, min(day) FROM weir_usage GROUP BY key";

impl KnownKeys {
    /// Tells of usage that is older than the store, or than the key with its number: it is of another data folder.
    pub(super) fn check(
        &self,
        place: &str,
        remedy: &str,
        mut first_days: impl Iterator<Item = (i64, String)>,
    ) {
        let is_foreign = |(key, first): &(i64, String)| {
            let is_older = |created: &f64| *first < day_of(*created);
            self.is_new_store || *key > 0 && self.created_at.get(key).is_none_or(is_older)
        };
        if first_days.any(|usage| is_foreign(&usage)) {
            tracing::warn!(
                "{place} has usage of another data directory than this one: each numbers its API keys from 1, so usage of different \
                 keys is added up; {remedy}, or start over the data directory that the usage is of"
            );
        }
    }
}

/// The day of a time in unix seconds, as `2026-01-31`, in UTC.
pub fn day_of(at: f64) -> String {
    let time = jiff::Timestamp::from_second(at as i64).unwrap_or_default();
    time.strftime("%F").to_string()
}

/// The sums of a batch, by day, key (0 without one) and model (empty without one), sorted, so that writers lock in one order.
pub(super) fn sums(batch: &Batch) -> BTreeMap<(String, i64, &str), UsageSums> {
    let mut by_day: BTreeMap<(i64, i64, &str), UsageSums> = BTreeMap::new();
    for (index, row) in batch.rows.iter().enumerate() {
        let day = (row.at / 86_400.0).floor() as i64;
        let model = row.summed_model().unwrap_or_default();
        by_day.entry((day, row.key.unwrap_or_default(), model)).or_default().add(row, batch.charges(index));
    }
    let named = |((day, key, model), sums)| ((day_of(day as f64 * 86_400.0), key, model), sums);
    by_day.into_iter().map(named).collect()
}

impl UsageQuery {
    /// The query, in the SQL of SQLite and of PostgreSQL, with the parameters first day, last day and key (negative for all).
    pub(super) fn sql(&self) -> String {
        let column = |is_shown, name, none| if is_shown { name } else { none };
        format!(
            "SELECT {}, {}, {}, CAST(sum(requests) AS bigint), CAST(sum(errors) AS bigint), CAST(sum(prompt_tokens) AS bigint), \
             CAST(sum(cached_tokens) AS bigint), CAST(sum(completion_tokens) AS bigint), CAST(sum(cost_nanos) AS bigint) \
             FROM weir_usage WHERE day >= $1 AND day <= $2 AND ($3 < 0 OR key = $3) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT {USAGE_ROWS_MAX}",
            column(self.by_day, "day", "''"),
            column(self.by_key, "key", "CAST(0 AS bigint)"),
            column(self.by_model, "model", "''"),
        )
    }

    /// The query of the sums by class, with the same parameters.
    pub(super) fn sql_of_classes(&self) -> String {
        let column = |is_shown, name, none| if is_shown { name } else { none };
        format!(
            "SELECT {}, {}, {}, class, CAST(sum(units) AS bigint), CAST(sum(cost_nanos) AS bigint) FROM weir_usage_classes \
             WHERE day >= $1 AND day <= $2 AND ($3 < 0 OR key = $3) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT {CLASS_ROWS_MAX}",
            column(self.by_day, "day", "''"),
            column(self.by_key, "key", "CAST(0 AS bigint)"),
            column(self.by_model, "model", "''"),
        )
    }

    /// Adds the sums by class to the rows that they are of.
    pub(super) fn with_classes(mut rows: Vec<UsageRow>, classes: Vec<ClassRow>) -> Vec<UsageRow> {
        let at = |row: &UsageRow| (row.day.clone(), row.key, row.model.clone());
        let index: BTreeMap<_, usize> =
            rows.iter().enumerate().map(|(index, row)| (at(row), index)).collect();
        for ClassRow { day, key, model, class, units, cost_nanos } in classes {
            let row = UsageQuery::row(day, key, model, UsageSums::default());
            if let Some(row) = index.get(&at(&row)).and_then(|index| rows.get_mut(*index)) {
                row.sums.classes.insert(class, (units, cost_nanos));
            }
        }
        rows
    }

    /// A row of its result.
    pub(super) fn row(day: String, key: i64, model: String, sums: UsageSums) -> UsageRow {
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        UsageRow { day: text(day), key: Some(key).filter(|key| *key > 0), model: text(model), sums }
    }

    /// The parameter for the key.
    pub(super) fn key_parameter(&self) -> i64 {
        self.key.unwrap_or(-1)
    }
}
