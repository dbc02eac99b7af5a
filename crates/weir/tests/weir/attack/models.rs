//! Model folders whose sizes, weights or tokenizers are hostile, and models that fail while running.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{held, rounds};
use crate::support::client::Client;
use crate::support::gateway::{Gateway, in_repository};
use crate::support::process::{Weir, wait};

use crate::upstreams::scripted::{Answer, Upstream, error};

/// Memory of the attacked process, so that it aborts instead of taking the machine's.
const ADDRESS_SPACE_KIB: u64 = 5 << 20;

/// A refusal that takes longer has loaded something.
const REFUSED_WITHIN: Duration = Duration::from_secs(60);

/// A copy of a tiny model.
fn copy(name: &str) -> TempDir {
    let target = tempfile::tempdir().unwrap();
    let source = in_repository("fixtures/tiny").join(name);
    for file in
        ["config.json", "tokenizer.json", "model.safetensors", "modules.json", "1_Pooling/config.json"]
    {
        let to = target.path().join(file);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        if source.join(file).exists() {
            std::fs::copy(source.join(file), to).unwrap();
        }
    }
    target
}

/// A copy of a tiny model with one of its JSON files changed.
fn changed(name: &str, file: &str, change: impl FnOnce(&mut Value)) -> TempDir {
    let folder = copy(name);
    let path = folder.path().join(file);
    let mut json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    std::fs::write(path, json.to_string()).unwrap();
    folder
}

/// Makes a file larger than memory, without taking disk.
fn stretch(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

/// The weights of a tiny model in bf16, the upper halves of floats, with the second one replaced.
fn with_weight(weight: f32) -> TempDir {
    let folder = copy("xlm-roberta");
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let first = 8 + bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length) as usize);
    bytes[first..first + 4].copy_from_slice(&weight.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
    folder
}

fn layers_without_end() -> TempDir {
    let folder = changed("bert", "config.json", |json| json["num_hidden_layers"] = json!(16_000_000));
    stretch(&folder.path().join("model.safetensors"), 256 << 30);
    folder
}

fn endless_header() -> TempDir {
    let folder = copy("bert");
    let path = folder.path().join("model.safetensors");
    std::fs::write(&path, (64u64 << 30).to_le_bytes()).unwrap();
    stretch(&path, 65 << 30);
    folder
}

fn endless_file(file: &str) -> TempDir {
    let folder = copy("bert");
    stretch(&folder.path().join(file), 64 << 30);
    folder
}

fn growing_text() -> TempDir {
    changed("bert", "tokenizer.json", |json| {
        let twice = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        json["normalizer"] = json!({"type": "Sequence", "normalizers": vec![twice; 31]});
    })
}

fn broken_charsmap() -> TempDir {
    changed("xlm-roberta", "tokenizer.json", |json| {
        json["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAA="});
    })
}

fn broken_template() -> TempDir {
    changed("bert", "tokenizer.json", |json| {
        json["post_processor"]["special_tokens"]["[SEP]"]["ids"] = json!([99_999]);
    })
}

/// Starts a gateway with the model and returns what it said when it refused.
fn refusal(what: &str, model: &Path) -> String {
    let data = tempfile::tempdir().unwrap();
    let limited =
        format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" serve --listen 127.0.0.1:0 --data-dir \"$1\"");
    let started = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_weir")])
        .arg(data.path())
        .env_clear()
        .env("WEIR_MODEL", model)
        .stderr(Stdio::from(std::fs::File::create(data.path().join("stderr")).unwrap()))
        .spawn()
        .unwrap();
    let status = wait(&mut child).unwrap_or_else(|| panic!("{what}: no refusal"));
    let said = std::fs::read_to_string(data.path().join("stderr")).unwrap();
    assert_eq!(status.code(), Some(1), "{what}: {status}: {said}");
    assert!(started.elapsed() < REFUSED_WITHIN, "{what}: refused after {:?}", started.elapsed());
    said
}

#[test]
fn hostile_model_folders_are_refused_with_a_reason_and_without_their_memory() {
    let hidden = |size: u64| changed("bert", "config.json", |json| json["hidden_size"] = json!(size));
    let epsilon = |value: f64| changed("bert", "config.json", |json| json["layer_norm_eps"] = json!(value));
    let folders: Vec<(&str, TempDir, &str)> = vec![
        ("16 million layers", layers_without_end(), "does not match its header"),
        ("a hidden size of 2^24", hidden(1 << 24), "a size is 0 or too large"),
        ("a header of 64 GiB", endless_header(), "its header has"),
        ("a configuration of 64 GiB", endless_file("config.json"), "more than"),
        ("a tokenizer of 64 GiB", endless_file("tokenizer.json"), "more than"),
        ("a weight that is not a number", with_weight(f32::NAN), "the weight NaN"),
        ("an infinite weight", with_weight(f32::INFINITY), "the weight inf"),
        ("a negative epsilon", epsilon(-1e-12), "`layer_norm_eps`"),
        ("a text that doubles 31 times", growing_text(), "times as long"),
        ("a broken character map", broken_charsmap(), "character map is damaged"),
        ("a template with an unknown token", broken_template(), "token id 99999 is outside"),
    ];
    let count = folders.len();
    for (what, folder, reason) in folders {
        let said = refusal(what, folder.path());
        assert!(said.contains(reason), "{what}: `{reason}` is not in {said}");
    }
    held("hostile model folders", &format!("{count} refused with their reason"));
}

