//! The reader of the child: document files by their format, pages of HTML, and texts.

use weir_documents::{Extracted, Failure, Format, Limits, Page, Warning};

/// The formats of document files.
const FORMATS: [Format; 11] = [
    Format::Pdf,
    Format::Docx,
    Format::Pptx,
    Format::Xlsx,
    Format::Odt,
    Format::Ods,
    Format::Odp,
    Format::Epub,
    Format::Rtf,
    Format::Eml,
    Format::Mbox,
];

/// The first bytes of a PDF.
const PDF_HEAD: &[u8] = b"%PDF-";

/// Endings of names of web pages.
const HTML_ENDINGS: [&str; 3] = [".html", ".htm", ".xhtml"];

/// The end of a page in a text.
const FORM_FEED: char = '\u{c}';

/// Reads the text of the file `name`.
///
/// # Errors
/// A [`Failure`] where there is no text.
pub fn read(bytes: &[u8], name: &str, limits: &Limits) -> Result<Extracted, Failure> {
    match format_of(bytes, name) {
        Some(format) => weir_documents::extract(bytes, format, limits),
        None => read_text(bytes, name, limits.text_bytes),
    }
}

/// The format of a document file, by the first bytes of a PDF and else by the ending of the name.
fn format_of(bytes: &[u8], name: &str) -> Option<Format> {
    if bytes.starts_with(PDF_HEAD) {
        return Some(Format::Pdf);
    }
    let (_, ending) = name.rsplit_once('.')?;
    FORMATS.into_iter().find(|format| ending.eq_ignore_ascii_case(format.extension()))
}

/// A file that is text itself.
fn read_text(bytes: &[u8], name: &str, bytes_max: usize) -> Result<Extracted, Failure> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| Failure::UnsupportedFormat(unsupported(name)))?;
    let lower = name.to_lowercase();
    let mut extracted = Extracted::default();
    if HTML_ENDINGS.iter().any(|ending| lower.ends_with(ending)) {
        let page = weir_text::HtmlPage::parse(text);
        extracted.title = page.title;
        extracted.text = page.text;
    } else {
        extracted.text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
    }
    if extracted.text.trim().is_empty() {
        return Err(Failure::NoText("it is empty".to_owned()));
    }
    extracted.pages = pages(&extracted.text);
    cut(&mut extracted, bytes_max);
    Ok(extracted)
}

/// The pages of a text with form feeds, as `pdftotext` writes them: each ends behind its form feed.
fn pages(text: &str) -> Vec<Page> {
    let Some(last) = text.rfind(FORM_FEED) else { return Vec::new() };
    let feeds = text.match_indices(FORM_FEED).map(|(at, _)| at + FORM_FEED.len_utf8());
    let rest = (!text[last + 1..].trim().is_empty()).then_some(text.len());
    let mut ends: Vec<usize> = feeds.chain(rest).collect();
    // white space behind the last page belongs to it
    if let Some(end) = ends.last_mut() {
        *end = text.len();
    }
    ends.into_iter().map(|end| Page { end, label: None, approximate: false }).collect()
}

fn cut(extracted: &mut Extracted, bytes_max: usize) {
    if extracted.text.len() > bytes_max {
        extracted.text.truncate(extracted.text.floor_char_boundary(bytes_max));
        let end = extracted.text.len();
        extracted.pages.iter_mut().for_each(|page| page.end = page.end.min(end));
        extracted.warnings.push(Warning {
            code: "text_limit".to_owned(),
            message: format!("the text is cut after {bytes_max} bytes"),
            count: 1,
        });
    }
}

fn unsupported(name: &str) -> String {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending).filter(|ending| ending.len() <= 12);
    match ending {
        Some(ending) => format!("files of the kind `.{}` are not read", ending.escape_debug()),
        None => "the file is of no kind that is read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_files_are_found_by_head_and_ending() {
        assert_eq!(format_of(b"%PDF-1.7", "a.txt"), Some(Format::Pdf));
        assert_eq!(format_of(b"PK", "a.b.DOCX"), Some(Format::Docx));
        assert_eq!(format_of(b"text", "a.md"), None);
        assert_eq!(format_of(b"text", "pdf"), None);
    }

    #[test]
    fn form_feeds_end_pages() {
        let ends = |text: &str| -> Vec<usize> { pages(text).iter().map(|page| page.end).collect() };
        assert_eq!(ends("a\n\u{c}b"), [3, 4]);
        assert_eq!(ends("a\u{c}\u{c}b\u{c}\n"), [2, 3, 6]);
        assert_eq!(ends("no pages"), Vec::<usize>::new());
        let limits = Limits { text_bytes: 3, ..Limits::default() };
        let cut = read("a\u{c}b\u{c}c".as_bytes(), "a.txt", &limits).unwrap();
        let cut_ends: Vec<usize> = cut.pages.iter().map(|page| page.end).collect();
        assert_eq!((cut.text.as_str(), cut_ends, cut.warnings.len()), ("a\u{c}b", vec![2, 3, 3], 1));
    }
}
