//! The format of files by content and name, and the limits that cut.

use weir_documents::{Failure, Format, Limits};

use crate::files::{
    archive, docx, epub, odf, pages, paragraph, pptx, read, read_within, shape, slide, warnings, xlsx,
};
use crate::mails::message;

#[track_caller]
fn check(bytes: &[u8], name: &str, expected: Option<Format>) {
    assert_eq!(Format::of(bytes, name), Ok(expected), "{name}");
}

/// The failure names the kind and says what to do.
#[track_caller]
fn check_refused(bytes: &[u8], name: &str, kind: &str, remedy: &str) {
    let Err(Failure::UnsupportedFormat(reason)) = Format::of(bytes, name) else {
        panic!("{name}: {:?}", Format::of(bytes, name))
    };
    assert!(reason.contains(kind) && reason.contains(remedy), "{name}: {reason}");
}

fn compound_file(stream: &str) -> Vec<u8> {
    [
        &b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0"[..],
        &stream.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
    ]
    .concat()
}

#[test]
fn the_content_decides_whatever_the_name_says() {
    check(b"%PDF-1.7\n", "x.txt", Some(Format::Pdf));
    check(b"\n\n%PDF-1.7\n", "", Some(Format::Pdf));
    check(&docx(&paragraph("x"), &[]), "x.pdf", Some(Format::Docx));
    check(&xlsx("<sheetData/>", "<sst/>"), "x", Some(Format::Xlsx));
    check(&pptx(&[slide(&shape("", "x"), "")], &[1], &[]), "x.bin", Some(Format::Pptx));
    check(&odf("text", "", "", &[]), "x.docx", Some(Format::Odt));
    check(&odf("spreadsheet", "", "", &[]), "x", Some(Format::Ods));
    check(&odf("presentation", "", "", &[]), "x", Some(Format::Odp));
    check(&odf("text-template", "", "", &[]), "x", Some(Format::Odt));
    check(&epub("<package/>", &[]), "x", Some(Format::Epub));
    check(b"{\\rtf1 x}", "x.doc", Some(Format::Rtf));
    check(&message("X: y", b"body"), "x", Some(Format::Eml));
    check(&[b"From a@b.c Mon\n", message("X: y", b"body").as_slice()].concat(), "x", Some(Format::Mbox));
}

#[test]
fn plain_text_is_no_business_of_this_crate() {
    check(b"# Heading\n\nText with %PDF- in it", "x.md", None);
    check(b"<!DOCTYPE html><p>x", "x.html", None);
    check(&message("X: y", b"an example of a mail"), "x.txt", None);
    check(b"From here on: nothing", "x", None);
    check("gr\u{f6}\u{df}er".as_bytes(), "x.bin", None);
    check(b"gr\xf6\xdfer", "", None);
    check(b"\xff\xfeh\0i\0", "x.txt", None);
    check(b"", "x.txt", None);
    // letters with which binary files begin
    check(b"MZ-80 computers, by OTTO", "x.txt", None);
    check(b"OTTO and the ID3 tags", "x", None);
    check(b"ID3 tags of songs", "x.md", None);
    check(b"Subject: a note\n\nwithout a sender", "note", None);
    check(b"Subject: a note\n\nnamed as a mail", "note.eml", Some(Format::Eml));
}

#[test]
fn kinds_that_are_not_read_are_named_with_a_remedy() {
    check_refused(&compound_file("WordDocument"), "x.doc", ".doc", ".docx");
    check_refused(&compound_file("Workbook"), "x", ".xls", ".xlsx");
    check_refused(&compound_file("PowerPoint Document"), "x", ".ppt", ".pptx");
    check_refused(&compound_file("__properties_version1.0"), "x", ".msg", ".eml");
    check_refused(&archive(&[("xl/workbook.bin", "x")]), "x.xlsb", ".xlsb", ".xlsx");
    check_refused(&archive(&[("a.txt", "x")]), "x.zip", "zip archives", "send the files");
    check_refused(b"\x89PNG\r\n\x1a\n", "x.pdf", "pictures", "OCR");
    check_refused(b"\x7fELF\x02", "x", "programs", "send documents");
    check_refused(b"MZ\x90\0\x03\0", "x.txt", "programs", "send documents");
    check_refused(b"%!PS-Adobe-3.0", "x.txt", "PostScript", "PDF");
    check_refused(b"\x1f\x8b\x08", "x.tar.gz", "archives", "unpack");
    check_refused(b"a\0b\0c\x01", "x.dat", "binary .dat files", "convert");
    check_refused(&odf("graphics", "", "", &[]), "x.odg", "graphics", "PDF");
    assert_eq!(Format::of(&compound_file("EncryptedPackage"), "x.docx"), Err(Failure::Encrypted));
    for (bytes, name) in [(&b""[..], "x.pdf"), (b"no archive", "x.docx"), (b"PK\x03\x04 cut", "x.xyz")] {
        assert!(matches!(Format::of(bytes, name), Err(Failure::DamagedFile(_))), "{name}");
    }
}

#[test]
fn limits_on_text_and_pages_cut_and_say_so() {
    let slides: Vec<String> =
        (1..=4).map(|number| slide(&shape("", &format!("slide {number} \u{e9}")), "")).collect();
    let file = pptx(&slides, &[1, 2, 3, 4], &[]);
    let cut = read_within(&file, "x.pptx", &Limits { text_bytes: 20, ..Limits::default() }).unwrap();
    assert_eq!((cut.text.as_str(), warnings(&cut)), ("slide 1 \u{e9}\n\nslide 2", vec![("text_limit", 1)]));
    let cut = read_within(&file, "x.pptx", &Limits { pages: 2, ..Limits::default() }).unwrap();
    assert_eq!(
        (pages(&cut), warnings(&cut)),
        (vec!["slide 1 \u{e9}\n\n", "slide 2 \u{e9}"], vec![("page_limit", 1)])
    );
    let rest = read_within(&file, "x.pptx", &Limits { first_page: 2, ..Limits::default() }).unwrap();
    assert_eq!(pages(&rest), ["slide 3 \u{e9}\n\n", "slide 4 \u{e9}"]);
}

#[test]
fn pages_are_read_from_any_on() {
    let body = r#"<w:p><w:r><w:t>one</w:t><w:br w:type="page"/><w:t>two</w:t><w:br w:type="page"/><w:t>three</w:t></w:r></w:p>"#;
    let rest =
        read_within(&docx(body, &[]), "x.docx", &Limits { first_page: 1, ..Limits::default() }).unwrap();
    assert_eq!(pages(&rest), ["two\n\n", "three"]);
}

#[test]
fn a_file_without_words_has_no_text() {
    assert!(matches!(read(&docx("<w:p/>", &[]), "x.docx"), Err(Failure::NoText(_))));
}
