//! The reader of the child: document files by their format, pages of HTML, and texts.

use weir_documents::{Archive, Extracted, Failure, Format, Limits, Page, Warning};

/// Endings of names of web pages.
const HTML_ENDINGS: [&str; 3] = [".html", ".htm", ".xhtml"];

/// The end of a page in a text.
const FORM_FEED: char = '\u{c}';

/// Reads the text of the file `name`.
///
/// # Errors
/// A [`Failure`] where there is no text.
pub fn read(bytes: &[u8], name: &str, limits: &Limits) -> Result<Extracted, Failure> {
    if limits.archives
        && let Some(archive) = Archive::of(bytes, name)
    {
        return weir_documents::unpack(bytes, archive, limits);
    }
    let Some(format) = Format::of(bytes, name)? else { return read_text(bytes, name, limits.text_bytes) };
    weir_documents::extract(bytes, format, limits)
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
    fn a_file_is_read_by_its_content() {
        let text = |bytes: &[u8], name: &str| read(bytes, name, &Limits::default()).map(|read| read.text);
        let mail = b"From: a@b.c\r\nSubject: s\r\nMIME-Version: 1.0\r\n\r\nhello\r\n";
        assert!(text(mail, "a.eml").unwrap().contains("hello"));
        assert!(text(br"{\rtf1 hello}", "a.txt").unwrap().contains("hello"));
        assert!(matches!(text(b"%PDF-1.7", "a.txt"), Err(Failure::DamagedFile(_))));
        assert!(matches!(text(b"\x7fELF\x02\x01\x01\0\0", "a.md"), Err(Failure::UnsupportedFormat(_))));
        assert_eq!(text(b"plain", "pdf").unwrap(), "plain");
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
