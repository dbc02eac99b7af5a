//! Damaged copies of files: no reader panics, takes longer than 2 s, or gives ranges that don't fit.

use weir_documents::{Format, Limits, extract};

use crate::attacks::on_small_stack;
use crate::files::{
    archive_of_bytes, check_pages, docx, epub, odf, paragraph, pptx, relationships, shape, slide, xlsx,
};
use crate::mails::message;

/// A generator of numbers that is the same in every run (SplitMix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end.max(1) as u64) as usize
    }
}

/// Cuts the bytes, changes some, repeats a block, or changes signs that mean something to a parser.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    match rng.below(4) {
        0 => bytes.truncate(rng.below(bytes.len())),
        1 => {
            for _ in 0..=rng.below((bytes.len() / 200).max(2)) {
                let at = rng.below(bytes.len());
                bytes[at] = rng.below(256) as u8;
            }
        }
        2 => {
            let (at, from) = (rng.below(bytes.len()), rng.below(bytes.len()));
            let block = bytes[from..bytes.len().min(from + 1 + rng.below(4096))].to_vec();
            bytes.splice(at..at, block);
        }
        _ => {
            const SIGNS: &[u8] = b"0123456789/<>\"={}\\ -;:";
            for _ in 0..20 {
                let at = rng.below(bytes.len());
                if let Some(at) = (at..bytes.len()).find(|at| SIGNS.contains(&bytes[*at])) {
                    bytes[at] = SIGNS[rng.below(SIGNS.len())];
                }
            }
        }
    }
}

/// The files whose copies are damaged.
fn files() -> Vec<(Format, Vec<u8>)> {
    let table = format!(
        "<w:tbl><w:tr><w:tc>{0}</w:tc><w:tc><w:tcPr><w:gridSpan w:val=\"2\"/></w:tcPr>{0}</w:tc></w:tr></w:tbl>",
        paragraph("cell")
    );
    let body = format!(
        r#"<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>item &amp; &#228;</w:t><w:br w:type="page"/><w:footnoteReference w:id="1"/></w:r></w:p>{table}{}"#,
        paragraph("last")
    );
    let numbering = r#"<w:numbering><w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%1."/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num></w:numbering>"#;
    let notes =
        format!(r#"<w:footnotes><w:footnote w:id="1">{}</w:footnote></w:footnotes>"#, paragraph("note"));
    let word = docx(
        &body,
        &[
            (
                "word/_rels/document.xml.rels",
                &relationships(&[("numbering", "numbering.xml"), ("footnotes", "footnotes.xml")]),
            ),
            ("word/numbering.xml", numbering),
            ("word/footnotes.xml", &notes),
        ],
    );
    let sheet = xlsx(
        r#"<dimension ref="A1:C9"/><sheetData><row r="1"><c r="A1" t="s"><v>1</v></c><c r="C1"><v>45353.5</v></c></row><row r="9" hidden="1"><c r="B9" t="inlineStr"><is><t>x</t></is></c></row></sheetData>"#,
        "<sst><si><t>one</t></si><si><t>two</t></si></sst>",
    );
    let slides = pptx(
        &[slide(&shape(r#"<p:ph type="title"/>"#, "title"), ""), slide(&shape("", "body"), "")],
        &[2, 1],
        &[],
    );
    let styles = r#"<text:list-style style:name="L1"><text:list-level-style-number text:level="1" style:num-format="1"/></text:list-style>"#;
    let text = odf(
        "text",
        r#"<text:h text:outline-level="1">h</text:h><text:list text:style-name="L1"><text:list-item><text:p>item<text:note><text:p>n</text:p></text:note></text:p></text:list-item></text:list>"#,
        styles,
        &[],
    );
    let cells = odf(
        "spreadsheet",
        r#"<table:table table:name="T"><table:table-row table:number-rows-repeated="3"><table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell></table:table-row></table:table>"#,
        "",
        &[],
    );
    let book = epub(
        r#"<package><manifest><item id="a" href="a.xhtml"/></manifest><spine><itemref idref="a"/></spine></package>"#,
        &[("o/a.xhtml", "<html><body><h1>x</h1><p>y<br/></p></body></html>")],
    );
    let rtf = br"{\rtf1\ansi{\fonttbl{\f1\fcharset204 A;}}{\stylesheet{\s1 heading 1;}}\s1 head\par{\f1 \'f0\'e5} \u8364? {\listtext 1.\tab}item\par\trowd\intbl a\cell b\cell\row\pard{\footnote note}\page\u-10179?\u-8942?end}".to_vec();
    let mail = message("Content-Type: multipart/mixed; boundary=x", b"--x\r\nContent-Type: text/html; charset=koi8-r\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p>=D2=C5\r\n--x\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\nner\r\n--x\r\nContent-Disposition: attachment; filename=a.txt\r\nContent-Transfer-Encoding: base64\r\n\r\nSGVsbG8=\r\n--x--\r\n");
    let mailbox = [b"From a\n", mail.as_slice(), b"\n\nFrom b\n", mail.as_slice()].concat();
    vec![
        (Format::Docx, word),
        (Format::Xlsx, sheet),
        (Format::Pptx, slides),
        (Format::Odt, text),
        (Format::Ods, cells),
        (Format::Epub, book),
        (Format::Rtf, rtf),
        (Format::Eml, mail),
        (Format::Mbox, mailbox),
    ]
}

/// The parts of an archive; `None` for another file.
fn parts(bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).ok()?;
    let mut parts = Vec::new();
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at).ok()?;
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).ok()?;
        parts.push((entry.name().ok()?.into_owned(), content));
    }
    Some(parts)
}

/// A damaged copy. Of most archives a part is damaged before it is packed: a checksum guards what is packed.
fn damaged(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    if rng.below(4) > 0
        && let Some(mut parts) = parts(bytes)
    {
        let at = rng.below(parts.len());
        damage(&mut parts[at].1, rng);
        let parts: Vec<_> = parts.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
        return archive_of_bytes(&parts);
    }
    let mut copy = bytes.to_vec();
    damage(&mut copy, rng);
    copy
}

fn check(copies: usize) {
    let milliseconds = on_small_stack(move || {
        let files = files();
        let limits = Limits::default();
        let mut read = 0;
        for number in 0..copies {
            let (format, bytes) = &files[number % files.len()];
            let mut rng = Rng(number as u64);
            let copy = damaged(bytes, &mut rng);
            drop(Format::of(&copy, &format!("copy-{number}.{format}")));
            if let Ok(extracted) = extract(&copy, *format, &limits) {
                check_pages(&extracted, &limits);
                read += 1;
            }
        }
        assert!(
            read * 4 > copies,
            "only {read} of {copies} copies were read: the damage is too coarse to test readers"
        );
    });
    let milliseconds_max = 2_000 + 10 * copies as u64;
    assert!(milliseconds < milliseconds_max, "{copies} copies took {milliseconds} ms of CPU");
}

#[test]
fn damaged_files_are_read_or_refused() {
    check(600);
}

#[test]
#[ignore = "`make mutations`: about a minute"]
fn ten_thousand_damaged_files_are_read_or_refused() {
    check(10_000);
}
