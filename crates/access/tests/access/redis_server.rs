//! A Redis server on loopback, in a folder of its own, that a test stops, kills and starts again.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The files of a server with TLS.
const CERTIFICATE: &str = "server.crt";
const KEY: &str = "server.key";

/// A server of the test.
pub(crate) struct RedisServer {
    folder: tempfile::TempDir,
    port: u16,
    has_tls: bool,
    process: Child,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk.
    pub(crate) fn start() -> RedisServer {
        RedisServer::start_by(tempfile::tempdir().unwrap(), false)
    }

    /// The same over TLS, with the certificate and the key that `issue` writes to two files.
    #[allow(dead_code, reason = "not all programs that start servers use TLS")]
    pub(crate) fn start_tls(issue: impl FnOnce(&Path, &Path)) -> RedisServer {
        let folder = tempfile::tempdir().unwrap();
        issue(&folder.path().join(CERTIFICATE), &folder.path().join(KEY));
        RedisServer::start_by(folder, true)
    }

    fn start_by(folder: tempfile::TempDir, has_tls: bool) -> RedisServer {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = run(folder.path(), port, has_tls);
        RedisServer { folder, port, has_tls, process }
    }

    /// Its address for clients.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.has_tls { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The reply to a command, as the protocol has it.
    #[allow(dead_code, reason = "not all programs that start servers ask them")]
    pub(crate) fn ask(&self, command: &[&[u8]]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut request = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            request.extend(format!("${}\r\n", part.len()).as_bytes());
            request.extend_from_slice(part);
            request.extend(b"\r\n");
        }
        // the server closes the connection behind its reply
        request.extend(b"*1\r\n$4\r\nQUIT\r\n");
        stream.write_all(&request).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        reply
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
        self.process = run(self.folder.path(), self.port, self.has_tls);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn run(folder: &Path, port: u16, has_tls: bool) -> Child {
    let port = port.to_string();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]).arg(folder);
    match has_tls {
        false => command.args(["--port", &port]),
        true => command
            .args(["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no", "--tls-cert-file"])
            .arg(folder.join(CERTIFICATE))
            .arg("--tls-key-file")
            .arg(folder.join(KEY)),
    };
    let started = command.stdout(Stdio::null()).spawn();
    let process = started
        .expect("redis-server starts: run `scripts/setup.sh system` or `apt-get install redis-server`");
    let begun = Instant::now();
    while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "redis-server does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    process
}