#[test]
fn damaged_model_folders_start_a_gateway_that_embeds_or_none() {
    let count = rounds(4, 40);
    let mut embedding = 0;
    for round in 0..count {
        let folder = copy("bert");
        let path: PathBuf = folder.path().join(["tokenizer.json", "config.json"][round % 2]);
        let mut text = std::fs::read_to_string(&path).unwrap().into_bytes();
        let at = 7919 * (round + 1) % text.len();
        text[at] = b'0';
        std::fs::write(&path, text).unwrap();
        let loaded = Command::new(env!("CARGO_BIN_EXE_weir"))
            .env_clear()
            .args(["model", "info"])
            .arg(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&loaded.stderr).into_owned();
        assert!(matches!(loaded.status.code(), Some(0 | 1)), "round {round}: {} {said}", loaded.status);
        assert_eq!(loaded.status.success(), said.is_empty(), "round {round}: {said}");
        if loaded.status.success() {
            check_embeddings(folder.path(), &format!("round {round}: byte {at} of {}", path.display()));
            embedding += 1;
        }
    }
    assert!(embedding > 0, "not one damage was harmless: is the folder sound?");
    held("damaged model folders", &format!("{embedding} of {count} load and embed, the others are refused"));
}

/// Checks that a gateway with the model answers awkward texts with numbers.
fn check_embeddings(model: &Path, what: &str) {
    let data = tempfile::tempdir().unwrap();
    let weir = Weir::start_with(data.path(), &[("WEIR_MODEL", model.to_str().unwrap())]);
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    for text in ["a low dam", "ﬃ\u{301}\u{200d}👩‍🔬 \u{0} ٣ 水", &"x".repeat(3000)] {
        let id = &client.get("/v1/models").1["data"][0]["id"];
        let (status, reply) =
            client.try_post("/v1/embeddings", &json!({"model": id, "input": text})).unwrap();
        assert_eq!(status, 200, "{what}: {reply}");
        let embedding = reply["data"][0]["embedding"].as_array().unwrap();
        assert!(!embedding.is_empty() && embedding.iter().all(Value::is_f64), "{what}: {reply}");
    }
    assert!(weir.is_alive(), "{what}");
}

#[test]
fn a_job_whose_model_keeps_failing_ends_as_failed_and_later_ones_succeed() {
    let is_well = Arc::new(AtomicBool::new(false));
    let script = is_well.clone();
    let upstream = Upstream::start(move |_, _| match script.load(Ordering::Relaxed) {
        true => Answer::Embeddings,
        false => error(500),
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    let url = &upstream.url;
    let model =
        format!("[[models]]\nid = \"m\"\nkind = \"tei\"\nurl = {url:?}\ndimension = 4\nretries_max = 0\n");
    std::fs::write(file.path(), model).unwrap();
    let gateway = Gateway::start_with(&[
        ("WEIR_MODEL", ""),
        ("WEIR_CONFIG", file.path().to_str().unwrap()),
        ("WEIR_INGEST_ATTEMPTS_MAX", "3"),
    ]);
    let ingest = |id: &str| {
        let body = json!({"documents": [{"id": id, "text": "a low dam"}]});
        let (status, job) = gateway.try_post("/v1/ingest?wait=true", &body).unwrap();
        assert_eq!(status, 202, "{job}");
        job
    };
    let job = ingest("a");
    assert_eq!(job["status"], "failed", "{job}");
    let reason = job["error"].to_string();
    assert!(reason.contains("3 times in sequence (`ingest.attempts_max`)"), "{job}");
    assert_eq!(
        (&job["failed_documents"], &job["errors"][0]["document_id"]),
        (&json!(1), &json!("a")),
        "{job}"
    );
    is_well.store(true, Ordering::Relaxed);
    // the circuit breaker of the upstream lets a probe pass after a while
    gateway
        .wait("the model", || ingest("b")["status"] == "completed" && ingest("a")["status"] == "completed");
    gateway.wait("the documents", || gateway.search("low dam", "lexical").len() == 2);
    held("a model that keeps failing", "its job failed with the reason, later ones completed");
}
