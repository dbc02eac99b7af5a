//! The reader of the child: document files by their format, pages of HTML, and texts.

use weir_documents::{Extracted, Failure, Limits, Warning};

/// Endings of names of web pages.
const HTML_ENDINGS: [&str; 3] = [".html", ".htm", ".xhtml"];

/// Reads the text of the file `name`.
///
/// # Errors
/// A [`Failure`] where there is no text.
pub fn read(bytes: &[u8], name: &str, limits: &Limits) -> Result<Extracted, Failure> {
    read_text(bytes, name, limits.text_bytes)
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
    cut(&mut extracted, bytes_max);
    Ok(extracted)
}

fn cut(extracted: &mut Extracted, bytes_max: usize) {
    if extracted.text.len() > bytes_max {
        extracted.text.truncate(extracted.text.floor_char_boundary(bytes_max));
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
