//! Uploads that are acknowledged before they are read: the job extracts their text.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::Gateway;
use super::archives::{FILE, zip};
use super::documented::check_error;
use super::recognition::{PNG, Server, docling};
use super::uploads::{Part, send_form};
use crate::cli_support::{Weir, folder_with};
use crate::support::client::{Reply, document_path};

/// A server that recognises the text of pictures, when it is let.
struct Recogniser {
    server: Server,
    is_open: Arc<AtomicBool>,
}

impl Recogniser {
    fn closed() -> Recogniser {
        let is_open = Arc::<AtomicBool>::default();
        let opened = is_open.clone();
        let server = Server::start(move |_, _| {
            let until = Instant::now() + Duration::from_secs(60);
            while !opened.load(Ordering::Relaxed) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            docling(&["a heron stands in the shallows"])
        });
        Recogniser { server, is_open }
    }

    fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    fn gateway(&self, folder: &Path) -> Gateway {
        Gateway::start_in(folder, &[("WEIR_EXTRACT_URL", &self.server.url)])
    }
}

const PICTURE: Part<'_> = ("name=\"file\"; filename=\"heron.png\"", PNG);
const NOTE: Part<'_> = ("name=\"file\"; filename=\"note.txt\"", b"an otter swims");
const PROGRAM: Part<'_> = ("name=\"file\"; filename=\"tool.exe\"", b"MZ\0\x01\x02");

fn upload(gateway: &Gateway, parts: &[Part<'_>]) -> Reply {
    send_form(gateway, "/v1/ingest", parts)
}

/// The path of the job of a reply.
fn path_of(reply: &Reply) -> String {
    assert_eq!(reply.status, 202, "{}", reply.text);
    format!("/v1/jobs/{}", reply.json()["job_id"].as_str().unwrap())
}

fn ended(gateway: &Gateway, job: &str) -> Value {
    gateway.wait("the end of the job", || gateway.get(job).1["finished_at"].is_number());
    gateway.get(job).1
}

fn states(gateway: &Gateway, job: &str) -> String {
    let listed = gateway.get(&format!("{job}/documents")).1;
    let states = listed["data"].as_array().unwrap().iter();
    let states = states.map(|one| format!("{} {}", one["document_id"], one["state"]).replace('"', ""));
    states.collect::<Vec<_>>().join(", ")
}

/// The names of the uploads in the data directory.
fn kept(folder: &TempDir) -> usize {
    std::fs::read_dir(folder.path().join("uploads")).map_or(0, Iterator::count)
}

#[test]
fn an_upload_is_acknowledged_before_its_text_is_extracted() {
    let (folder, recogniser) = (tempfile::tempdir().unwrap(), Recogniser::closed());
    let gateway = recogniser.gateway(folder.path());
    let reply = upload(&gateway, &[PICTURE, NOTE, PROGRAM]);
    let (job, accepted) = (path_of(&reply), reply.json());
    // what its first bytes say is said at once
    assert_eq!(accepted["errors"][0]["code"], "unsupported_format", "{accepted}");
    assert_eq!(
        (&accepted["status"], &accepted["total_documents"], &accepted["unread_files"]),
        (&json!("pending"), &json!(3), &json!(2)),
        "{accepted}"
    );
    assert_eq!(states(&gateway, &job), "tool.exe failed, heron.png pending, note.txt pending");
    // what is read is counted while another file is not
    gateway.wait("the other file", || gateway.get(&job).1["unread_files"] == 1);
    assert!(gateway.document("note.txt").is_none(), "all files of a job are stored together");
    // others do not wait
    let body = json!({"documents": [{"id": "other", "text": "a mink"}]}).to_string();
    let sent = gateway.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes()));
    assert_eq!(sent.json()["status"], "completed", "{}", sent.text);
    recogniser.open();
    let job_then = ended(&gateway, &job);
    assert_eq!(
        ["status", "new_documents", "failed_documents", "unread_files"].map(|name| job_then[name].clone()),
        [json!("completed"), json!(2), json!(1), json!(0)],
        "{job_then}"
    );
    assert_eq!(states(&gateway, &job), "tool.exe failed, heron.png searchable, note.txt searchable");
    assert_eq!(gateway.search("heron", "lexical")[0]["id"], "heron.png");
    gateway.wait("the removal of the upload", || kept(&folder) == 0);
    // the same file again is neither read nor kept
    let again = upload(&gateway, &[PICTURE, NOTE]).json();
    assert_eq!(
        (&again["status"], &again["unchanged_documents"]),
        (&json!("completed"), &json!(2)),
        "{again}"
    );
    check_error(&upload(&gateway, &[PROGRAM]), "unsupported_format", "nothing that could be read");
}

