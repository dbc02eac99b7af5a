//! The real binary as a child process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running gateway. It is killed when it is dropped.
pub(crate) struct Weir {
    child: std::sync::Mutex<Child>,
    pub(crate) url: String,
}

impl Weir {
    /// Starts the binary over `folder`, with pseudo embeddings and small chunks, on a port of the system's choice.
    pub(crate) fn start(folder: &Path) -> Weir {
        Weir::start_by(Command::new(env!("CARGO_BIN_EXE_weir")), folder)
    }

    /// Starts what `command` runs, with the arguments of the gateway behind its own.
    pub(crate) fn start_by(mut command: Command, folder: &Path) -> Weir {
        command
            .env_clear() // this process's own variables are no settings of the gateway
            .args(["serve", "--listen", "127.0.0.1:0", "--model", "pseudo", "--data-dir"])
            .arg(folder)
            .env("WEIR_CHUNKING_MAX_TOKENS", "16")
            .env("WEIR_CHUNKING_OVERLAP_TOKENS", "2")
            .env("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "8")
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = Vec::new();
        let url = loop {
            let Some(Ok(line)) = lines.next() else { panic!("weir did not start:\n{}", seen.join("\n")) };
            let log: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            match log["address"].as_str() {
                Some(address) => break format!("http://{address}"),
                None => seen.push(line),
            }
        };
        // whoever stops reading stops the writer
        std::thread::spawn(move || lines.for_each(drop));
        Weir { child: std::sync::Mutex::new(child), url }
    }

    /// SIGKILL.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM; the gateway must end by itself and without an error.
    pub(crate) fn terminate(&self) {
        let mut child = self.child.lock().unwrap();
        let signalled = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        let status = child.wait().unwrap();
        assert!(status.success(), "a graceful stop ended with {status}");
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        drop(child.kill());
        drop(child.wait());
    }
}
