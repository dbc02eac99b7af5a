//! Files that are uploaded: their text is extracted in a child process, and found with the page.

use serde_json::{Value, json};

use super::Gateway;
use super::documented::check_error;
use crate::support::client::{Client, Reply};

const BOUNDARY: &str = "a-boundary";

/// A part of a form: what its head says after `form-data`, and its content.
pub(super) type Part<'a> = (&'a str, &'a [u8]);

fn form(parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (head, content) in parts {
        body.extend_from_slice(
            format!("--{BOUNDARY}\r\ncontent-disposition: form-data; {head}\r\n\r\n").as_bytes(),
        );
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    body
}

pub(super) fn upload(client: &Client, parts: &[Part<'_>]) -> Reply {
    send_form(client, "/v1/ingest?wait=true", parts)
}

pub(super) fn send_form(client: &Client, path: &str, parts: &[Part<'_>]) -> Reply {
    let media_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let headers = [("content-type", media_type.as_str())];
    client.try_send("POST", path, &headers, Some(&form(parts))).unwrap()
}

fn put(client: &Client, path: &str, media_type: &str, content: &[u8]) -> Reply {
    client.try_send("PUT", path, &[("content-type", media_type)], Some(content)).unwrap()
}

/// A text of 200 pages, as `pdftotext` writes it. Page 137 alone says how high the weir is.
fn pages() -> String {
    let page = |number: u32| match number {
        137 => "The crest of the zwickau weir stands 4.20 metres above the river bed.\n".to_owned(),
        other => format!("Chapter {other} is about locks, mills and the ferries of valley {other}.\n"),
    };
    (1..=200).map(page).collect::<Vec<_>>().join("\u{c}")
}

#[test]
fn an_answer_from_page_137_of_200_is_cited_with_that_page() {
    let gateway = Gateway::start();
    let text = pages();
    let options = br#"{"id": "manual", "metadata": {"year": 1884}}"#;
    let parts: [Part<'_>; 2] =
        [("name=\"file\"; filename=\"manual.txt\"", text.as_bytes()), ("name=\"options\"", options)];
    let reply = upload(&gateway, &parts);
    assert_eq!((reply.status, &reply.json()["total_documents"]), (202, &json!(1)), "{}", reply.text);
    gateway.wait_until_searchable();
    let body = json!({"query": "how high is the zwickau weir", "mode": "lexical", "top_k": 1}).to_string();
    let hit = gateway.send("POST", "/v1/search", Some(body.as_bytes())).json()["results"][0].clone();
    let citation = &hit["citation"];
    let first = citation["page"].as_u64().unwrap_or_else(|| panic!("no page: {hit}"));
    let last = citation["page_end"].as_u64().unwrap();
    assert!((first..=last).contains(&137), "{citation}");
    // the quote is the text's bytes, and its pages have them
    let at = |field: &str| usize::try_from(citation[field].as_u64().unwrap()).unwrap();
    assert_eq!(&text[at("start")..at("end")], citation["quote"].as_str().unwrap());
    let page_of = |at: usize| 1 + text[..at].matches('\u{c}').count() as u64;
    assert_eq!((first, last), (page_of(at("start")), page_of(at("end") - 1)), "{citation}");
    let breaks = citation["page_breaks"].as_array().map_or(0, Vec::len) as u64;
    assert_eq!(breaks, last - first, "{citation}");
    let stored = gateway.document("manual").unwrap();
    assert_eq!(stored["text"], text);
    assert_eq!(stored["title"], "manual");
    assert_eq!(
        (&stored["metadata"]["year"], &stored["metadata"]["file"]["name"]),
        (&json!(1884), &json!("manual.txt"))
    );
    // the same file again changes nothing; without its pages it would be other content
    let again = upload(&gateway, &parts).json();
    assert_eq!(
        (&again["unchanged_documents"], &again["changed_documents"]),
        (&json!(1), &json!(0)),
        "{again}"
    );
}

#[test]
fn pages_survive_a_restart_and_a_rebuilt_index() {
    let folder = tempfile::tempdir().unwrap();
    let search = |gateway: &Gateway| {
        gateway.wait_until_ready();
        gateway.search("zwickau weir", "lexical")[0]["citation"]["page"].clone()
    };
    let gateway = Gateway::start_in(folder.path(), &[]);
    let reply =
        put(&gateway, "/v1/collections/default/documents/manual?wait=true", "text/plain", pages().as_bytes());
    assert_eq!(reply.status, 202, "{}", reply.text);
    gateway.wait_until_searchable();
    let before = search(&gateway);
    assert!(before.is_u64(), "{before}");
    gateway.weir.terminate();
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let gateway = Gateway::start_in(folder.path(), &[]);
    assert_eq!(search(&gateway), before);
}

#[test]
fn a_file_that_cannot_be_read_fails_alone_with_its_reason() {
    let gateway = Gateway::start();
    let program: Part<'_> = ("name=\"file\"; filename=\"tool.exe\"", b"MZ\0\x01\x02");
    let reply = upload(&gateway, &[program]);
    let refused = check_error(&reply, "unsupported_format", "a program");
    assert!(refused["detail"].as_str().unwrap().contains("programs are not read"), "{refused}");
    let note: Part<'_> = ("name=\"file\"; filename=\"notes/note.md\"", b"# Weirs\n\nA weir is a low dam.");
    let job = upload(&gateway, &[program, note]).json();
    assert_eq!(job["errors"][0]["code"], "unsupported_format", "{job}");
    assert_eq!((&job["total_documents"], &job["failed_documents"]), (&json!(2), &json!(1)), "{job}");
    gateway.wait_until_searchable();
    assert_eq!(gateway.document("note.md").unwrap()["title"], "note");
    let metrics = gateway.send("GET", "/metrics", None).text;
    for (labels, count) in
        [("format=\"text\",result=\"extracted\"", 1), ("format=\"other\",result=\"unsupported_format\"", 2)]
    {
        assert!(metrics.contains(&format!("weir_extractions_total{{{labels}}} {count}")), "{metrics}");
    }
}

#[test]
fn a_document_is_put_as_json_or_as_a_file() {
    let gateway = Gateway::start();
    let path = "/v1/collections/default/documents/a%2F1";
    let wait = |query: &str| format!("{path}?wait=true{query}");
    let json_body = br#"{"title": "Weirs", "text": "A weir is a low dam."}"#;
    assert_eq!(put(&gateway, &wait(""), "application/json", json_body).status, 202);
    gateway.wait_until_searchable();
    assert_eq!(gateway.document("a/1").unwrap()["title"], "Weirs");
    let page = b"<title>Mills</title><p>A mill grinds corn.";
    let reply =
        put(&gateway, &wait("&filename=mill.html&metadata=%7B%22year%22%3A1884%7D"), "text/html", page);
    assert_eq!(reply.status, 202, "{}", reply.text);
    gateway.wait_until_searchable();
    let stored = gateway.document("a/1").unwrap();
    assert_eq!((&stored["title"], &stored["metadata"]["year"]), (&json!("Mills"), &json!(1884)), "{stored}");
    assert_eq!(stored["text"].as_str().unwrap().trim(), "A mill grinds corn.");
    let other = br#"{"id": "b", "text": "x"}"#;
    check_error(&put(&gateway, path, "application/json", other), "invalid_parameter", "another id");
    check_error(
        &put(&gateway, &wait("&title=x"), "application/json", json_body),
        "invalid_parameter",
        "a title of JSON",
    );
    check_error(
        &put(&gateway, &format!("{path}?pages=1"), "text/plain", b"x"),
        "unknown_field",
        "a parameter",
    );
}

#[test]
fn a_file_is_the_body_of_a_post_or_a_part_of_a_put() {
    let gateway = Gateway::start();
    let post = |query: &str, media_type: &str, content: &[u8]| {
        let path = format!("/v1/ingest?wait=true{query}");
        gateway.try_send("POST", &path, &[("content-type", media_type)], Some(content)).unwrap()
    };
    // also what could be JSON
    for (name, media_type) in
        [("notes/a.txt", "application/pdf"), ("b.json", "application/json"), ("c.txt", "text/plain")]
    {
        let query = format!("&filename={name}&metadata=%7B%22year%22%3A1884%7D");
        let reply = post(&query, media_type, b"{\"a\": \"weir\"}");
        assert_eq!(
            (reply.status, &reply.json()["new_documents"]),
            (202, &json!(1)),
            "{name}: {}",
            reply.text
        );
    }
    let stored = gateway.document("a.txt").unwrap();
    assert_eq!((&stored["metadata"]["year"], &stored["title"]), (&json!(1884), &json!("a")), "{stored}");
    let reply = post("&filename=d.html&id=x%2Fd&title=Other&collection=notes", "text/html", b"<p>A mill.");
    assert_eq!((reply.status, &reply.json()["collection"]), (202, &json!("notes")), "{}", reply.text);
    let path = "/v1/collections/notes/documents/x%2Fd";
    assert_eq!(gateway.send("GET", path, None).json()["title"], "Other");
    check_error(
        &post("&filename=a.exe", "application/octet-stream", b"MZ\0\x01"),
        "unsupported_format",
        "a program",
    );
    check_error(&post("&filename=a.txt&top_k=1", "text/plain", b"x"), "unknown_field", "a parameter");
    check_error(&post("&id=a", "text/plain", b"{}"), "unknown_field", "an id without a file");

    let media_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let put_form =
        |parts: &[Part<'_>]| put(&gateway, &format!("{path}?wait=true"), &media_type, &form(parts));
    let file: Part<'_> = ("name=\"file\"; filename=\"mill.html\"", b"<title>Mills</title><p>A mill.");
    let options: Part<'_> = ("name=\"options\"", br#"{"metadata": {"year": 1902}}"#);
    let reply = put_form(&[file, options]);
    assert_eq!((reply.status, &reply.json()["changed_documents"]), (202, &json!(1)), "{}", reply.text);
    let stored = gateway.send("GET", path, None).json();
    assert_eq!((&stored["title"], &stored["metadata"]["year"]), (&json!("Mills"), &json!(1902)), "{stored}");
    assert_eq!(stored["metadata"]["file"]["name"], "mill.html");
    check_error(&put_form(&[file, file]), "invalid_parameter", "two files for one document");
    let other: Part<'_> = ("name=\"options\"", br#"{"id": "other"}"#);
    check_error(&put_form(&[file, other]), "invalid_parameter", "another id");
}

#[test]
fn forms_are_limited_and_checked() {
    let gateway = Gateway::start_with(&[
        ("WEIR_EXTRACT_FILE_BYTES_MAX", "1000"),
        ("WEIR_LIMITS_INGEST_BODY_BYTES_MAX", "4000"),
        ("WEIR_LIMITS_DOCUMENTS_PER_REQUEST_MAX", "2"),
    ]);
    let file: Part<'_> = ("name=\"file\"; filename=\"a.txt\"", b"a weir");
    let refused = |parts: &[Part<'_>], code: &str, what: &str| -> Value {
        check_error(&upload(&gateway, parts), code, what)
    };
    let long = vec![b'x'; 1001];
    let message = refused(&[("name=\"file\"", &long)], "payload_too_large", "a long file");
    assert!(message["detail"].as_str().unwrap().contains("extract.file_bytes_max"), "{message}");
    let many = [("name=\"file\"", &long[..900]); 3];
    refused(&many, "batch_too_large", "three files");
    refused(&[("name=\"collection\"", b"notes")], "invalid_parameter", "no file");
    refused(&[("name=\"other\"", b"x"), file], "unknown_field", "an unknown part");
    refused(&[("name=\"options\"", b"{}"), file], "invalid_parameter", "options before the file");
    refused(&[file, ("name=\"options\"", b"{}"), ("name=\"options\"", b"{}")], "invalid_parameter", "twice");
    refused(&[file, ("name=\"options\"", b"{\"ID\": 1}")], "unknown_field", "an unknown option");
    refused(&[("name=\"collection\"", b"a b"), file], "invalid_parameter", "a bad collection");
    let cut = &form(&[file])[..60];
    let media_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let headers = [("content-type", media_type.as_str())];
    let reply = gateway.try_send("POST", "/v1/ingest", &headers, Some(cut)).unwrap();
    check_error(&reply, "invalid_parameter", "a cut form");
    let bare = [("content-type", "multipart/form-data")];
    let reply = gateway.try_send("POST", "/v1/ingest", &bare, Some(b"x")).unwrap();
    check_error(&reply, "invalid_parameter", "no boundary");
    let pdf = [("content-type", "application/pdf")];
    let reply = gateway.try_send("POST", "/v1/ingest", &pdf, Some(b"%PDF-1.7")).unwrap();
    let refused = check_error(&reply, "unsupported_media_type", "a file without its name");
    assert!(refused["detail"].as_str().unwrap().contains("`/v1/ingest?filename=manual.pdf`"), "{refused}");
    assert_eq!(upload(&gateway, &[file]).status, 202);
}

#[test]
fn nothing_is_left_of_uploads() {
    let gateway = Gateway::start();
    let count =
        |folder: &str| std::fs::read_dir(format!("/proc/{}/{folder}", gateway.weir.id())).unwrap().count();
    let send = |number: usize| {
        let name = format!("name=\"file\"; filename=\"{}.txt\"", number % 2);
        upload(&gateway, &[(&name, b"a weir"), ("name=\"file\"; filename=\"b.exe\"", b"\0\0")]);
    };
    (0..5).for_each(send);
    let before = count("fd");
    (0..40).for_each(send);
    gateway.wait_until_searchable();
    assert!(count("fd") <= before + 4, "{} descriptors after {before}", count("fd"));
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", gateway.weir.id()));
    assert_eq!(children.unwrap_or_default(), "");
    let left: Vec<_> =
        std::fs::read_dir(gateway.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".tmp")), "{left:?}");
}

/// A PDF with a line of text on each page; an empty one is the image of a page.
pub(super) fn pdf(pages: &[String]) -> Vec<u8> {
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        String::new(),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
        "<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1 >>\nstream\nx\nendstream"
            .to_owned(),
    ];
    let mut kids = String::new();
    for text in pages {
        let number = objects.len() + 1;
        kids.push_str(&format!("{number} 0 R "));
        let contents = number + 1;
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {contents} 0 R \
             /Resources << /Font << /F1 3 0 R >> /XObject << /I1 4 0 R >> >> >>"
        ));
        let drawn = match text.is_empty() {
            true => "q 595 0 0 842 0 0 cm /I1 Do Q".to_owned(),
            false => format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET"),
        };
        objects.push(format!("<< /Length {} >>\nstream\n{drawn}\nendstream", drawn.len()));
    }
    objects[1] = format!("<< /Type /Pages /Count {} /Kids [{kids}] >>", pages.len());
    let (mut file, mut places) = ("%PDF-1.7\n".to_owned(), Vec::new());
    for (index, object) in objects.iter().enumerate() {
        places.push(file.len());
        file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", index + 1));
    }
    let (start, count) = (file.len(), objects.len() + 1);
    file.push_str(&format!("xref\n0 {count}\n0000000000 65535 f \n"));
    for place in places {
        file.push_str(&format!("{place:010} 00000 n \n"));
    }
    file.push_str(&format!("trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"));
    file.into_bytes()
}