#[test]
fn a_crash_loses_no_upload() {
    let (folder, recogniser) = (tempfile::tempdir().unwrap(), Recogniser::closed());
    let gateway = recogniser.gateway(folder.path());
    let job = path_of(&upload(&gateway, &[PICTURE]));
    gateway.wait("the question", || !recogniser.server.asked().is_empty());
    gateway.weir.kill();
    drop(gateway);
    let gateway = recogniser.gateway(folder.path());
    assert_eq!(gateway.get(&job).1["unread_files"], 1);
    recogniser.open();
    assert_eq!(ended(&gateway, &job)["new_documents"], 1);
    assert_eq!(gateway.search("heron", "lexical").len(), 1);
    gateway.wait("the removal of the upload", || kept(&folder) == 0);
}

#[test]
fn a_change_of_a_document_waits_for_the_file_that_was_sent_before() {
    let (folder, recogniser) = (tempfile::tempdir().unwrap(), Recogniser::closed());
    let gateway = recogniser.gateway(folder.path());
    let job = path_of(&upload(&gateway, &[PICTURE]));
    let (path, other) = (document_path("heron.png"), document_path("other"));
    let body = br#"{"text": "a later text"}"#;
    let json_type = [("content-type", "application/json")];
    std::thread::scope(|scope| {
        let put = scope.spawn(|| gateway.try_send("PUT", &path, &json_type, Some(body)).unwrap());
        let sent = gateway.try_send("PUT", &other, &json_type, Some(body)).unwrap();
        assert_eq!(sent.status, 202, "another document does not wait: {}", sent.text);
        assert!(!put.is_finished() && gateway.document("heron.png").is_none());
        recogniser.open();
        assert_eq!(put.join().unwrap().status, 202);
    });
    ended(&gateway, &job);
    assert_eq!(gateway.document("heron.png").unwrap()["text"], "a later text");
    // so does a deletion
    let job = path_of(&upload(&gateway, &[PICTURE]));
    assert_eq!(gateway.send("DELETE", &path, None).status, 200);
    ended(&gateway, &job);
    assert!(gateway.document("heron.png").is_none());
}

#[test]
fn files_that_failed_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let is_well = Arc::<AtomicBool>::default();
    let well = is_well.clone();
    let server = Server::start(move |_, _| match well.load(Ordering::Relaxed) {
        true => docling(&["a heron stands"]),
        false => (400, String::new()),
    });
    let gateway = Gateway::start_in(folder.path(), &[("WEIR_EXTRACT_URL", &server.url)]);
    let job = path_of(&upload(&gateway, &[PICTURE, NOTE]));
    let failed = ended(&gateway, &job);
    assert_eq!(
        (&failed["status"], &failed["new_documents"], &failed["errors"][0]["document_id"]),
        (&json!("completed"), &json!(1), &json!("heron.png")),
        "{failed}"
    );
    assert_eq!(failed["errors"][0]["code"], "upstream_error", "{failed}");
    gateway.weir.terminate();
    drop(gateway);
    let gateway = Gateway::start_in(folder.path(), &[("WEIR_EXTRACT_URL", &server.url)]);
    is_well.store(true, Ordering::Relaxed);
    let retried = gateway.send("POST", &format!("{job}/retry-failed"), None);
    let again = path_of(&retried);
    assert_eq!(retried.json()["unread_files"], 1, "{}", retried.text);
    assert_eq!(ended(&gateway, &again)["new_documents"], 1);
    assert_eq!(gateway.search("heron", "lexical").len(), 1);
    let reply = gateway.send("POST", &format!("{job}/retry-failed"), None);
    check_error(&reply, "job_not_retryable", "what was tried again");
    gateway.wait("the removal of the upload", || kept(&folder) == 0);
}

#[test]
fn a_cancelled_upload_is_not_read() {
    let (folder, recogniser) = (tempfile::tempdir().unwrap(), Recogniser::closed());
    let gateway = recogniser.gateway(folder.path());
    let (first, second) = (path_of(&upload(&gateway, &[PICTURE])), path_of(&upload(&gateway, &[NOTE])));
    // those of a collection are read in their order
    assert_eq!(gateway.get(&second).1["unread_files"], 1);
    let cancelled = gateway.send("POST", &format!("{first}/cancel"), None).json();
    assert_eq!((&cancelled["status"], &cancelled["cancelled_documents"]), (&json!("cancelled"), &json!(1)));
    assert_eq!(states(&gateway, &first), "heron.png cancelled");
    assert_eq!(ended(&gateway, &second)["new_documents"], 1);
    recogniser.open();
    let again = path_of(&gateway.send("POST", &format!("{first}/retry-failed"), None));
    assert_eq!(ended(&gateway, &again)["new_documents"], 1);
    assert!(gateway.document("heron.png").is_some());
}

