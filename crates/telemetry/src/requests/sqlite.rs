//! The request log in `telemetry.sqlite` in the data folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, params};

use super::row::{Batch, charges_column, signed};
use super::usage::{
    self, ClassRow, FIRST_DAYS, KnownKeys, USAGE_DAYS_KEPT, UsageQuery, UsageRow, UsageSums, day_of,
};

/// The name of the file.
pub(super) const FILE: &str = "telemetry.sqlite";

/// How long a statement waits for a lock of another process, such as `sqlite3`.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Rows deleted per transaction, so that none is long.
const DELETED_ROWS_MAX: u32 = 10_000;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS weir_requests (
        id INTEGER PRIMARY KEY, at REAL NOT NULL, request_id TEXT NOT NULL, trace_id TEXT, key INTEGER, method TEXT NOT NULL,
        route TEXT NOT NULL, model TEXT, upstream TEXT, status INTEGER NOT NULL, error TEXT, prompt_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cost_nanos INTEGER NOT NULL, attempts INTEGER NOT NULL,
        first_token_us INTEGER, duration_us INTEGER NOT NULL, is_stream INTEGER NOT NULL, guardrails TEXT, cache TEXT,
        saved_nanos INTEGER NOT NULL DEFAULT 0, key_name TEXT, charges TEXT) STRICT;
    CREATE TABLE IF NOT EXISTS weir_usage (
        day TEXT NOT NULL, key INTEGER NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL, errors INTEGER NOT NULL,
        prompt_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
        cost_nanos INTEGER NOT NULL, key_name TEXT, PRIMARY KEY (day, key, model)) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS weir_usage_classes (
        day TEXT NOT NULL, key INTEGER NOT NULL, model TEXT NOT NULL, class TEXT NOT NULL, units INTEGER NOT NULL,
        cost_nanos INTEGER NOT NULL, PRIMARY KEY (day, key, model, class)) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS weir_writers (writer INTEGER PRIMARY KEY, last INTEGER NOT NULL) STRICT;";

/// Columns that files of before do not have.
const ADDED_COLUMNS: &str = "
    ALTER TABLE weir_requests ADD COLUMN guardrails TEXT;
    ALTER TABLE weir_requests ADD COLUMN cache TEXT;
    ALTER TABLE weir_requests ADD COLUMN saved_nanos INTEGER NOT NULL DEFAULT 0;";
const ADDED_KEY_NAMES: &str = "
    ALTER TABLE weir_requests ADD COLUMN key_name TEXT;
    ALTER TABLE weir_usage ADD COLUMN key_name TEXT;";
const ADDED_CHARGES: &str = "ALTER TABLE weir_requests ADD COLUMN charges TEXT;";

const INSERT_ROW: &str = "INSERT INTO weir_requests (at, request_id, trace_id, key, method, route, model, upstream, status, error, prompt_tokens,
    cached_tokens, completion_tokens, cost_nanos, attempts, first_token_us, duration_us, is_stream, guardrails, cache, saved_nanos, key_name, charges)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)";

const ADD_USAGE: &str = "INSERT INTO weir_usage (day, key, model, requests, errors, prompt_tokens, cached_tokens,
    completion_tokens, cost_nanos, key_name) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO UPDATE SET
    requests = requests + excluded.requests, errors = errors + excluded.errors, prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    cached_tokens = cached_tokens + excluded.cached_tokens, completion_tokens = completion_tokens + excluded.completion_tokens,
    cost_nanos = cost_nanos + excluded.cost_nanos, key_name = coalesce(excluded.key_name, key_name)";

const ADD_CLASS: &str = "INSERT INTO weir_usage_classes (day, key, model, class, units, cost_nanos) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT DO UPDATE SET units = units + excluded.units, cost_nanos = cost_nanos + excluded.cost_nanos";

/// Changes a row only if the batch is new to the file.
const BEGIN_BATCH: &str = "INSERT INTO weir_writers VALUES (?1, ?2) ON CONFLICT DO UPDATE SET last = excluded.last WHERE last < excluded.last";

/// The file, opened when it is first written.
pub(super) struct SqliteSink {
    path: PathBuf,
    days_kept: u64,
    rows_kept_max: u64,
    /// Whether rows are kept beside their sums.
    keeps_rows: bool,
    connection: Option<Connection>,
}

impl SqliteSink {
    pub(super) fn new(folder: &Path, days_kept: u64, rows_kept_max: u64) -> SqliteSink {
        SqliteSink { path: folder.join(FILE), days_kept, rows_kept_max, keeps_rows: true, connection: None }
    }

    /// Keeps the sums of this gateway alone, beside a database that is elsewhere.
    pub(super) fn of_sums(folder: &Path) -> SqliteSink {
        SqliteSink { keeps_rows: false, ..SqliteSink::new(folder, 0, 0) }
    }

