//! Starts that are refused: at once, with an exit code, and with what to do.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::{Gateway, in_repository};
use crate::support::client::Client;
use crate::support::process::{Weir, wait};

/// `weir serve` with pseudo embeddings on a free port, unless `arguments` say otherwise.
pub(crate) fn serve(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_clear().arg("serve").arg("--data-dir").arg(data_dir).args(arguments);
    for (flag, value) in [("--listen", "127.0.0.1:0"), ("--model", "pseudo")] {
        if !arguments.contains(&flag) {
            command.args([flag, value]);
        }
    }
    command
}

/// Checks that the start fails with exit code 1 and an error that says all of `expected`.
pub(crate) fn check(command: &mut Command, expected: &[&str]) {
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = wait(&mut child);
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    let status = status.unwrap_or_else(|| panic!("{expected:?}: it started:\n{message}"));
    assert_eq!(status.code(), Some(1), "{message}");
    assert!(message.contains("error: "), "{message}");
    for words in expected {
        assert!(message.contains(words), "`{words}` is not in:\n{message}");
    }
}

#[test]
fn an_address_that_others_can_reach_needs_to_be_meant() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8000"] {
        let mut command = serve(folder.path(), &["--listen", address]);
        check(&mut command, &[address, "`weir keys create NAME`", "--insecure-no-auth"]);
    }
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "a refused start leaves nothing behind");
}

#[test]
fn a_memory_limit_with_no_room_for_one_text_is_refused_and_says_what_is_needed() {
    let (folder, model) = (tempfile::tempdir().unwrap(), in_repository("models/all-MiniLM-L6-v2"));
    let start = |limit: &str| {
        let mut command = serve(folder.path(), &["--model", model.to_str().unwrap()]);
        command.env("WEIR_INFERENCE_THREADS", "2").env("WEIR_INFERENCE_MEMORY_LIMIT_BYTES", limit);
        command
    };
    let limit = "`inference.memory_limit_bytes` is 20000000, and ";
    check(&mut start("20000000"), &[limit, "lower `inference.threads` or `inference.cache_bytes_max`"]);
}

#[test]
fn a_memory_limit_counts_models_that_rerank() {
    let folder = tempfile::tempdir().unwrap();
    let reranker = in_repository("fixtures/tiny/bert-classifier");
    let file = folder.path().join("weir.toml");
    let toml =
        "[[models]]\nid = \"words\"\nkind = \"pseudo\"\ndimension = 8\n[[models]]\nid = \"ce\"\nfolder = ";
    fs::write(&file, format!("{toml}{reranker:?}\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .env_clear()
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"));
    command.env("WEIR_CONFIG", &file).env("WEIR_INFERENCE_CACHE_BYTES_MAX", "0");
    // enough for a pseudo model's text, and for nothing else
    command.env("WEIR_INFERENCE_THREADS", "1").env("WEIR_INFERENCE_MEMORY_LIMIT_BYTES", "2000");
    check(
        &mut command,
        &["`inference.memory_limit_bytes` is 2000, and ", "for the working memory of 1 threads in each lane"],
    );
}

#[test]
fn a_second_gateway_over_the_same_data_is_refused_and_the_first_goes_on() {
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "a", "text": "a weir"})]);
    let data_dir = gateway.folder().to_str().unwrap();
    let expected = ["is in use by another weir", "stop that one or choose another --data-dir", data_dir];
    check(&mut serve(gateway.folder(), &[]), &expected);
    gateway.ingest(&[json!({"id": "b", "text": "a weir"})]);
    assert_eq!(gateway.search("weir", "lexical").len(), 2);
}

#[test]
fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(folder.path(), &["--listen", &address]);
    check(&mut command, &[&address, "is another program there?", "choose another address with --listen"]);
}

#[test]
fn a_model_that_is_not_there_is_named_with_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, no_model) = (folder.path().join("data"), folder.path().join("no-model"));
    let named = no_model.to_str().unwrap();
    let mut command = serve(&data_dir, &["--model", named]);
    check(&mut command, &[named, "is not a folder", "weir model pull all-MiniLM-L6-v2"]);
    fs::create_dir(&no_model).unwrap();
    let mut command = serve(&data_dir, &["--model", named]);
    check(&mut command, &[named, "holds no config.json", "weir model pull all-MiniLM-L6-v2"]);
    let mut none_said = Command::new(env!("CARGO_BIN_EXE_weir"));
    none_said.env_clear().current_dir(folder.path()).args(["serve", "--listen", "127.0.0.1:0"]);
    check(
        &mut none_said,
        &["no model is configured", "weir model pull all-MiniLM-L6-v2", "--model DIR", "--model pseudo"],
    );
}

