//! PostgreSQL on loopback, in a folder of its own, stopped and killed under load.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use weir_config::{Environment, Flags, RequestStore, load};
use weir_telemetry::Metrics;
use weir_telemetry::requests::RequestLog;

use super::{counter, wait_for_requests};

/// A server of the test.
struct Postgres {
    binaries: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    process: Child,
}

impl Postgres {
    fn start() -> Postgres {
        Postgres::start_with(|_| ())
    }

    /// Starts after `prepare` has changed the data folder.
    fn start_with(prepare: impl FnOnce(&Path)) -> Postgres {
        let binaries = binaries();
        let folder = tempfile::tempdir().unwrap();
        own(folder.path());
        let data = folder.path().join("data");
        let made = as_user(&binaries.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=weir", "--encoding=UTF8", "--pgdata"])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success(), "initdb failed");
        prepare(&data);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = run(&binaries, folder.path(), port);
        Postgres { binaries, folder, port, process }
    }

    /// To all its processes.
    fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
        }
    }

    /// The number that a query returns.
    fn count(&self, sql: &str) -> i64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = format!("postgresql://weir@127.0.0.1:{}/postgres", self.port);
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            let driver = tokio::spawn(connection);
            let row = client.query_one(sql, &[]).await.unwrap();
            driver.abort();
            row.get(0)
        })
    }

    /// The server and its children.
    fn processes(&self) -> Vec<i32> {
        let server = self.process.id().cast_signed();
        let children =
            std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap_or_default();
        let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
        std::iter::once(server).chain(children).collect()
    }

    fn restart(&mut self) {
        self.process.wait().unwrap();
        self.process = run(&self.binaries, self.folder.path(), self.port);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        self.signal(Signal::KILL);
        let _ = self.process.wait();
    }
}

/// The newest installed server.
fn binaries() -> PathBuf {
    let versions: Vec<std::fs::DirEntry> =
        std::fs::read_dir("/usr/lib/postgresql").map(|found| found.flatten().collect()).unwrap_or_default();
    let found = versions
        .iter()
        .map(|version| version.path().join("bin"))
        .filter(|folder| folder.join("initdb").is_file());
    found
        .max_by_key(|folder| folder.parent().and_then(|version| version.file_name()?.to_str()?.parse::<u32>().ok()))
        .expect("PostgreSQL is not installed in /usr/lib/postgresql; run `scripts/setup.sh system` or `apt-get install postgresql`")
}

/// The account that owns the folder: PostgreSQL refuses to run as root.
fn account() -> Option<(u32, u32)> {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap();
    let fields = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let numbers = |name: &str| {
        fields
            .clone()
            .find(|fields| fields[0] == name)
            .map(|fields| (fields[2].parse().unwrap(), fields[3].parse().unwrap()))
    };
    geteuid()
        .is_root()
        .then(|| numbers("postgres").or_else(|| numbers("nobody")).expect("an account postgres or nobody"))
}

fn own(folder: &Path) {
    if let Some((user, group)) = account() {
        chown(folder, Some(user), Some(group)).unwrap();
    }
}

fn as_user(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = account() {
        command.uid(user).gid(group);
    }
    command.current_dir("/").process_group(0).stdin(Stdio::null());
    command
}

fn run(binaries: &Path, folder: &Path, port: u16) -> Child {
    let process = as_user(&binaries.join("postgres"))
        .args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-p", &port.to_string(), "-k", ""])
        .arg("-D")
        .arg(folder.join("data"))
        .stdout(Stdio::null())
        .stderr(std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(Instant::now() < until, "PostgreSQL does not start: {}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
    process
}

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
    let requests = RequestLog::start(&config, metrics.clone()).unwrap();
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
        load(1);
        server.restart();
    }
    let sent = load(1);
    wait_for_requests(&requests, sent);
    requests.close();
    assert_eq!(server.count("SELECT count(*) FROM weir_requests"), sent);
    assert_eq!(server.count("SELECT count(*) FROM weir_requests WHERE status = 502"), sent / 4);
    assert_eq!(["written", "dropped"].map(|result| counter(&metrics, result)), [sent.cast_unsigned(), 0]);
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
        let requests = RequestLog::start(&config, Metrics::new("scalar")).unwrap();
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
