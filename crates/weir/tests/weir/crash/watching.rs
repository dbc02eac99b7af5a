//! `weir watch` beside a gateway that is killed: the collection becomes what the folder is.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::expectations::Random;
use crate::cli_watch::Relay;
use crate::support::client::Client;

/// The collection that follows the folder.
const COLLECTION: &str = "watched";
/// Files of the folder.
const FILES: u64 = 20;

/// A folder that is watched by a command.
pub(super) struct Watching {
    folder: TempDir,
    relay: Relay,
    command: Option<Child>,
    random: Random,
    /// The contents of the files, by name.
    files: BTreeMap<String, String>,
    changes: u64,
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(command) = &mut self.command {
            drop(command.kill());
            drop(command.wait());
        }
    }
}

impl Watching {
    pub(super) fn new(seed: u64) -> Watching {
        let mut watching = Watching {
            folder: tempfile::tempdir().unwrap(),
            relay: Relay::start(),
            command: None,
            random: Random(seed),
            files: BTreeMap::new(),
            changes: 0,
        };
        std::fs::create_dir(watching.folder.path().join("in")).unwrap();
        (0..FILES).for_each(|number| watching.write(&format!("f{number}.txt")));
        watching
    }

    /// Goes on with the gateway at `url`; the command is started with the first one.
    pub(super) fn follow(&mut self, url: &str) {
        self.relay.set(Some(url));
        if self.command.is_none() {
            let command = Command::new(env!("CARGO_BIN_EXE_weir"))
                .args(["watch", "in", "--collection", COLLECTION])
                .env_clear()
                .env("WEIR_URL", &self.relay.url)
                .current_dir(self.folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            self.command = Some(command.unwrap());
        }
    }

    /// Changes, removes and renames a few files.
    pub(super) fn change(&mut self) {
        for _ in 0..=self.random.below(3) {
            let name = format!("f{}.txt", self.random.below(FILES));
            match self.random.below(4) {
                0 if self.files.len() > FILES as usize - 3 && self.files.remove(&name).is_some() => {
                    std::fs::remove_file(self.path(&name)).unwrap();
                }
                _ => self.write(&name),
            }
        }
    }

    /// The collection has the files of the folder, each once.
    pub(super) fn check_at_rest(&mut self, client: &Client) {
        assert!(self.command.as_mut().unwrap().try_wait().unwrap().is_none(), "the command has ended");
        let documents = || -> Vec<(String, String)> {
            let list = client.get(&format!("/v1/collections/{COLLECTION}/documents?limit=100")).1;
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().trim().to_owned();
            let listed = list["data"].as_array().cloned().unwrap_or_default();
            let mut found: Vec<_> =
                listed.iter().map(|one| (text(&one["metadata"]["path"]), text(&one["text"]))).collect();
            found.sort();
            found
        };
        let expected: Vec<(String, String)> = self.files.clone().into_iter().collect();
        client.wait("the files of the folder", || documents() == expected);
    }

    fn write(&mut self, name: &str) {
        self.changes += 1;
        let text = format!("Change {} of the file {name}.", self.changes);
        std::fs::write(self.path(name), &text).unwrap();
        self.files.insert(name.to_owned(), text);
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("in").join(name)
    }
}