#[test]
fn an_answer_from_page_137_of_a_pdf_is_cited_with_that_page() {
    let gateway = Gateway::start();
    let pages: Vec<String> = pages().split('\u{c}').map(|page| page.trim().to_owned()).collect();
    let file = pdf(&pages);
    let reply = upload(&gateway, &[("name=\"file\"; filename=\"manual.pdf\"", file.as_slice())]);
    assert_eq!(reply.status, 202, "{}", reply.text);
    gateway.wait_until_searchable();
    let hit = gateway.search("how high is the zwickau weir", "lexical")[0].clone();
    let citation = &hit["citation"];
    let (first, last) = (citation["page"].as_u64().unwrap(), citation["page_end"].as_u64().unwrap());
    assert!((first..=last).contains(&137), "{citation}");
    let text = gateway.document("manual.pdf").unwrap()["text"].as_str().unwrap().to_owned();
    let at = |field: &str| usize::try_from(citation[field].as_u64().unwrap()).unwrap();
    assert_eq!(&text[at("start")..at("end")], citation["quote"].as_str().unwrap());
    // the page that has the sentence, by the offsets at which the pages begin
    let sentence = text.find("The crest of the zwickau").unwrap() as u64;
    let breaks = citation["page_breaks"].as_array().unwrap();
    let before = breaks.iter().filter(|begin| begin.as_u64().unwrap() <= sentence).count() as u64;
    assert_eq!(first + before, 137, "{citation}");
}