    /// Reports usage of another data folder. A file that can't be read is reported when it is written.
    pub(super) fn check_keys(&mut self, known: &KnownKeys) {
        if !self.path.exists() {
            return;
        }
        let first_days = self.connection().and_then(|connection| {
            let mut statement = connection.prepare(FIRST_DAYS)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        let place = "`telemetry.sqlite` in the data directory";
        known.check(
            place,
            "move that file away while weir is stopped",
            first_days.unwrap_or_default().into_iter(),
        );
    }

    /// Stores a batch in one transaction, unless it is stored.
    pub(super) fn write(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let rows = if self.keeps_rows { &batch.rows[..] } else { &[] };
        let connection = self.connection()?;
        let transaction = connection.transaction()?;
        let is_new = transaction.prepare(BEGIN_BATCH)?.execute([batch.writer, batch.number])? > 0;
        if !is_new {
            return Ok(());
        }
        let mut insert = transaction.prepare(INSERT_ROW)?;
        for (index, row) in rows.iter().enumerate() {
            insert.execute(params![
                row.at,
                row.request_id,
                row.trace_id,
                row.key,
                row.method,
                row.route,
                row.model,
                row.upstream,
                row.status,
                row.error,
                signed(row.prompt_tokens),
                signed(row.cached_tokens),
                signed(row.completion_tokens),
                signed(row.cost_nanos),
                row.attempts,
                row.first_token_us.map(signed),
                signed(row.duration_us),
                row.is_stream,
                row.guardrails,
                row.cache,
                signed(row.saved_nanos),
                row.key.and_then(|key| batch.key_name(key)),
                charges_column(batch.charges(index)),
            ])?;
        }
        drop(insert);
        add_sums(&transaction, batch)?;
        transaction.commit()
    }

    /// Deletes some of what is older than the settings allow; whether there is more.
    pub(super) fn delete_old(&mut self, now: f64) -> rusqlite::Result<bool> {
        let (oldest, kept) = (now - self.days_kept as f64 * 86_400.0, signed(self.rows_kept_max));
        self.delete_old_sums(now)?;
        let connection = self.connection()?;
        // rows are in the order of time, but for those that were spilled
        let deleted = connection.execute(
            "DELETE FROM weir_requests WHERE id IN (SELECT id FROM weir_requests
             WHERE at < ?1 OR id <= (SELECT max(id) FROM weir_requests) - ?2 ORDER BY id LIMIT ?3)",
            params![oldest, kept, DELETED_ROWS_MAX],
        )?;
        Ok(deleted == DELETED_ROWS_MAX as usize)
    }

    /// Deletes sums that are older than reports go back.
    pub(super) fn delete_old_sums(&mut self, now: f64) -> rusqlite::Result<()> {
        let oldest = day_of(now - USAGE_DAYS_KEPT as f64 * 86_400.0);
        let connection = self.connection()?;
        connection.execute("DELETE FROM weir_usage WHERE day < ?1", [&oldest])?;
        connection.execute("DELETE FROM weir_usage_classes WHERE day < ?1", [&oldest])?;
        Ok(())
    }

    fn connection(&mut self) -> rusqlite::Result<&mut Connection> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            none => {
                let connection = Connection::open(&self.path)?;
                connection.busy_timeout(BUSY_TIMEOUT)?;
                connection.execute_batch(SCHEMA)?;
                let has_guardrails =
                    connection.prepare("SELECT guardrails FROM weir_requests LIMIT 0").is_ok();
                if !has_guardrails {
                    connection.execute_batch(ADDED_COLUMNS)?;
                }
                if connection.prepare("SELECT key_name FROM weir_usage LIMIT 0").is_err() {
                    connection.execute_batch(ADDED_KEY_NAMES)?;
                }
                if connection.prepare("SELECT charges FROM weir_requests LIMIT 0").is_err() {
                    connection.execute_batch(ADDED_CHARGES)?;
                }
                Ok(none.insert(connection))
            }
        }
    }
}

/// Adds the sums of a batch.
fn add_sums(transaction: &Transaction<'_>, batch: &Batch) -> rusqlite::Result<()> {
    let mut add = transaction.prepare(ADD_USAGE)?;
    let mut add_class = transaction.prepare(ADD_CLASS)?;
    for ((day, key, model), sums) in usage::sums(batch) {
        let UsageSums {
            requests,
            errors,
            prompt_tokens,
            cached_tokens,
            completion_tokens,
            cost_nanos,
            classes,
        } = sums;
        add.execute(params![
            day,
            key,
            model,
            requests,
            errors,
            prompt_tokens,
            cached_tokens,
            completion_tokens,
            cost_nanos,
            batch.key_name(key),
        ])?;
        for (class, (units, cost_nanos)) in classes {
            add_class.execute(params![day, key, model, class, units, cost_nanos])?;
        }
    }
    Ok(())
}

/// Reads sums. There are none before the first row is written.
pub(super) fn usage(folder: &Path, query: &UsageQuery) -> rusqlite::Result<Vec<UsageRow>> {
    let path = folder.join(FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // the writer makes the file before the tables
    if !connection.table_exists(None, "weir_usage")? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(&query.sql())?;
    let rows = statement.query_map(params![query.from, query.to, query.key_parameter()], |row| {
        let sums = UsageSums {
            requests: row.get(3)?,
            errors: row.get(4)?,
            prompt_tokens: row.get(5)?,
            cached_tokens: row.get(6)?,
            completion_tokens: row.get(7)?,
            cost_nanos: row.get(8)?,
            ..UsageSums::default()
        };
        Ok(UsageQuery::row(row.get(0)?, row.get(1)?, row.get(2)?, sums))
    })?;
    let rows = rows.collect::<rusqlite::Result<Vec<UsageRow>>>()?;
    if !connection.table_exists(None, "weir_usage_classes")? {
        return Ok(rows); // no request since an earlier version
    }
    let mut statement = connection.prepare(&query.sql_of_classes())?;
    let classes = statement.query_map(params![query.from, query.to, query.key_parameter()], |row| {
        Ok(ClassRow {
            day: row.get(0)?,
            key: row.get(1)?,
            model: row.get(2)?,
            class: row.get(3)?,
            units: row.get(4)?,
            cost_nanos: row.get(5)?,
        })
    })?;
    Ok(UsageQuery::with_classes(rows, classes.collect::<rusqlite::Result<_>>()?))
}
