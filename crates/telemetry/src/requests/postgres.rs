//! The request log in PostgreSQL: binary COPY into a table that is partitioned by day.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::{Duration, UNIX_EPOCH};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Transaction};
use weir_postgres::Address;

use super::row::{Batch, Row, charges_column, signed};
use super::usage::{
    self, ClassRow, FIRST_DAYS, KnownKeys, USAGE_DAYS_KEPT, UsageQuery, UsageRow, UsageSums, day_of,
};

/// A batch, a connection or a report that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS weir_requests (
        at timestamptz NOT NULL, request_id text NOT NULL, trace_id text, key bigint, method text NOT NULL, route text NOT NULL,
        model text, upstream text, status integer NOT NULL, error text, prompt_tokens bigint NOT NULL, cached_tokens bigint NOT NULL,
        completion_tokens bigint NOT NULL, cost_nanos bigint NOT NULL, attempts integer NOT NULL, first_token_us bigint,
        duration_us bigint NOT NULL, is_stream boolean NOT NULL, guardrails text, cache text, saved_nanos bigint NOT NULL DEFAULT 0, key_name text,
        charges text)
        PARTITION BY RANGE (at);
    ALTER TABLE weir_requests ADD COLUMN IF NOT EXISTS guardrails text, ADD COLUMN IF NOT EXISTS cache text,
        ADD COLUMN IF NOT EXISTS saved_nanos bigint NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS key_name text,
        ADD COLUMN IF NOT EXISTS charges text;
    CREATE INDEX IF NOT EXISTS weir_requests_at ON weir_requests (at);
    CREATE TABLE IF NOT EXISTS weir_usage (
        day text NOT NULL, key bigint NOT NULL, model text NOT NULL, requests bigint NOT NULL, errors bigint NOT NULL,
        prompt_tokens bigint NOT NULL, cached_tokens bigint NOT NULL, completion_tokens bigint NOT NULL, cost_nanos bigint NOT NULL,
        key_name text, PRIMARY KEY (day, key, model));
    ALTER TABLE weir_usage ADD COLUMN IF NOT EXISTS key_name text;
    CREATE TABLE IF NOT EXISTS weir_usage_classes (
        day text NOT NULL, key bigint NOT NULL, model text NOT NULL, class text NOT NULL, units bigint NOT NULL,
        cost_nanos bigint NOT NULL, PRIMARY KEY (day, key, model, class));
    CREATE TABLE IF NOT EXISTS weir_writers (writer bigint PRIMARY KEY, last bigint NOT NULL);";

const COPY: &str = "COPY weir_requests (at, request_id, trace_id, key, method, route, model, upstream, status, error, prompt_tokens,
    cached_tokens, completion_tokens, cost_nanos, attempts, first_token_us, duration_us, is_stream, guardrails, cache, saved_nanos, key_name, charges) FROM STDIN BINARY";
const TYPES: [Type; 23] = [
    Type::TIMESTAMPTZ,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT4,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT4,
    Type::INT8,
    Type::INT8,
    Type::BOOL,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
];

/// Changes a row only if the batch is new to the database. The row stays locked to the end of the transaction: after a broken connection
/// the next attempt waits here until it is decided whether the one before has been committed.
const BEGIN_BATCH: &str = "INSERT INTO weir_writers VALUES ($1, $2)
    ON CONFLICT (writer) DO UPDATE SET last = excluded.last WHERE weir_writers.last < excluded.last";

const ADD_USAGE: &str = "INSERT INTO weir_usage (day, key, model, requests, errors, prompt_tokens, cached_tokens,
        completion_tokens, cost_nanos, key_name) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[],
        $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[])
    ON CONFLICT (day, key, model) DO UPDATE SET requests = weir_usage.requests + excluded.requests, errors = weir_usage.errors + excluded.errors,
    prompt_tokens = weir_usage.prompt_tokens + excluded.prompt_tokens, cached_tokens = weir_usage.cached_tokens + excluded.cached_tokens,
    completion_tokens = weir_usage.completion_tokens + excluded.completion_tokens, cost_nanos = weir_usage.cost_nanos + excluded.cost_nanos,
    key_name = coalesce(excluded.key_name, weir_usage.key_name)";

const ADD_CLASSES: &str = "INSERT INTO weir_usage_classes (day, key, model, class, units, cost_nanos)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
    ON CONFLICT (day, key, model, class) DO UPDATE SET units = weir_usage_classes.units + excluded.units,
    cost_nanos = weir_usage_classes.cost_nanos + excluded.cost_nanos";

const PARTITIONS: &str =
    "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'weir_requests'::regclass";
const PARTITION_PREFIX: &str = "weir_requests_";

