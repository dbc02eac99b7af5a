//! Mails whose text is known: charsets, transfer encodings, structure.

use encoding_rs::Encoding;
use serde_json::json;
use weir_documents::{Extracted, Failure};

use crate::files::{docx, pages, paragraph, read, warnings};

/// A message with further header fields and a body.
pub(crate) fn message(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = "From: =?utf-8?Q?J=C3=BCrgen?= <j@example.org>\r\nTo: b@example.org, C <c@example.org>\r\nSubject: Subject of the message\r\nDate: Mon, 2 Mar 2026 10:00:00 +0100\r\nMessage-ID: <1@example.org>\r\nMIME-Version: 1.0\r\n";
    [head.as_bytes(), fields.as_bytes(), b"\r\n\r\n", body].concat()
}

fn mixed(parts: &str) -> Vec<u8> {
    message(
        "Content-Type: multipart/mixed; boundary=x",
        format!("{}--x--\r\n", parts.replace('\n', "\r\n")).as_bytes(),
    )
}

#[track_caller]
fn check(mail: &[u8], expected: &str) -> Extracted {
    let extracted = read(mail, "mail.eml").unwrap();
    assert_eq!(extracted.text, expected);
    extracted
}

fn names(extracted: &Extracted) -> Vec<&str> {
    extracted.attachments.iter().map(|attachment| attachment.name.as_str()).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let groups = bytes.chunks(3).map(|chunk| {
        let bits =
            chunk.iter().enumerate().fold(0_u32, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        (0..4)
            .map(
                |at| {
                    if at <= chunk.len() {
                        DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char
                    } else {
                        '='
                    }
                },
            )
            .collect::<String>()
    });
    groups.collect::<Vec<_>>().chunks(19).map(|line| line.concat()).collect::<Vec<_>>().join("\r\n")
}

#[test]
fn every_charset_is_read_in_both_transfer_encodings() {
    let texts = [
        ("iso-8859-1", "gr\u{f6}\u{df}er als fr\u{fc}her"),
        ("iso-8859-2", "\u{17c}\u{f3}\u{142}ta \u{142}\u{f3}d\u{17a}"),
        ("windows-1252", "\u{201c}quoted\u{201d} \u{2013} dash \u{20ac}"),
        (
            "windows-1251",
            "\u{440}\u{435}\u{43a}\u{430} \u{438} \u{43f}\u{43b}\u{43e}\u{442}\u{438}\u{43d}\u{430}",
        ),
        ("koi8-r", "\u{440}\u{435}\u{43a}\u{430} \u{438} \u{43f}\u{43b}\u{43e}\u{442}\u{438}\u{43d}\u{430}"),
        ("iso-8859-6", "\u{627}\u{644}\u{646}\u{647}\u{631}"),
        ("windows-1255", "\u{5d4}\u{5e0}\u{5d4}\u{5e8}"),
        ("iso-2022-jp", "\u{5ddd}\u{3068}\u{5830}\u{306e}\u{6c34}\u{4f4d}"),
        ("shift_jis", "\u{5ddd}\u{3068}\u{5830}\u{306e}\u{6c34}\u{4f4d}"),
        ("euc-jp", "\u{5ddd}\u{3068}\u{5830}\u{306e}\u{6c34}\u{4f4d}"),
        ("gb2312", "\u{6cb3}\u{6d41}\u{548c}\u{6c34}\u{5830}"),
        ("gb18030", "\u{6cb3}\u{6d41}\u{548c}\u{6c34}\u{5830}"),
        ("big5", "\u{6cb3}\u{6d41}\u{548c}\u{6c34}\u{5830}"),
        ("euc-kr", "\u{ac15}\u{acfc} \u{bcf4}"),
        ("utf-8", "river \u{2260} weir \u{1f30a}"),
        ("utf-16", "river \u{2260} weir"),
        ("utf-7", "river a weir"),
    ];
    for (charset, text) in texts {
        let raw = match charset {
            "utf-16" => {
                std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect()
            }
            "utf-7" => b"river +AGE- weir".to_vec(),
            label => {
                let (bytes, _, has_replaced) = Encoding::for_label(label.as_bytes()).unwrap().encode(text);
                assert!(!has_replaced, "{label}");
                bytes.into_owned()
            }
        };
        let quoted: String = raw.iter().map(|byte| format!("={byte:02X}")).collect();
        for (transfer, body) in [("base64", base64(&raw)), ("quoted-printable", quoted)] {
            let mail = message(
                &format!(
                    "Content-Type: text/plain; charset=\"{charset}\"\r\nContent-Transfer-Encoding: {transfer}"
                ),
                body.as_bytes(),
            );
            check(&mail, text);
        }
    }
}

#[test]
fn wrong_charsets_are_read_as_utf8_or_windows_1252() {
    check(
        &message("Content-Type: text/plain; charset=us-ascii", "gr\u{f6}\u{df}er".as_bytes()),
        "gr\u{f6}\u{df}er",
    );
    check(&message("Content-Type: text/plain", b"gr\xf6\xdfer"), "gr\u{f6}\u{df}er");
    check(&message("Content-Type: text/plain; charset=euc-jp", b"gr\xf6\xdfer"), "gr\u{f6}\u{df}er");
}

#[test]
fn header_fields_are_metadata() {
    let extracted = check(
        &message(
            "Cc: d@example.org\r\nIn-Reply-To: <0@example.org>\r\nContent-Type: text/plain",
            b"body\r\n",
        ),
        "body",
    );
    assert_eq!(extracted.title.as_deref(), Some("Subject of the message"));
    assert_eq!(
        json!(extracted.metadata),
        json!({
            "subject": "Subject of the message",
            "from": "J\u{fc}rgen <j@example.org>",
            "to": ["b@example.org", "C <c@example.org>"],
            "cc": "d@example.org",
            "date": "2026-03-02T10:00:00+01:00",
            "message_id": "1@example.org",
            "in_reply_to": "0@example.org",
        })
    );
    assert!(extracted.pages.is_empty());
}

#[test]
fn the_plain_part_is_the_text_and_else_the_html_part() {
    let alternative = |plain: &str| {
        let body = format!(
            "--x\r\nContent-Type: text/plain\r\n\r\n{plain}\r\n--x\r\nContent-Type: text/html\r\n\r\n<p>html <b>words</b></p>\r\n--x--\r\n"
        );
        message("Content-Type: multipart/alternative; boundary=x", body.as_bytes())
    };
    check(&alternative("plain words"), "plain words");
    check(&alternative(""), "html words");
    let html = b"<html><head><title>t</title><style>p{}</style></head><body><p>gr\xf6\xdfer</p><table><tr><td>a</td><td>b</td></tr></table></body></html>";
    check(&message("Content-Type: text/html; charset=iso-8859-1", html), "gr\u{f6}\u{df}er\n\na\tb");
    check(
        &message("Content-Type: text/plain; format=flowed", b"wrapped \r\nby the sender.\r\n\r\nnext"),
        "wrapped by the sender.\n\nnext",
    );
    check(&message("Content-Type: text/plain", b""), "Subject of the message");
}

#[test]
fn attachments_are_files_of_their_own() {
    let file = docx(&paragraph("within"), &[]);
    let parts = format!(
        "--x\nContent-Type: text/plain\n\nouter words\n--x\nContent-Type: application/octet-stream; name*=utf-8''%C3%9Cbersicht.docx\nContent-Disposition: attachment\nContent-Transfer-Encoding: base64\n\n{}\n--x\nContent-Type: text/plain\nContent-Disposition: attachment; filename=\"../../notes.txt\"\n\nnotes\n--x\nContent-Type: image/png; name=logo.png\nContent-Disposition: attachment\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo=\n--x\nContent-Type: image/png\nContent-ID: <a>\n\nlogo\n--x\nContent-Type: message/rfc822\n\nFrom: a@b.c\nSubject: inner subject\n\ninner words\n",
        base64(&file)
    );
    let extracted = check(&mixed(&parts), "outer words");
    assert_eq!(names(&extracted), ["\u{dc}bersicht.docx", ".._.._notes.txt", "inner subject.eml"]);
    assert_eq!(read(&extracted.attachments[0].bytes, "x.docx").unwrap().text, "within");
    assert_eq!(extracted.attachments[1].bytes, b"notes");
    let inner = read(&extracted.attachments[2].bytes, "inner.eml").unwrap();
    assert_eq!((inner.text.as_str(), inner.title.as_deref()), ("inner words", Some("inner subject")));
    assert_eq!(warnings(&extracted), [("attachment", 1)]);
}

#[test]
fn encrypted_messages_are_named_so() {
    let body = b"--x\r\nContent-Type: application/pgp-encrypted\r\n\r\nVersion: 1\r\n--x--\r\n";
    assert_eq!(
        read(&message("Content-Type: multipart/encrypted; boundary=x", body), "a.eml"),
        Err(Failure::Encrypted)
    );
}

#[test]
fn messages_of_a_mailbox_are_pages() {
    let first = message("Content-Type: text/plain", b"first body\r\n>From a quoted line\r\n\r\n");
    let encrypted = message("Content-Type: multipart/encrypted; boundary=x", b"--x\r\n\r\n");
    let mailbox = [
        b"From a\r\n",
        first.as_slice(),
        b"From b\n",
        encrypted.as_slice(),
        b"From c\nFrom: c@example.org\n\nno subject\n",
    ]
    .concat();
    let extracted = read(&mailbox, "all.mbox").unwrap();
    assert_eq!(
        pages(&extracted),
        [
            "# Subject of the message\n\nFrom: J\u{fc}rgen <j@example.org>\nDate: 2026-03-02T10:00:00+01:00\n\nfirst body\nFrom a quoted line\n\n",
            "# Subject of the message\n\nFrom: J\u{fc}rgen <j@example.org>\nDate: 2026-03-02T10:00:00+01:00\n\n",
            "From: c@example.org\n\nno subject"
        ]
    );
    let labels: Vec<_> = extracted.pages.iter().map(|page| page.label.as_deref()).collect();
    assert_eq!(labels, [Some("Subject of the message"), Some("Subject of the message"), None]);
    assert_eq!(warnings(&extracted), [("broken_page", 1)]);
}
