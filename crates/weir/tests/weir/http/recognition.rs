//! Scans and pictures, whose text another server recognises.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Gateway;
use super::documented::check_error;
use super::uploads::{pdf, upload};
use crate::support::client::{Reply, document_path};

const KEY: &str = "ocr-very-secret-7";
/// What stands between two pages, as the form of the request says.
const BREAK: &str = "\u{f0c0c}";
pub(super) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR and more";

/// A request that the server was sent.
#[derive(Clone)]
pub(super) struct Asked {
    head: String,
    body: Vec<u8>,
}

/// A server that answers by a function of the number of the request, from 0.
pub(super) struct Server {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(super) fn start(answer: impl Fn(usize, &Asked) -> (u16, String) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (all, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (all, answer) = (all.clone(), answer.clone());
                std::thread::spawn(move || {
                    while let Some(request) = read(&stream) {
                        let number = {
                            let mut all = all.lock().unwrap();
                            all.push(request.clone());
                            all.len() - 1
                        };
                        let (status, body) = answer(number, &request);
                        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", body.len());
                        if (&stream).write_all((head + &body).as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Server { url, asked }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { head, body })
}

pub(super) fn docling(pages: &[&str]) -> (u16, String) {
    let text = pages.join(&format!("\n\n{BREAK}\n\n"));
    (
        200,
        json!({"document": {"filename": "a", "md_content": text}, "status": "success", "errors": []})
            .to_string(),
    )
}

fn gateway(server: &Server, more: &[(&str, &str)]) -> Gateway {
    let settings = [("WEIR_EXTRACT_URL", server.url.as_str()), ("WEIR_EXTRACT_ARCHIVES", "true")];
    Gateway::start_with(&[&settings, more].concat())
}

fn put(gateway: &Gateway, name: &str, content: &[u8]) -> Reply {
    let path = format!("{}?wait=true", document_path(name));
    let reply =
        gateway.try_send("PUT", &path, &[("content-type", "application/octet-stream")], Some(content));
    reply.unwrap()
}

/// The document and its citation for a word.
fn found(gateway: &Gateway, name: &str, word: &str) -> (Value, Value) {
    gateway.wait_until_searchable();
    let citation = gateway.search(word, "lexical")[0]["citation"].clone();
    (gateway.document(name).unwrap(), citation)
}

fn scan(pages: &[&str]) -> Vec<u8> {
    pdf(&pages.iter().map(|page| (*page).to_owned()).collect::<Vec<_>>())
}

#[test]
fn a_scan_is_recognised_and_cited_by_page() {
    let server =
        Server::start(|_, _| docling(&["# Weirs", "<!-- image -->", "The crest stands 4.20 metres high."]));
    let gateway = gateway(&server, &[]);
    let file = scan(&["", "", ""]);
    let reply = put(&gateway, "scan.pdf", &file);
    assert_eq!((reply.status, &reply.json()["failed_documents"]), (202, &json!(0)), "{}", reply.text);
    let (document, citation) = found(&gateway, "scan.pdf", "crest");
    assert_eq!(document["text"], "# Weirs\n\nThe crest stands 4.20 metres high.");
    assert_eq!(document["metadata"]["file"]["recognised_by"], "docling", "{document}");
    assert_eq!((&citation["page"], &citation["page_end"]), (&json!(1), &json!(3)), "{citation}");
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].head.starts_with("post /v1/convert/file "), "{}", asked[0].head);
    assert!(asked[0].body.windows(file.len()).any(|part| part == file), "the file as it is");
    // it is not asked for the same file again, nor for a file with a text
    assert_eq!(put(&gateway, "scan.pdf", &file).json()["unchanged_documents"], 1);
    assert_eq!(put(&gateway, "text.pdf", &scan(&["A page of words that need no other server."])).status, 202);
    assert_eq!(server.asked().len(), 1);
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(metrics.contains("weir_recognitions_total{result=\"answered\"} 1"), "{metrics}");
}

#[test]
fn pages_that_are_images_are_filled_in_and_pictures_are_recognised() {
    let server = Server::start(|number, _| match number {
        0 => docling(&["other words", "The sluice is shut."]),
        _ => docling(&["A photo of a mill."]),
    });
    let gateway = gateway(&server, &[]);
    let text = "The first page has a text of its own, which is longer than that of a scan.";
    assert_eq!(put(&gateway, "half.pdf", &scan(&[text, ""])).status, 202);
    let (document, citation) = found(&gateway, "half.pdf", "sluice");
    assert_eq!(document["text"], format!("{text}\n\nThe sluice is shut."));
    let about = &document["metadata"]["file"];
    assert_eq!((&about["recognised_by"], &about["state"]), (&json!("docling"), &Value::Null), "{about}");
    assert_eq!(citation["page_end"], 2, "{citation}");
    assert_eq!(put(&gateway, "mill.png", PNG).status, 202);
    assert_eq!(found(&gateway, "mill.png", "mill").0["text"], "A photo of a mill.");
    // a picture that is attached to a message is left out, as the mark of its sender
    let mail = format!(
        "From: a@example.org\r\nSubject: Weirs\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n\
         --x\r\nContent-Type: text/plain\r\n\r\nSee the mark.\r\n--x\r\nContent-Type: image/png\r\n\
         Content-Disposition: attachment; filename=mark.png\r\n\r\n{}\r\n--x--\r\n",
        String::from_utf8_lossy(&PNG[1..]).replace('\u{fffd}', "")
    );
    let job = upload(&gateway, &[("name=\"file\"; filename=\"m.eml\"", mail.as_bytes())]).json();
    assert_eq!(server.asked().len(), 2, "{job}");
}

#[test]
fn tika_is_asked_in_its_own_way() {
    let page = "<html><head><title>x</title></head><body><div class=\"page\"><p>Weirs hold back rivers.</p></div>\
        <div class=\"page\"><p /><p>Mills grind corn.</p></div></body></html>";
    let server = Server::start(move |_, _| (200, page.to_owned()));
    let gateway = gateway(&server, &[("WEIR_EXTRACT_URL_KIND", "tika")]);
    assert_eq!(put(&gateway, "a \"b.pdf", &scan(&["", ""])).status, 202);
    let (document, citation) = found(&gateway, "a \"b.pdf", "corn");
    assert_eq!(document["text"], "Weirs hold back rivers.\n\nMills grind corn.");
    assert_eq!((&citation["page"], &citation["page_end"]), (&json!(1), &json!(2)), "{citation}");
    let asked = server.asked();
    let head = &asked[0].head;
    assert!(head.starts_with("put /tika "), "{head}");
    for header in ["x-tika-pdfocrstrategy: ocr_only", "accept: text/html", "filename=\"a _b.pdf\""] {
        assert!(head.contains(header), "{head}");
    }
}

#[test]
fn a_file_in_which_nothing_is_recognised_says_so() {
    let server = Server::start(|_, _| docling(&["", " - "]));
    let with = gateway(&server, &[]);
    let refused = check_error(&put(&with, "scan.pdf", &scan(&["", ""])), "no_text", "an empty answer");
    assert!(refused["detail"].as_str().unwrap().contains("none was recognised"), "{refused}");
    // without a server, the reason is that of the file
    let without = Gateway::start();
    let refused = check_error(&put(&without, "scan.pdf", &scan(&["", ""])), "no_text", "a scan");
    assert!(refused["detail"].as_str().unwrap().contains("its pages are images"), "{refused}");
    assert!(refused.to_string().contains("extract.url"), "{refused}");
    check_error(&put(&without, "mill.png", PNG), "unsupported_format", "a picture");
}

#[test]
fn a_server_that_fails_costs_one_file_and_its_key_is_shown_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    let named = format!("file:{}", key.display());
    let server = Server::start(|number, asked| match number {
        0 => (503, "busy".to_owned()),
        1 => docling(&["A lock lifts boats."]),
        // a server that quotes what it was sent
        _ => (401, asked.head.clone()),
    });
    let gateway = gateway(&server, &[("WEIR_EXTRACT_API_KEY", &named), ("WEIR_LOG_LEVEL", "trace")]);
    // in passing
    assert_eq!(put(&gateway, "a.pdf", &scan(&[""])).status, 202);
    assert!(server.asked().iter().all(|asked| asked.head.contains(&format!("x-api-key: {KEY}"))));
    let refused = check_error(&put(&gateway, "b.pdf", &scan(&["", ""])), "upstream_error", "a refused key");
    assert!(refused["detail"].as_str().unwrap().contains("extract.url"), "{refused}");
    let shown = gateway.send("GET", "/metrics", None).text;
    assert!(shown.contains("weir_recognitions_total{result=\"failed\"} 1"), "{shown}");
    for text in [refused.to_string(), gateway.weir.log(), shown] {
        assert!(!text.contains(KEY), "{text}");
    }
}

#[test]
fn a_server_that_hangs_is_bounded_and_delays_nothing_else() {
    let server = Server::start(|_, _| {
        std::thread::sleep(Duration::from_secs(2));
        docling(&["late"])
    });
    let settings = [
        ("WEIR_EXTRACT_URL_TIMEOUT_MS", "700"),
        ("WEIR_EXTRACT_URL_REQUESTS_MAX", "1"),
        ("WEIR_EXTRACT_PARALLEL_MAX", "1"),
    ];
    let gateway = gateway(&server, &settings);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..2)
            .map(|number| {
                let gateway = &gateway;
                scope.spawn(move || put(gateway, &format!("{number}.pdf"), &scan(&["", ""])))
            })
            .collect();
        gateway.wait("the first request", || !server.asked().is_empty());
        let begun = Instant::now();
        assert_eq!(put(&gateway, "a.txt", b"a weir").status, 202);
        assert_eq!(gateway.send("GET", "/v1/collections", None).status, 200);
        assert!(begun.elapsed() < Duration::from_millis(1_500), "{:?}", begun.elapsed());
        let replies: Vec<Reply> = waiting.into_iter().map(|reply| reply.join().unwrap()).collect();
        let codes: Vec<String> =
            replies.iter().map(|reply| reply.json()["code"].as_str().unwrap().to_owned()).collect();
        // the second may be refused at once, because the server failed too often
        assert!(codes.iter().any(|code| code == "upstream_timeout"), "{codes:?}");
        assert!(codes.iter().all(|code| code.starts_with("upstream_")), "{codes:?}");
    });
}

#[test]
fn the_configuration_names_what_is_wrong_with_the_server() {
    let check = |settings: &[(&str, &str)], expected: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .env_clear()
            .args(["config", "check"])
            .env("WEIR_MODEL", "pseudo")
            .envs(settings.iter().copied());
        let out = command.output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && said.contains(expected), "{said}");
    };
    check(&[("WEIR_EXTRACT_URL", "127.0.0.1:5001")], "`extract.url` must be a URL");
    check(&[("WEIR_EXTRACT_URL_KIND", "textract")], "must be one of docling, tika");
    let absent = [("WEIR_EXTRACT_URL", "http://127.0.0.1:1"), ("WEIR_EXTRACT_API_KEY", "env:ABSENT")];
    check(&absent, "the variable ABSENT is not set");
}
