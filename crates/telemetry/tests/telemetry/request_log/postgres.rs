//! The request log in PostgreSQL, which is stopped and killed under load.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::Signal;
use weir_config::{Environment, Flags, RequestStore, load};
use weir_telemetry::Metrics;
use weir_telemetry::requests::{KnownKeys, RequestLog, UsageQuery, day_of};

use super::postgres_server::{Postgres, own};
use super::{counter, wait_for_requests};

#[test]
fn every_row_arrives_once_although_postgresql_is_stopped_and_killed_under_load() {
    let mut server = Postgres::start();
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().join("url");
    std::fs::write(&url, format!("postgresql://weir:secret@127.0.0.1:{}/postgres\n", server.port)).unwrap();
    let variables = [
        ("WEIR_SERVER_DATA_DIR", folder.path().to_str().unwrap().to_owned()),
        ("WEIR_TELEMETRY_REQUESTS", "postgres".to_owned()),
        ("WEIR_TELEMETRY_POSTGRES_URL", format!("file:{}", url.display())),
    ];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let config = load(&Flags::default(), &Environment::of(&variables)).unwrap().config;
    assert_eq!(config.telemetry.requests, RequestStore::Postgres);
    let metrics = Metrics::new("scalar");
    let requests = RequestLog::start(&config, metrics.clone(), KnownKeys::default()).unwrap();
    let mut sent = 0i64;
    let mut load = |seconds: u64| {
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut slowest = Duration::ZERO;
        while Instant::now() < until {
            let started = Instant::now();
            super::log(&requests, 200);
            slowest = slowest.max(started.elapsed());
            sent += 200;
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("slowest 200 records: {slowest:?}");
        sent
    };
    let sent = load(2);
    wait_for_requests(&requests, sent);

    server.signal(Signal::STOP);
    let memory = resident_bytes();
    let sent = load(12); // longer than the time limit of a batch
    let grown = resident_bytes().saturating_sub(memory);
    assert!(grown < 32 << 20, "{grown} bytes more");
    assert!(counter(&metrics, "spilled") > 10_000, "the rows wait on disk");
    server.signal(Signal::CONT);
    wait_for_requests(&requests, sent);

    for _ in 0..3 {
        load(1);
        server.signal(Signal::KILL);
        let sent = load(1);
        wait_for_sums_of_this_gateway(&requests, sent);
        server.restart();
    }
    let sent = load(1);
    wait_for_requests(&requests, sent);
    requests.close();
    assert_eq!(server.count("SELECT count(*) FROM weir_requests"), sent);
    assert_eq!(server.count("SELECT count(*) FROM weir_requests WHERE status = 502"), sent / 4);
    let named = "SELECT count(*) FROM weir_requests WHERE key_name = 'app ' || key";
    assert_eq!(server.count(named), sent);
    assert_eq!(
        server.count("SELECT sum(requests)::bigint FROM weir_usage WHERE key_name = 'app ' || key"),
        sent
    );
    assert_eq!(["written", "dropped"].map(|result| counter(&metrics, result)), [sent.cast_unsigned(), 0]);
}

/// Waits until the sums that are reported without PostgreSQL are those of `expected` requests.
fn wait_for_sums_of_this_gateway(log: &RequestLog, expected: i64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let query = UsageQuery { from: day_of(*super::AT), to: day_of(*super::AT), ..UsageQuery::default() };
        let report = runtime.block_on(log.usage(query)).unwrap();
        assert!(report.is_of_this_gateway, "PostgreSQL is down");
        let sums = report.rows.first().map_or(0, |row| row.sums.requests);
        if sums == expected {
            return;
        }
        assert!(Instant::now() < until, "{sums} requests instead of {expected}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Writes a certificate for `db.example`, which is its own authority, and its key.
fn issue(certificate: &Path, key: &Path) {
    let made = rcgen::generate_simple_self_signed(["db.example".to_owned()]).unwrap();
    let secret = made.signing_key.serialize_der();
    for (path, label, bytes) in
        [(certificate, "CERTIFICATE", made.cert.der().as_ref()), (key, "PRIVATE KEY", &secret)]
    {
        let text = BASE64_STANDARD.encode(bytes);
        std::fs::write(path, format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn connections_are_encrypted_and_checked_as_the_mode_says() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (folder.path().join("authority.pem"), folder.path().join("other.pem"));
    issue(&other, &folder.path().join("other-key.pem"));
    let server = Postgres::start_with(|data| {
        let (certificate, key) = (data.join("server.crt"), data.join("server.key"));
        issue(&certificate, &key);
        std::fs::copy(&certificate, &authority).unwrap();
        own(&certificate);
        own(&key);
        let settings = data.join("postgresql.conf");
        let written = std::fs::read_to_string(&settings).unwrap();
        std::fs::write(&settings, format!("{written}\nssl = on\n")).unwrap();
    });
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'weir'";
    let (authority, other) = (authority.display(), other.display());
    let mut stored = 0;
    for (number, (host, parameters, expected)) in [
        ("127.0.0.1", "sslmode=disable".to_owned(), Some(false)),
        ("127.0.0.1", "sslmode=prefer".to_owned(), Some(true)),
        ("127.0.0.1", "sslmode=require".to_owned(), Some(true)),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={other}"), None),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={authority}"), Some(true)),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={authority}"), None),
        ("db.example", format!("hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={authority}"), Some(true)),
        ("db.example", format!("hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={other}"), None),
        ("db.example", "hostaddr=127.0.0.1&sslmode=verify-full".to_owned(), None),
    ]
    .into_iter()
    .enumerate()
    {
        let data = folder.path().join(number.to_string());
        std::fs::create_dir(&data).unwrap();
        let url = data.join("url");
        std::fs::write(&url, format!("postgresql://weir@{host}:{}/postgres?{parameters}", server.port))
            .unwrap();
        let variables = [
            ("WEIR_SERVER_DATA_DIR", data.display().to_string()),
            ("WEIR_TELEMETRY_REQUESTS", "postgres".to_owned()),
            ("WEIR_TELEMETRY_POSTGRES_URL", format!("file:{}", url.display())),
        ];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        let config = load(&Flags::default(), &Environment::of(&variables)).unwrap().config;
        let requests = RequestLog::start(&config, Metrics::new("scalar"), KnownKeys::default()).unwrap();
        super::log(&requests, 4);
        match expected {
            Some(is_encrypted) => {
                stored += 4;
                wait_for_requests(&requests, stored);
                assert_eq!(server.count(encrypted) > 0, is_encrypted, "{host} {parameters}");
            }
            None => {
                assert_eq!(super::requests(&requests), 0, "{host} {parameters}: it is connected");
                let rows = server.count("SELECT count(*) FROM weir_requests");
                assert_eq!(rows, stored, "{host} {parameters}");
            }
        }
        requests.close();
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
