//! The real binary as a child process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::gateway::in_repository;

/// A start or an end that takes longer is a failed test. Loading a model on a busy machine is the slowest of them.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running gateway. It is killed when it is dropped.
pub(crate) struct Weir {
    child: Mutex<Child>,
    pub(crate) url: String,
    log: Arc<Mutex<String>>,
}

/// Bytes of the log that are kept.
const LOG_BYTES_MAX: usize = 4 << 20;

impl Weir {
    /// Starts the binary over `folder`, with pseudo embeddings and small chunks, on a port of the system's choice.
    pub(crate) fn start(folder: &Path) -> Weir {
        Weir::start_with(folder, &[])
    }

    /// The same with these environment variables, which win over those that [`Weir::start`] sets.
    pub(crate) fn start_with(folder: &Path, variables: &[(&str, &str)]) -> Weir {
        Weir::start_by(Command::new(env!("CARGO_BIN_EXE_weir")), folder, variables)
    }

    /// Starts what `command` runs, with the arguments of the gateway behind its own.
    pub(crate) fn start_by(mut command: Command, folder: &Path, variables: &[(&str, &str)]) -> Weir {
        let default_model = in_repository("models/all-MiniLM-L6-v2");
        let has_it =
            variables.iter().any(|(name, it)| *name == "WEIR_MODEL" && Path::new(it) == default_model);
        // packing it takes longer than most of the tests
        let packed = has_it.then(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("packed"));
        command
            .env_clear() // this process's own variables are no settings of the gateway
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .env("WEIR_MODEL", "pseudo")
            .env("WEIR_CHUNKING_MAX_TOKENS", "16")
            .env("WEIR_CHUNKING_OVERLAP_TOKENS", "2")
            .env("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "8")
            .env("WEIR_SERVER_REQUEST_DEADLINE_MS", "180000")
            .envs(packed.map(|folder| ("WEIR_INFERENCE_PACKED_DIR", folder)))
            .envs(variables.iter().copied())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (line_came, lines) = sync_channel(16);
        // whoever stops reading stops the writer: lines that nobody waits for any more are dropped
        let log = Arc::new(Mutex::new(String::new()));
        let kept = log.clone();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| {
                let mut kept = kept.lock().unwrap();
                if kept.len() < LOG_BYTES_MAX {
                    kept.push_str(&line);
                    kept.push('\n');
                }
                drop(kept);
                drop(line_came.send(line));
            })
        });
        let mut seen = Vec::new();
        let url = loop {
            let Ok(line) = lines.recv_timeout(PATIENCE) else {
                drop(child.kill());
                panic!("weir did not start:\n{}", seen.join("\n"));
            };
            let log: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            match log["address"].as_str() {
                Some(address) if log["tls"] == true => break format!("https://{address}"),
                Some(address) => break format!("http://{address}"),
                None => seen.push(line),
            }
        };
        Weir { child: Mutex::new(child), url, log }
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The process's id.
    pub(crate) fn id(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// Whether the process still runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_none()
    }

    /// Its open file descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    /// Its resident memory.
    pub(crate) fn rss_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// The CPU time that it has used, in steps of 10 ms.
    pub(crate) fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// SIGKILL.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let signalled = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(signalled.unwrap().success());
    }

    /// SIGTERM; the gateway must end by itself and without an error.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
        self.wait_for_stop();
    }

    /// Waits for the end of a gateway that has SIGTERM, which must be without an error.
    pub(crate) fn wait_for_stop(&self) {
        let mut child = self.child.lock().unwrap();
        let status = wait(&mut child).expect("weir ends after SIGTERM");
        assert!(status.success(), "a graceful stop ended with {status}");
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        // also after a panic while it was locked, as a second panic would end all tests
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(child.kill());
        drop(child.wait());
    }
}

/// How the process ended; `None` when it does not, and then it is killed.
pub(crate) fn wait(child: &mut Child) -> Option<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(child.kill());
    drop(child.wait());
    None
}
