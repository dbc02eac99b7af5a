//! One changed byte in any file of a stopped gateway.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::attack::{held, rounds};
use crate::support::client::{Client, document_path};
use crate::support::process::{Weir, wait};

const DOCUMENTS: usize = 30;

/// What became of the rounds.
#[derive(Default)]
struct Seen {
    sound: usize,
    /// Something is missing or an error, and named.
    named: usize,
    refused: usize,
}

#[test]
fn a_flipped_byte_loses_nothing_silently_and_never_gives_wrong_data() {
    let template = tempfile::tempdir().unwrap();
    {
        let weir = Weir::start(template.path());
        let client = Client::new(&weir.url);
        client.wait_until_ready();
        let documents: Vec<Value> = (0..DOCUMENTS)
            .map(|number| json!({"id": id(number), "text": text(number), "metadata": {"n": number}}))
            .collect();
        let body = json!({ "documents": documents }).to_string();
        assert_eq!(client.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes())).status, 202);
        weir.terminate();
    }
    let mut seen = Seen::default();
    let mut state = 11;
    let all = rounds(12, 1_000);
    for round in 0..all {
        let folder = tempfile::tempdir().unwrap();
        copy(template.path(), folder.path());
        // half of the flips in the store, half in the index
        let files = if round % 2 == 0 {
            vec![folder.path().join("store.sqlite3")]
        } else {
            files_of(&folder.path().join("index"))
        };
        let file = &files[random(&mut state) % files.len()];
        let mut bytes = std::fs::read(file).unwrap();
        let at = random(&mut state) % bytes.len();
        bytes[at] ^= 1 << (random(&mut state) % 8);
        std::fs::write(file, bytes).unwrap();
        check(folder.path(), &format!("round {round}: byte {at} of {}", file.display()), &mut seen);
    }
    assert!(seen.sound > 0, "no flip was harmless or repaired");
    held(
        "flipped bytes",
        &format!(
            "{all}: {} repaired or harmless, {} named, {} refused with a remedy, no wrong data",
            seen.sound, seen.named, seen.refused
        ),
    );
}

fn check(folder: &Path, what: &str, seen: &mut Seen) {
    if let Some(refusal) = refusal_of_start(folder) {
        let has_remedy =
            ["restore", "remove", "start the newer"].iter().any(|remedy| refusal.contains(remedy));
        assert!(has_remedy, "{what}: refused without a remedy: {refusal}");
        seen.refused += 1;
        return;
    }
    let weir = Weir::start(folder);
    let client = Client::new(&weir.url);
    let mut is_complete = true;
    // what is damaged keeps no other collection waiting; a whole damaged file may keep all waiting
    for _ in 0..300 {
        if client.get("/readyz").0 == 200 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    for number in 0..DOCUMENTS {
        let reply = client.send("GET", &document_path(&id(number)), None);
        match reply.status {
            200 => assert_eq!(reply.json()["text"], text(number), "{what}"),
            _ => {
                is_complete = false;
                assert!([404, 500, 503].contains(&reply.status), "{what}: {}", reply.text);
            }
        }
        for mode in ["lexical", "dense"] {
            let body = json!({"query": text(number), "mode": mode, "top_k": 1}).to_string();
            let reply = client.send("POST", "/v1/search", Some(body.as_bytes()));
            if reply.status != 200 {
                is_complete = false;
                assert!([404, 500, 503].contains(&reply.status), "{what}: {}", reply.text);
                continue;
            }
            let hits = reply.json()["results"].clone();
            is_complete &= hits[0]["id"] == id(number);
            for hit in hits.as_array().unwrap() {
                let number = hit["id"].as_str().unwrap().trim_start_matches('d').parse().unwrap();
                assert_eq!(hit["text"], text(number), "{what} ({mode})");
            }
        }
    }
    let is_named = client.get("/readyz").1["damaged"] != json!([]);
    weir.kill();
    if is_complete {
        seen.sound += 1;
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .env_clear()
        .arg("doctor")
        .arg("--data-dir")
        .arg(folder)
        .output();
    let is_sound = output.unwrap().status.success();
    assert!(is_named || !is_sound, "{what}: something is missing, and neither readiness nor doctor says so");
    seen.named += 1;
}

/// What a start says that is refused.
fn refusal_of_start(folder: &Path) -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .env_clear()
        .args(["serve", "--listen", "127.0.0.1:0", "--model", "pseudo", "--data-dir"])
        .arg(folder);
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut child = command.stderr(log.reopen().unwrap()).spawn().unwrap();
    let is_started = || std::fs::read_to_string(log.path()).unwrap().contains("is listening");
    for _ in 0..2_000 {
        if is_started() {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let status = wait(&mut child);
    let message = std::fs::read_to_string(log.path()).unwrap();
    assert!(status.is_some_and(|status| status.code() == Some(1)), "neither started nor refused: {message}");
    Some(message)
}

fn id(number: usize) -> String {
    format!("d{number}")
}

fn text(number: usize) -> String {
    format!("the weir number{number} holds back the river number{number}")
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => files.extend(files_of(&entry)),
            false if entry.metadata().unwrap().len() > 0 => files.push(entry),
            false => {}
        }
    }
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to)
        } else {
            std::fs::copy(entry.path(), to).map(drop).unwrap()
        }
    }
}

/// A number of a linear congruential generator (Knuth's MMIX).
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}