/// Why PostgreSQL could not be written or read. No message holds the URL.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// The server or the connection to it.
    #[error("PostgreSQL: {}", message(.0))]
    Server(#[from] tokio_postgres::Error),
    /// No answer.
    #[error("PostgreSQL did not answer within {TIMEOUT:?}")]
    Timeout(#[from] tokio::time::error::Elapsed),
}

/// The message of the server, or of the system about the connection.
fn message(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// The database, connected when it is first written and again after each failure.
pub(super) struct PostgresSink {
    address: Address,
    days_kept: u64,
    runtime: Runtime,
    session: Option<Session>,
    /// The keys that usage in the database is compared with when it is first reached.
    known_keys: Option<KnownKeys>,
}

struct Session {
    client: Client,
    driver: JoinHandle<()>,
    /// Days whose partition exists.
    days: BTreeSet<String>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl PostgresSink {
    pub(super) fn new(
        address: Address,
        days_kept: u64,
        known_keys: KnownKeys,
    ) -> std::io::Result<PostgresSink> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(PostgresSink { address, days_kept, runtime, session: None, known_keys: Some(known_keys) })
    }

    /// Stores a batch in one transaction, unless it is stored.
    pub(super) fn write(&mut self, batch: &Batch) -> Result<(), PostgresError> {
        self.in_session(async |session| session.write(batch).await)
    }

    /// Drops old partitions.
    pub(super) fn delete_old(&mut self, now: f64) -> Result<(), PostgresError> {
        let oldest = day_of(now - self.days_kept as f64 * 86_400.0);
        let usage = day_of(now - USAGE_DAYS_KEPT as f64 * 86_400.0);
        self.in_session(async |session| session.delete_before(&oldest, &usage).await)
    }

    /// Runs statements; a failure ends the session.
    fn in_session(
        &mut self,
        work: impl AsyncFnOnce(&mut Session) -> Result<(), tokio_postgres::Error>,
    ) -> Result<(), PostgresError> {
        let (address, taken, known_keys) = (&self.address, self.session.take(), &self.known_keys);
        let attempt = async {
            let mut session = match taken.filter(|session| !session.client.is_closed()) {
                Some(session) => session,
                None => Session::open(address).await?,
            };
            if let Some(known) = known_keys {
                let first_days = session.client.query(FIRST_DAYS, &[]).await?;
                let first_days = first_days.iter().map(|row| (row.get(0), row.get(1)));
                let place = "the database at `telemetry.postgres_url`";
                known.check(place, "name a database or a schema for this one", first_days);
            }
            work(&mut session).await?;
            Ok::<Session, tokio_postgres::Error>(session)
        };
        let done = self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, attempt).await });
        self.session = Some(done??);
        self.known_keys = None;
        Ok(())
    }
}

impl Session {
    async fn open(address: &Address) -> Result<Session, tokio_postgres::Error> {
        let (client, connection) = address.connect().await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = message(&error), "the connection to PostgreSQL has ended");
            }
        });
        let session = Session { client, driver, days: BTreeSet::new() };
        session.client.batch_execute(SCHEMA).await?;
        Ok(session)
    }

    async fn write(&mut self, batch: &Batch) -> Result<(), tokio_postgres::Error> {
        let sums = usage::sums(batch);
        for (day, ..) in sums.keys() {
            if !self.days.contains(day) {
                self.create_partition(day).await?;
            }
        }
        let transaction = self.client.transaction().await?;
        if transaction.execute(BEGIN_BATCH, &[&batch.writer, &batch.number]).await? == 0 {
            return Ok(());
        }
        let mut copy = pin!(BinaryCopyInWriter::new(transaction.copy_in(COPY).await?, &TYPES));
        for (index, row) in batch.rows.iter().enumerate() {
            copy_row(copy.as_mut(), row, batch, index).await?;
        }
        copy.as_mut().finish().await?;
        let column = |of: fn(&UsageSums) -> i64| sums.values().map(of).collect::<Vec<i64>>();
        let days: Vec<&str> = sums.keys().map(|(day, ..)| day.as_str()).collect();
        let keys: Vec<i64> = sums.keys().map(|(_, key, _)| *key).collect();
        let models: Vec<&str> = sums.keys().map(|(.., model)| *model).collect();
        let columns = [
            column(|sums| sums.requests),
            column(|sums| sums.errors),
            column(|sums| sums.prompt_tokens),
            column(|sums| sums.cached_tokens),
            column(|sums| sums.completion_tokens),
            column(|sums| sums.cost_nanos),
        ];
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&days, &keys, &models];
        values.extend(columns.iter().map(|column| column as &(dyn ToSql + Sync)));
        let names: Vec<Option<&str>> = keys.iter().map(|key| batch.key_name(*key)).collect();
        values.push(&names);
        transaction.execute(ADD_USAGE, &values).await?;
        add_classes(&transaction, &sums).await?;
        transaction.commit().await
    }

    async fn create_partition(&mut self, day: &str) -> Result<(), tokio_postgres::Error> {
        let start = day.parse::<jiff::civil::Date>().unwrap_or_default();
        let end = start.tomorrow().unwrap_or(start);
        let name = format!("{PARTITION_PREFIX}{}", day.replace('-', ""));
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {name} PARTITION OF weir_requests FOR VALUES FROM ('{start} 00:00+00') TO ('{end} 00:00+00')"
        );
        self.client.batch_execute(&create).await?;
        self.days.insert(day.to_owned());
        Ok(())
    }

    async fn delete_before(&mut self, oldest: &str, usage: &str) -> Result<(), tokio_postgres::Error> {
        let oldest = oldest.replace('-', "");
        for row in self.client.query(PARTITIONS, &[]).await? {
            let name: String = row.get(0);
            let day = name.rsplit('.').next().and_then(|name| name.strip_prefix(PARTITION_PREFIX));
            if day.is_some_and(|day| day < oldest.as_str()) {
                self.client.batch_execute(&format!("DROP TABLE IF EXISTS {name}")).await?;
                self.days.clear();
            }
        }
        self.client.execute("DELETE FROM weir_usage WHERE day < $1", &[&usage]).await?;
        self.client.execute("DELETE FROM weir_usage_classes WHERE day < $1", &[&usage]).await?;
        Ok(())
    }
}