/// The default model's folder once more, its weights aside.
fn copy_model_without_weights(to: &Path) {
    let from = in_repository("models/all-MiniLM-L6-v2");
    fs::create_dir_all(to.join("1_Pooling")).unwrap();
    for folder in ["", "1_Pooling"] {
        for entry in fs::read_dir(from.join(folder)).expect("`make setup` gets the model") {
            let path = entry.unwrap().path();
            if path.is_file() && !path.ends_with("model.safetensors") {
                fs::copy(&path, to.join(folder).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
}

#[test]
fn a_damaged_model_is_named_file_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let (model, data_dir) = (folder.path().join("model"), folder.path().join("data"));
    copy_model_without_weights(&model);
    let check = |file: &str, expected: &str| {
        let named = model.join(file);
        let mut command = serve(&data_dir, &["--model", model.to_str().unwrap()]);
        check(&mut command, &[named.to_str().unwrap(), expected, "model"]);
    };
    let weights = "model.safetensors";
    check(weights, "is missing; a model is a folder in the Hugging Face layout: `weir model pull");
    let whole = fs::read(in_repository("models/all-MiniLM-L6-v2").join(weights)).unwrap();
    for kept in [0, 7, 1_000, whole.len() / 2, whole.len() - 1] {
        fs::write(model.join(weights), &whole[..kept]).unwrap();
        check(weights, "fetch the model again");
    }
    fs::write(model.join(weights), &whole).unwrap();
    for file in ["tokenizer.json", "config.json"] {
        let whole = fs::read(model.join(file)).unwrap();
        fs::write(model.join(file), &whole[..whole.len() / 2]).unwrap();
        check(file, "fetch the model again");
        fs::write(model.join(file), whole).unwrap();
    }
}

#[test]
fn a_data_dir_that_is_no_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("below")] {
        let expected = [path.to_str().unwrap(), "check that the path is a folder that weir may use"];
        check(&mut serve(&path, &[]), &expected);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_data_dir_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = serve(folder.path(), &[]);
    if fs::metadata(folder.path()).unwrap().uid() == 0 {
        // permissions don't bind root: be nobody
        command.uid(65_534).gid(65_534);
        if let Err(error) = Command::new(env!("CARGO_BIN_EXE_weir")).arg("--version").uid(65_534).output() {
            println!("NOT CHECKED: nobody may not run the binary where it lies: {error}");
            return;
        }
    }
    let data_dir = folder.path().to_str().unwrap();
    check(
        &mut command,
        &[data_dir, "or the store in it, is read-only; make it writable or choose another --data-dir"],
    );
}

#[test]
fn a_store_that_is_none_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.sqlite3");
    let not_a_store = "this is no database. ".repeat(1_000);
    fs::write(&store, &not_a_store).unwrap();
    check(&mut serve(folder.path(), &[]), &["damaged", "restore the data directory from a backup"]);
    assert_eq!(fs::read_to_string(&store).unwrap(), not_a_store);
}

#[test]
fn a_lost_store_is_noticed_by_the_indexes_that_it_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    {
        let weir = Weir::start(folder.path());
        let client = Client::new(&weir.url);
        assert_eq!(client.send("PUT", "/v1/collections/notes", Some(b"{}")).status, 201);
        let body = json!({"collection": "notes", "documents": [{"id": "a", "text": "a weir"}]}).to_string();
        assert_eq!(client.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes())).status, 202);
        weir.terminate();
    }
    let store = folder.path().join("store.sqlite3");
    fs::rename(&store, folder.path().join("elsewhere")).unwrap();
    let expected =
        ["the store was lost, restored or replaced", "put the store that has it back, or remove the folder"];
    check(&mut serve(folder.path(), &[]), &expected);
    fs::rename(folder.path().join("elsewhere"), &store).unwrap();
    let weir = Weir::start(folder.path());
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    assert_eq!(client.get("/v1/collections/notes/documents/a").0, 200);
}

#[test]
fn doctor_names_a_store_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_clear().arg("doctor").arg("--data-dir").arg(folder.path().join("none"));
    check(&mut command, &["none/store.sqlite3", "check that the path is a folder that weir may use"]);
}

#[test]
fn a_setting_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(folder.path(), &[]);
    command.env("WEIR_LIMITS_TOPK_MAX", "5");
    check(&mut command, &["unknown variable `WEIR_LIMITS_TOPK_MAX`", "hint: ", "WEIR_LIMITS_TOP_K_MAX"]);
}

#[test]
fn a_redis_that_can_t_be_used_is_refused_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let redis = super::redis_server::RedisServer::start();
    let start = |url: &str| {
        let mut command = serve(folder.path(), &[]);
        command.env("WEIR_REDIS_URL", "env:REDIS").env("REDIS", url);
        command
    };
    check(
        &mut start("127.0.0.1:6379"),
        &["`redis.url` can't be used", "write redis://USER:PASSWORD@HOST:PORT/DATABASE"],
    );
    check(
        &mut start("rediss://127.0.0.1?ca_file=/no/such/file"),
        &["`redis.url` can't be used", "`ca_file`"],
    );
    let wrong = redis.url().replace("redis://", "redis://user:secret-password@");
    check(&mut start(&wrong), &["Redis refuses this gateway", "check user and password of `redis.url`"]);
    let mut absent = serve(folder.path(), &[]);
    absent.env("WEIR_REDIS_URL", "env:REDIS");
    check(&mut absent, &["the variable REDIS is not set", "redis://USER:PASSWORD@HOST:PORT/DATABASE"]);
}
