//! Models whose network is an ONNX file, by the ONNX Runtime that `make setup` installs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{bits, configured, embed, in_repository};

/// The shared library in the Python environment.
fn library() -> PathBuf {
    let lib = in_repository(".venv/lib");
    let python = std::fs::read_dir(&lib).unwrap().next().unwrap().unwrap().path();
    let folder = python.join("site-packages/onnxruntime/capi");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("`make setup` installs onnxruntime"));
    let is_library = |path: &PathBuf| path.to_string_lossy().contains("libonnxruntime.so");
    files.map(|file| file.unwrap().path()).find(is_library).unwrap()
}

fn configuration(library: &str, folder: &str) -> String {
    let folder = in_repository(folder);
    format!("[onnx]\nlibrary = {library:?}\n[[models]]\nid = \"m\"\nkind = \"onnx\"\nfolder = {folder:?}\n")
}

#[test]
fn embeddings_of_an_onnx_file_equal_the_recordings_in_both_lanes() {
    let (gateway, _file) = configured(&configuration(library().to_str().unwrap(), "fixtures/tiny/bert"));
    let recorded = std::fs::read(in_repository("fixtures/tiny/bert/recorded.json")).unwrap();
    let recorded: Value = serde_json::from_slice(&recorded).unwrap();
    let rows: Vec<&Value> =
        recorded["texts"].as_array().unwrap().iter().filter(|row| row["text"] != "").collect();
    assert!(rows.len() > 20);
    let texts: Vec<&Value> = rows.iter().map(|row| &row["text"]).collect();
    // in this many tokens they go by the bulk lane, and one by one by the other
    let all = embed(&gateway, "/v1/embeddings", &json!({"model": "m", "input": texts}));
    assert!(all["usage"]["prompt_tokens"].as_u64().unwrap() > 512, "{}", all["usage"]);
    for (index, row) in rows.iter().enumerate() {
        let got = &all["data"][index]["embedding"];
        let numbers = |list: &Value| -> Vec<f64> {
            list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
        };
        let (got_floats, expected) = (numbers(got), numbers(&row["embeddings"]["mean"]));
        let cosine: f64 = got_floats.iter().zip(&expected).map(|(x, y)| x * y).sum();
        assert!((cosine - 1.0).abs() < 1e-5, "{cosine} for {}", row["text"]);
        let alone = embed(&gateway, "/v1/embeddings", &json!({"model": "m", "input": row["text"]}));
        assert_eq!(
            bits(&alone["data"][0]["embedding"]),
            bits(got),
            "alone and among others: {}",
            row["text"]
        );
    }
    let cut = embed(&gateway, "/v1/embeddings", &json!({"model": "m", "input": "a weir", "dimensions": 8}));
    assert_eq!(cut["data"][0]["embedding"].as_array().unwrap().len(), 8);
    let (_, model) = gateway.get("/v1/models/m");
    assert_eq!((&model["dimensions"], &model["max_input_tokens"]), (&json!(32), &json!(64)));
    gateway.ingest(&[json!({"id": "a", "text": "a weir"})]);
    assert_eq!(gateway.search("a weir", "dense")[0]["id"], "a");
}

#[test]
fn texts_side_by_side_have_the_embeddings_that_they_have_alone() {
    let toml = configuration(library().to_str().unwrap(), "fixtures/tiny/bert");
    let (gateway, _file) = configured(&format!("{toml}[inference]\nthreads = 3\ncache_bytes_max = 0\n"));
    let embedding = |text: &str| {
        let reply = embed(&gateway, "/v1/embeddings", &json!({"model": "m", "input": text}));
        bits(&reply["data"][0]["embedding"])
    };
    let texts: Vec<String> = (0..64).map(|number| "a weir of stone ".repeat(1 + number % 12)).collect();
    let alone: Vec<_> = texts.iter().map(|text| embedding(text)).collect();
    let threads = 8;
    std::thread::scope(|scope| {
        for first in 0..threads {
            let (texts, alone, embedding) = (&texts, &alone, &embedding);
            scope.spawn(move || {
                for index in (first..texts.len()).step_by(threads) {
                    assert_eq!(embedding(&texts[index]), alone[index], "text {index}");
                }
            });
        }
    });
}

/// Starts with a configuration that must be refused, and checks that the message says `expected`.
fn check_refused(toml: &str, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, toml).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .env_clear()
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"));
    let out = command.env("WEIR_CONFIG", &file).stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{message}");
    for words in expected {
        assert!(message.contains(words), "`{words}` is not in:\n{message}");
    }
}

#[test]
fn a_runtime_that_cannot_be_loaded_is_named_with_where_to_get_one() {
    let remedy = "`pip install onnxruntime` installs one";
    check_refused(&configuration("", "fixtures/tiny/bert"), &["the model `m` needs ONNX Runtime", remedy]);
    let absent = ["`m` can't be loaded", "/no/such/lib.so (`onnx.library`)", remedy];
    check_refused(&configuration("/no/such/lib.so", "fixtures/tiny/bert"), &absent);
    let other = env!("CARGO_BIN_EXE_weir"); // a program is no library
    check_refused(&configuration(other, "fixtures/tiny/bert"), &["`m` can't be loaded", remedy]);
    let library = library();
    let none = ["holds neither model.onnx nor onnx/model.onnx", "optimum-cli export onnx"];
    check_refused(&configuration(library.to_str().unwrap(), "fixtures/tiny/distilbert"), &none);
}

#[test]
fn a_classifier_is_no_embedding_model() {
    let configuration = |name: &str| {
        let folder = in_repository(&format!("fixtures/tiny/{name}"));
        format!("[[models]]\nid = \"m\"\nfolder = {folder:?}\n")
    };
    let words = [
        "there is no embedding model, only rerankers and classifiers: `m`",
        "add a `[[models]]` table with an embedding model",
    ];
    check_refused(&configuration("roberta-classifier"), &words);
    check_refused(&configuration("bert-classifier"), &words);
}
