//! A PostgreSQL server on loopback, in a folder of its own, that a test stops, kills and starts again.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// A server of the test.
pub(crate) struct Postgres {
    binaries: PathBuf,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    is_durable: bool,
    process: Child,
}

impl Postgres {
    /// Starts with the default settings.
    pub(crate) fn start() -> Postgres {
        Postgres::start_with(|_| ())
    }

    /// Starts a server that syncs each commit.
    #[allow(dead_code, reason = "not all programs that start servers measure them")]
    pub(crate) fn start_durable() -> Postgres {
        Postgres::start_by(true, |_| ())
    }

    /// Starts after `prepare` has changed the data folder.
    pub(crate) fn start_with(prepare: impl FnOnce(&Path)) -> Postgres {
        Postgres::start_by(false, prepare)
    }

    fn start_by(is_durable: bool, prepare: impl FnOnce(&Path)) -> Postgres {
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
        let process = run(&binaries, folder.path(), port, is_durable);
        Postgres { binaries, folder, port, is_durable, process }
    }

    /// The folder of its data.
    #[allow(dead_code, reason = "not all programs that start servers change their files")]
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Its address for clients.
    pub(crate) fn url(&self) -> String {
        format!("postgresql://weir@127.0.0.1:{}/postgres", self.port)
    }

    /// To all its processes.
    pub(crate) fn signal(&self, signal: Signal) {
        if signal == Signal::KILL {
            // a stopped server starts no process that would be left
            let _ = kill_process(Pid::from_raw(self.process.id().cast_signed()).unwrap(), Signal::STOP);
        }
        for pid in self.processes() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
        }
    }

    /// The number that a query returns.
    pub(crate) fn count(&self, sql: &str) -> i64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = self.url();
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

    /// Has it end its connections and itself, and waits for that.
    #[allow(dead_code, reason = "not all programs that start servers shut them down")]
    pub(crate) fn shut_down(&mut self) {
        kill_process(Pid::from_raw(self.process.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        self.process.wait().unwrap();
    }

    /// Starts again after it was killed or shut down.
    pub(crate) fn restart(&mut self) {
        self.process.wait().unwrap();
        self.process = run(&self.binaries, self.folder.path(), self.port, self.is_durable);
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

/// Gives a file or folder to the account that the server runs as.
pub(crate) fn own(folder: &Path) {
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

/// Whether a client is asked for its password, or let in: the server does not start or recover any more.
fn takes_connections(port: u16) -> bool {
    const STARTUP: &[u8] = b"\0\0\0\x25\0\x03\0\0user\0weir\0database\0postgres\0\0";
    let mut answer = [0];
    let asked = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
        stream.write_all(STARTUP)?;
        stream.read_exact(&mut answer)
    });
    asked.is_ok() && answer == *b"R"
}

fn run(binaries: &Path, folder: &Path, port: u16, is_durable: bool) -> Child {
    let fsync = if is_durable { "fsync=on" } else { "fsync=off" };
    let start = || {
        as_user(&binaries.join("postgres"))
            .args(["-c", "listen_addresses=127.0.0.1", "-c", fsync, "-p", &port.to_string(), "-k", ""])
            .arg("-D")
            .arg(folder.join("data"))
            .stdout(Stdio::null())
            .stderr(std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap())
            .spawn()
            .unwrap()
    };
    let mut process = start();
    let until = Instant::now() + Duration::from_secs(60);
    while !takes_connections(port) {
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(Instant::now() < until, "PostgreSQL does not start: {}", log());
        std::thread::sleep(Duration::from_millis(50));
        // processes of the server before may not have ended yet
        if process.try_wait().unwrap().is_some() {
            process = start();
        }
    }
    process
}