/// Adds the sums by class.
async fn add_classes(
    transaction: &Transaction<'_>,
    sums: &BTreeMap<(String, i64, &str), UsageSums>,
) -> Result<(), tokio_postgres::Error> {
    let (mut days, mut keys, mut models) = (Vec::new(), Vec::new(), Vec::new());
    let (mut classes, mut units, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for ((day, key, model), sums) in sums {
        for (class, (used, cost)) in &sums.classes {
            days.push(day.as_str());
            keys.push(*key);
            models.push(*model);
            classes.push(class.as_str());
            units.push(*used);
            costs.push(*cost);
        }
    }
    if !days.is_empty() {
        transaction.execute(ADD_CLASSES, &[&days, &keys, &models, &classes, &units, &costs]).await?;
    }
    Ok(())
}

async fn copy_row(
    copy: std::pin::Pin<&mut BinaryCopyInWriter>,
    row: &Row,
    batch: &Batch,
    index: usize,
) -> Result<(), tokio_postgres::Error> {
    let key_name = row.key.and_then(|key| batch.key_name(key));
    let charges = charges_column(batch.charges(index));
    let at = UNIX_EPOCH + Duration::try_from_secs_f64(row.at).unwrap_or_default();
    let (method, route, error) = (row.method.as_ref(), row.route.as_ref(), row.error.as_deref());
    let cache = row.cache.as_deref();
    let first_token = row.first_token_us.map(signed);
    let attempts = i32::try_from(row.attempts).unwrap_or(i32::MAX);
    let values: [&(dyn ToSql + Sync); 23] = [
        &at,
        &row.request_id,
        &row.trace_id,
        &row.key,
        &method,
        &route,
        &row.model,
        &row.upstream,
        &i32::from(row.status),
        &error,
        &signed(row.prompt_tokens),
        &signed(row.cached_tokens),
        &signed(row.completion_tokens),
        &signed(row.cost_nanos),
        &attempts,
        &first_token,
        &signed(row.duration_us),
        &row.is_stream,
        &row.guardrails,
        &cache,
        &signed(row.saved_nanos),
        &key_name,
        &charges,
    ];
    copy.write(&values).await
}

/// Reads sums, on a connection of its own.
pub(super) async fn usage(address: &Address, query: &UsageQuery) -> Result<Vec<UsageRow>, PostgresError> {
    let read = async {
        let session = Session::open(address).await?;
        let key = query.key_parameter();
        let parameters: [&(dyn ToSql + Sync); 3] = [&query.from, &query.to, &key];
        let [rows, classes] =
            [query.sql(), query.sql_of_classes()].map(|sql| sql.replace("$3", "$3::bigint"));
        Ok::<_, tokio_postgres::Error>((
            session.client.query(&rows, &parameters).await?,
            session.client.query(&classes, &parameters).await?,
        ))
    };
    let (rows, classes) = tokio::time::timeout(TIMEOUT, read).await??;
    let row = |row: &tokio_postgres::Row| {
        let sums = UsageSums {
            requests: row.get(3),
            errors: row.get(4),
            prompt_tokens: row.get(5),
            cached_tokens: row.get(6),
            completion_tokens: row.get(7),
            cost_nanos: row.get(8),
            ..UsageSums::default()
        };
        UsageQuery::row(row.get(0), row.get(1), row.get(2), sums)
    };
    let class = |row: &tokio_postgres::Row| ClassRow {
        day: row.get(0),
        key: row.get(1),
        model: row.get(2),
        class: row.get(3),
        units: row.get(4),
        cost_nanos: row.get(5),
    };
    Ok(UsageQuery::with_classes(rows.iter().map(row).collect(), classes.iter().map(class).collect()))
}
