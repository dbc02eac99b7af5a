//! Writes the files that the tests read: archives of office programs, with one part for each piece of text.

use std::io::{Cursor, Write};

use weir_documents::{Extracted, Failure, Format, Limits, extract};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The name spaces of WordprocessingML.
pub(crate) const W: &str = r#"xmlns:w="w" xmlns:r="r" xmlns:mc="mc" xmlns:wps="wps" xmlns:v="v""#;
const RELATIONSHIP: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

/// An archive of the parts. `mimetype` isn't compressed.
pub(crate) fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let parts: Vec<_> = parts.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    archive_of_bytes(&parts)
}

/// An archive of parts that need not be text.
pub(crate) fn archive_of_bytes(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in parts {
        let method =
            if *name == "mimetype" { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A part of relationships: kinds and targets, with the ids `rId1`, `rId2` and so on.
pub(crate) fn relationships(targets: &[(&str, &str)]) -> String {
    let list = targets.iter().enumerate().map(|(at, (kind, target))| {
        format!(r#"<Relationship Id="rId{}" Type="{RELATIONSHIP}/{kind}" Target="{target}"/>"#, at + 1)
    });
    format!("<Relationships>{}</Relationships>", list.collect::<String>())
}

/// A Word document with the body and other parts.
pub(crate) fn docx(body: &str, parts: &[(&str, &str)]) -> Vec<u8> {
    let root = relationships(&[("officeDocument", "word/document.xml")]);
    let main = format!("<w:document {W}><w:body>{body}</w:body></w:document>");
    let mut all = vec![("_rels/.rels", root.as_str()), ("word/document.xml", main.as_str())];
    all.extend_from_slice(parts);
    archive(&all)
}

/// A paragraph of Word.
pub(crate) fn paragraph(text: &str) -> String {
    format!(r#"<w:p><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>"#)
}

/// A workbook with one sheet.
pub(crate) fn xlsx(sheet: &str, shared: &str) -> Vec<u8> {
    let root = relationships(&[("officeDocument", "xl/workbook.xml")]);
    let of_workbook =
        relationships(&[("worksheet", "worksheets/sheet1.xml"), ("sharedStrings", "sharedStrings.xml")]);
    let sheet = format!("<worksheet>{sheet}</worksheet>");
    archive(&[
        ("_rels/.rels", &root),
        (
            "xl/workbook.xml",
            r#"<workbook xmlns:r="r"><sheets><sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets></workbook>"#,
        ),
        ("xl/_rels/workbook.xml.rels", &of_workbook),
        ("xl/worksheets/sheet1.xml", &sheet),
        ("xl/sharedStrings.xml", shared),
    ])
}

/// A presentation with the slides; `order` are the numbers of slides from 1.
pub(crate) fn pptx(slides: &[String], order: &[usize], parts: &[(&str, &str)]) -> Vec<u8> {
    let root = relationships(&[("officeDocument", "ppt/presentation.xml")]);
    let names: Vec<String> = (1..=slides.len()).map(|number| format!("slides/slide{number}.xml")).collect();
    let targets: Vec<_> = names.iter().map(|name| ("slide", name.as_str())).collect();
    let of_main = relationships(&targets);
    let list: String =
        order.iter().map(|number| format!(r#"<p:sldId id="256" r:id="rId{number}"/>"#)).collect();
    let main = format!("<p:presentation><p:sldIdLst>{list}</p:sldIdLst></p:presentation>");
    let names: Vec<String> = names.iter().map(|name| format!("ppt/{name}")).collect();
    let mut all = vec![
        ("_rels/.rels", root.as_str()),
        ("ppt/presentation.xml", main.as_str()),
        ("ppt/_rels/presentation.xml.rels", of_main.as_str()),
    ];
    all.extend(names.iter().zip(slides).map(|(name, slide)| (name.as_str(), slide.as_str())));
    all.extend_from_slice(parts);
    archive(&all)
}

/// A slide with the shapes and more attributes.
pub(crate) fn slide(shapes: &str, attributes: &str) -> String {
    format!("<p:sld{attributes}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>")
}

/// A shape of a slide: its placeholder, or nothing, and its text.
pub(crate) fn shape(placeholder: &str, text: &str) -> String {
    format!(
        "<p:sp><p:nvSpPr><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )
}

/// An OpenDocument file: its kind (`text`), the body, the automatic styles, more parts.
pub(crate) fn odf(kind: &str, body: &str, styles: &str, parts: &[(&str, &str)]) -> Vec<u8> {
    let media_type = format!("application/vnd.oasis.opendocument.{kind}");
    let content = format!(
        "<office:document-content><office:automatic-styles>{styles}</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    );
    let mut all = vec![("mimetype", media_type.as_str()), ("content.xml", content.as_str())];
    all.extend_from_slice(parts);
    archive(&all)
}

/// A book: the description and more parts, with `o/c.opf` as its root file.
pub(crate) fn epub(description: &str, parts: &[(&str, &str)]) -> Vec<u8> {
    let container = r#"<container><rootfiles><rootfile full-path="o/c.opf"/></rootfiles></container>"#;
    let mut all = vec![
        ("mimetype", "application/epub+zip"),
        ("META-INF/container.xml", container),
        ("o/c.opf", description),
    ];
    all.extend_from_slice(parts);
    archive(&all)
}

/// The format of the content, and what the reader makes of the file.
pub(crate) fn read(bytes: &[u8], name: &str) -> Result<Extracted, Failure> {
    read_within(bytes, name, &Limits::default())
}

/// The same with other limits. The ranges of the pages are checked.
pub(crate) fn read_within(bytes: &[u8], name: &str, limits: &Limits) -> Result<Extracted, Failure> {
    let Some(format) = Format::of(bytes, name)? else { panic!("{name}: no format") };
    let extracted = extract(bytes, format, limits)?;
    check_pages(&extracted, limits);
    Ok(extracted)
}

/// Pages tile the text; the text is within the limit.
pub(crate) fn check_pages(extracted: &Extracted, limits: &Limits) {
    assert!(extracted.text.len() <= limits.text_bytes, "{} bytes of text", extracted.text.len());
    assert!(extracted.pages.len() <= limits.pages, "{} pages", extracted.pages.len());
    let mut start = 0;
    for page in &extracted.pages {
        assert!(page.end >= start && extracted.text.is_char_boundary(page.end), "{:?}", extracted.pages);
        start = page.end;
    }
    assert!(
        extracted.pages.is_empty() || start == extracted.text.len(),
        "the pages end at {start} of {}",
        extracted.text.len()
    );
    assert_ne!(extracted.title.as_deref(), Some(""));
}

/// The text of each page.
pub(crate) fn pages(extracted: &Extracted) -> Vec<&str> {
    let mut start = 0;
    let ranges = extracted.pages.iter().map(|page| std::mem::replace(&mut start, page.end)..page.end);
    ranges.map(|range| &extracted.text[range]).collect()
}

/// The codes of the warnings, with their counts.
pub(crate) fn warnings(extracted: &Extracted) -> Vec<(&str, u64)> {
    extracted.warnings.iter().map(|warning| (warning.code.as_str(), warning.count)).collect()
}

/// Checks the settings of hidden text and comments: `hidden` is how often the marker of hidden text is in the file.
pub(crate) fn check_settings(bytes: &[u8], name: &str, hidden: usize) {
    let limits = Limits { hidden_text: true, comments: false, ..Limits::default() };
    let extracted = read_within(bytes, name, &limits).unwrap();
    assert_eq!(extracted.text.matches("Mhidden").count(), hidden, "{}", extracted.text);
    assert!(!extracted.text.contains("[comment"), "{}", extracted.text);
    assert!(extracted.warnings.iter().all(|warning| warning.code != "hidden_text"));
}
