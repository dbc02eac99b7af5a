//! Archives that are uploaded: each file in one is a document, and each bad one fails alone.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::Gateway;
use super::documented::check_error;
use crate::support::client::{Client, Reply};

/// A member of an archive: its name, its kind in tar, its content.
pub(super) type Member<'a> = (&'a str, u8, &'a [u8]);

pub(super) const FILE: u8 = b'0';

fn tar_gz(members: &[Member<'_>]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, kind, content) in members {
        let mut head = [0_u8; 512];
        head[..name.len()].copy_from_slice(name.as_bytes());
        head[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        head[148..156].copy_from_slice(b"        ");
        head[156] = *kind;
        head[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        tar.extend_from_slice(&head);
        tar.extend_from_slice(content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.extend_from_slice(&[0; 1024]);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&tar).unwrap();
    gzip.finish().unwrap()
}

/// A zip archive whose members are not compressed.
pub(super) fn zip(members: &[Member<'_>]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, _, content) in members {
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let at = file.len() as u32;
        let size = (content.len() as u32).to_le_bytes();
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend_from_slice(&crc.sum().to_le_bytes());
        common.extend_from_slice(&[size, size].concat());
        common.extend_from_slice(&(name.len() as u16).to_le_bytes());
        common.extend_from_slice(&[0, 0]);
        file.extend_from_slice(b"PK\x03\x04");
        file.extend_from_slice(&common);
        file.extend_from_slice(name.as_bytes());
        file.extend_from_slice(content);
        directory.extend_from_slice(b"PK\x01\x02\x14\0");
        directory.extend_from_slice(&common);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let (start, size, count) =
        (file.len() as u32, directory.len() as u32, (members.len() as u16).to_le_bytes());
    file.extend_from_slice(&directory);
    file.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    file.extend_from_slice(&[count, count].concat());
    file.extend_from_slice(&size.to_le_bytes());
    file.extend_from_slice(&start.to_le_bytes());
    file.extend_from_slice(&[0, 0]);
    file
}

fn put(client: &Client, name: &str, content: &[u8]) -> Reply {
    let path = format!("/v1/collections/default/documents/{name}?wait=true&metadata=%7B%22year%22%3A1884%7D");
    client.try_send("PUT", &path, &[("content-type", "application/octet-stream")], Some(content)).unwrap()
}

fn start() -> Gateway {
    Gateway::start_with(&[("WEIR_EXTRACT_ARCHIVES", "true")])
}

/// `id: code` of the errors of a job, in order of ids.
fn errors(job: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let shown = |error: &Value| format!("{}: {}", text(&error["document_id"]), text(&error["code"]));
    let mut errors: Vec<String> = job["errors"].as_array().unwrap().iter().map(shown).collect();
    errors.sort_unstable();
    errors
}

#[test]
fn each_file_of_an_archive_is_a_document_and_a_bad_one_fails_alone() {
    let gateway = start();
    let inner = zip(&[("deep.txt", FILE, b"a mill grinds corn")]);
    let members: [Member<'_>; 11] = [
        ("./notes/a.md", FILE, b"# Weirs\n\nA weir is a low dam."),
        ("notes/", b'5', b""),
        ("b.txt", FILE, b"a sluice is a gate"),
        ("tool.exe", FILE, b"MZ\0\x01\x02"),
        ("../outside.txt", FILE, b"outside"),
        ("/etc/absolute.txt", FILE, b"absolute"),
        ("link.txt", b'2', b""),
        (".hidden", FILE, b"hidden"),
        ("b.txt", FILE, b"the same name"),
        ("empty.txt", FILE, b" "),
        ("inner.zip", FILE, &inner),
    ];
    let reply = put(&gateway, "all.tar.gz", &tar_gz(&members));
    assert_eq!(reply.status, 202, "{}", reply.text);
    let job = reply.json();
    assert_eq!(
        errors(&job),
        [
            "all.tar.gz/../outside.txt: damaged_file",
            "all.tar.gz//etc/absolute.txt: damaged_file",
            "all.tar.gz/b.txt: damaged_file",
            "all.tar.gz/empty.txt: no_text",
            "all.tar.gz/link.txt: unsupported_format",
            "all.tar.gz/tool.exe: unsupported_format",
        ]
    );
    gateway.wait_until_searchable();
    assert_eq!(gateway.document_count(), 3, "{job}");
    let stored = gateway.document("all.tar.gz/notes/a.md").unwrap();
    assert_eq!(stored["metadata"]["file"]["parent"], "all.tar.gz", "{stored}");
    assert_eq!(
        (&stored["metadata"]["year"], &stored["metadata"]["file"]["name"]),
        (&json!(1884), &json!("a.md"))
    );
    assert_eq!(gateway.document("all.tar.gz/b.txt").unwrap()["text"], "a sluice is a gate");
    assert_eq!(gateway.document("all.tar.gz/inner.zip/deep.txt").unwrap()["text"], "a mill grinds corn");
}

#[test]
fn archives_are_bounded() {
    let gateway = start();
    let zeros = vec![b' '; 8 << 20];
    let reply =
        put(&gateway, "bomb.tgz", &tar_gz(&[("zeros.txt", FILE, &zeros), ("a.txt", FILE, b"a weir")]));
    assert_eq!(errors(&reply.json()), ["bomb.tgz/zeros.txt: file_limit"], "{}", reply.text);
    let mut level = zip(&[("a.txt", FILE, b"too deep")]);
    for _ in 0..4 {
        level = zip(&[("in.zip", FILE, &level)]);
    }
    check_error(&put(&gateway, "deep.zip", &level), "file_limit", "archives in archives");
    let mut cut = tar_gz(&[("a.txt", FILE, b"kept"), ("b.txt", FILE, &[b'x'; 600])]);
    cut.truncate(cut.len() - 12);
    let reply = put(&gateway, "cut.tgz", &cut);
    assert_eq!(reply.status, 202, "{}", reply.text);
    gateway.wait_until_searchable();
    assert_eq!(gateway.document("cut.tgz/a.txt").unwrap()["text"], "kept");
    check_error(&put(&gateway, "bad.zip", b"PK\x03\x04 no archive"), "damaged_file", "no archive");
}

#[test]
fn without_the_setting_an_archive_is_refused_with_the_remedy() {
    let gateway = Gateway::start();
    for archive in [zip(&[("a.txt", FILE, b"a")]), tar_gz(&[("a.txt", FILE, b"a")])] {
        let refused = check_error(&put(&gateway, "a.zip", &archive), "unsupported_format", "an archive");
        assert!(refused["detail"].as_str().unwrap().contains("extract.archives"), "{refused}");
    }
}
