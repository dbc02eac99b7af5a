//! A Redis server on loopback, in a folder of its own, that a test stops, kills and starts again.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A server of the test.
pub(crate) struct RedisServer {
    folder: tempfile::TempDir,
    port: u16,
    process: Child,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk.
    pub(crate) fn start() -> RedisServer {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = run(folder.path(), port);
        RedisServer { folder, port, process }
    }

    /// Its address for clients.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends a signal to it.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Starts it again, empty, after it was killed.
    #[allow(dead_code, reason = "not all programs that start servers kill them")]
    pub(crate) fn restart(&mut self) {
        self.process.wait().unwrap();
        self.process = run(self.folder.path(), self.port);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn run(folder: &Path, port: u16) -> Child {
    let port = port.to_string();
    let started = Command::new("redis-server")
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(folder)
        .stdout(Stdio::null())
        .spawn();
    let process = started
        .expect("redis-server starts: run `scripts/setup.sh system` or `apt-get install redis-server`");
    let begun = Instant::now();
    while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "redis-server does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    process
}