#[test]
fn an_upload_beyond_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let recogniser = Recogniser::closed();
    let settings =
        [("WEIR_EXTRACT_URL", recogniser.server.url.as_str()), ("WEIR_EXTRACT_UPLOADS_BYTES_MAX", "100")];
    let gateway = Gateway::start_in(folder.path(), &settings);
    let job = path_of(&upload(&gateway, &[PICTURE]));
    let long: Part<'_> = ("name=\"file\"; filename=\"long.txt\"", &[b'a'; 90]);
    check_error(&upload(&gateway, &[long]), "overloaded", "a full folder");
    recogniser.open();
    ended(&gateway, &job);
    gateway.wait("the removal of the upload", || kept(&folder) == 0);
    ended(&gateway, &path_of(&upload(&gateway, &[long])));
    // what failed makes room
    let damaged: Part<'_> = ("name=\"file\"; filename=\"a.pdf\"", &[b'%'; 80]);
    assert_eq!(ended(&gateway, &path_of(&upload(&gateway, &[damaged])))["failed_documents"], 1);
    assert_eq!(kept(&folder), 1);
    ended(&gateway, &path_of(&upload(&gateway, &[NOTE, damaged])));
}

#[test]
fn the_command_line_sends_archives_and_pictures_where_they_are_read() {
    let (data, recogniser) = (tempfile::tempdir().unwrap(), Recogniser::closed());
    recogniser.open();
    let folder = folder_with(&[("in/note.txt", "an otter swims"), ("in/a.rar", "Rar!")]);
    let archive = zip(&[("x/mink.txt", FILE, b"a mink runs"), ("x/empty.txt", FILE, b"")]);
    std::fs::write(folder.path().join("in/a.zip"), archive).unwrap();
    std::fs::write(folder.path().join("in/heron.png"), PNG).unwrap();
    let run = |gateway: &Gateway, command: &str| {
        let arguments: Vec<&str> = command.split(' ').collect();
        Weir::new().in_folder(&folder).env("WEIR_URL", &gateway.weir.url).run(&arguments)
    };
    let ids = |gateway: &Gateway| {
        let listed = gateway.get("/v1/collections/default/documents").1;
        let ids = listed["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap());
        ids.collect::<Vec<_>>().join(" ")
    };
    let gateway = Gateway::start_in(data.path(), &[]);
    let formats = gateway.get("/v1/formats").1;
    assert_eq!((&formats["archives"], &formats["pictures"]), (&json!(false), &json!(false)), "{formats}");
    assert!(formats["extensions"].as_array().unwrap().contains(&json!("pdf")), "{formats}");
    let first = run(&gateway, "ingest in --json");
    let shown: Value = serde_json::from_str(&first.out).unwrap();
    assert_eq!((first.code, &shown["left_out"]), (0, &json!({".png": 1, ".rar": 1, ".zip": 1})), "{shown}");
    gateway.weir.terminate();
    drop(gateway);

    let settings = [("WEIR_EXTRACT_URL", recogniser.server.url.as_str()), ("WEIR_EXTRACT_ARCHIVES", "true")];
    let gateway = Gateway::start_in(data.path(), &settings);
    let second = run(&gateway, "ingest in --json");
    let shown: Value = serde_json::from_str(&second.out).unwrap();
    // a file of an archive fails alone
    assert_eq!((second.code, &shown["new"], &shown["unchanged"]), (1, &json!(2), &json!(1)), "{shown}");
    assert_eq!(shown["failed"][0]["name"], "a.zip/x/empty.txt", "{shown}");
    assert_eq!(ids(&gateway), "a.zip/x/mink.txt heron.png note.txt");
    gateway.weir.terminate();
    drop(gateway);
    // what is not read any more stays
    let gateway = Gateway::start_in(data.path(), &[]);
    let synced = run(&gateway, "sync in --yes");
    assert_eq!(synced.code, 0, "{}{}", synced.out, synced.err);
    assert_eq!(ids(&gateway), "a.zip/x/mink.txt heron.png note.txt");
}
