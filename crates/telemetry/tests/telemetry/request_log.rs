//! The request log through its public interface: SQLite, a database that can't be written, and a real PostgreSQL that is stopped and killed.

#[path = "request_log/postgres.rs"]
mod postgres;
#[path = "request_log/postgres_server.rs"]
mod postgres_server;

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_config::Config;
use weir_telemetry::Metrics;
use weir_telemetry::requests::{KnownKeys, RequestLog, RequestRecord, UsageQuery, UsageRow, day_of};

/// When all requests began.
static AT: LazyLock<f64> =
    LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64().floor());

fn config(folder: &Path) -> Config {
    let mut config = Config::default();
    config.server.data_dir = folder.to_owned();
    config
}

/// Logs requests, a quarter of them failed.
fn log(log: &RequestLog, requests: usize) {
    for number in 0..requests {
        let entry = log.begin(RequestRecord {
            at: *AT,
            request_id: format!("r{number}").into(),
            key: Some(1 + number as i64 % 2),
            key_name: Some(format!("app {}", 1 + number % 2).into()),
            method: "POST",
            route: "/v1/chat/completions",
            status: 499,
            ..RequestRecord::default()
        });
        entry.update(|record| {
            record.model = Some("m".into());
            record.status = if number % 4 == 0 { 502 } else { 200 };
            (record.prompt_tokens, record.cost_nanos) = (10, 5);
        });
    }
}

/// The sums of all requests, none while the database can't be read.
fn usage(log: &RequestLog, by_key: bool) -> Vec<UsageRow> {
    let query = UsageQuery { from: day_of(*AT), to: day_of(*AT), by_key, ..UsageQuery::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime.block_on(log.usage(query)).unwrap_or_default();
    if report.is_of_this_gateway { Vec::new() } else { report.rows }
}

fn requests(log: &RequestLog) -> i64 {
    usage(log, false).first().map_or(0, |row| row.sums.requests)
}

fn wait_for_requests(log: &RequestLog, expected: i64) {
    let until = Instant::now() + Duration::from_secs(60);
    while requests(log) != expected {
        assert!(Instant::now() < until, "{} rows instead of {expected}", requests(log));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn counter(metrics: &Metrics, result: &str) -> u64 {
    let name = format!("weir_request_log_rows_total{{result=\"{result}\"}} ");
    let text = metrics.render(0, 0, &[], |_| true, true);
    text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[test]
fn rows_are_stored_and_summed() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = Metrics::new("scalar");
    let log = RequestLog::start(&config(folder.path()), metrics.clone(), KnownKeys::default()).unwrap();
    self::log(&log, 5_000);
    log.close();
    let rows = usage(&log, true);
    let sums: Vec<_> = rows
        .iter()
        .map(|row| (row.key, row.sums.requests, row.sums.errors, row.sums.prompt_tokens))
        .collect();
    assert_eq!(sums, [(Some(1), 2_500, 1_250, 25_000), (Some(2), 2_500, 0, 25_000)]);
    assert_eq!(["written", "dropped"].map(|result| counter(&metrics, result)), [5_000, 0]);
}

#[test]
fn names_of_models_that_callers_invent_do_not_grow_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = Metrics::new("scalar");
    let log = RequestLog::start(&config(folder.path()), metrics.clone(), KnownKeys::default()).unwrap();
    for number in 0..600 {
        let model = Some(format!("m{}", number % 550).into());
        let (at, status, upstream) = (*AT, 200, Some("u".into()));
        drop(log.begin(RequestRecord { at, status, model, upstream, ..RequestRecord::default() }));
    }
    log.close();
    let text = metrics.render(0, 0, &[], |_| true, true);
    let count = |model: &str| {
        let labels = format!("weir_model_requests_total{{model=\"{model}\",upstream=\"u\",result=\"ok\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&labels)?.parse::<u64>().ok())
    };
    assert_eq!(["m0", "m499", "m500", "other"].map(count), [Some(2), Some(1), None, Some(50)]);
}

#[test]
fn rows_wait_on_disk_for_a_database_that_can_not_be_written_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let obstacle = folder.path().join("telemetry.sqlite");
    std::fs::create_dir(&obstacle).unwrap();
    let metrics = Metrics::new("scalar");
    let log = RequestLog::start(&config(folder.path()), metrics.clone(), KnownKeys::default()).unwrap();
    for _ in 0..5 {
        self::log(&log, 3_000);
        std::thread::sleep(Duration::from_millis(150));
    }
    log.close();
    assert_eq!(["written", "spilled", "dropped"].map(|result| counter(&metrics, result)), [0, 15_000, 0]);

    std::fs::remove_dir(&obstacle).unwrap();
    let log =
        RequestLog::start(&config(folder.path()), Metrics::new("scalar"), KnownKeys::default()).unwrap();
    self::log(&log, 100);
    wait_for_requests(&log, 15_100);
    std::thread::sleep(Duration::from_millis(300));
    log.close();
    let left = folder.path().join("telemetry-spill").read_dir().unwrap().count();
    assert_eq!((requests(&log), left), (15_100, 0));
}

#[test]
fn rows_beyond_the_limit_on_disk_are_dropped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("telemetry.sqlite")).unwrap();
    let mut config = config(folder.path());
    config.telemetry.spill_bytes_max = 200_000;
    let metrics = Metrics::new("scalar");
    let log = RequestLog::start(&config, metrics.clone(), KnownKeys::default()).unwrap();
    self::log(&log, 20_000);
    log.close();
    let [written, spilled, dropped] =
        ["written", "spilled", "dropped"].map(|result| counter(&metrics, result));
    assert_eq!((written, spilled + dropped), (0, 20_000));
    assert!(spilled > 0 && dropped > 0, "{spilled} {dropped}");
}

#[test]
fn old_rows_are_deleted_and_their_sums_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.telemetry.sqlite_rows_max = 1;
    let log = RequestLog::start(&config, Metrics::new("scalar"), KnownKeys::default()).unwrap();
    let old = RequestRecord { at: *AT, ..RequestRecord::default() };
    drop(log.begin(old.clone()));
    drop(log.begin(RequestRecord { at: *AT + 1.0, ..old }));
    log.close();
    let file = rusqlite::Connection::open(folder.path().join("telemetry.sqlite")).unwrap();
    let kept: Vec<f64> = file
        .prepare("SELECT at FROM weir_requests")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!((kept, requests(&log)), (vec![*AT + 1.0], 2));
}

#[test]
fn a_record_costs_less_than_two_microseconds() {
    let folder = tempfile::tempdir().unwrap();
    let log =
        RequestLog::start(&config(folder.path()), Metrics::new("scalar"), KnownKeys::default()).unwrap();
    let id: std::sync::Arc<str> = "r".into();
    let best = (0..200)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..100 {
                drop(log.begin(RequestRecord {
                    at: *AT,
                    request_id: id.clone(),
                    ..RequestRecord::default()
                }));
            }
            started.elapsed() / 100
        })
        .min()
        .unwrap();
    log.close();
    println!("{best:?} per record");
    assert!(best < Duration::from_micros(2), "{best:?}");
}
