//! Books: a page for each chapter, with its file as label.

use std::collections::{HashMap, HashSet};

use weir_text::HtmlPage;

use crate::budget::Budget;
use crate::output::{Block, Output};
use crate::package::{Package, resolve};
use crate::xml::{Event, Xml};
use crate::{Extracted, Failure, Limits};

/// Entries of the list of files of a book.
const ITEMS_MAX: usize = 20_000;
/// Bytes of a chapter: a tree of HTML takes many times its size.
const CHAPTER_BYTES_MAX: usize = 16 << 20;
/// Bytes of a property of a book.
const PROPERTY_BYTES_MAX: usize = 4096;
/// Algorithms that disguise fonts; the text of such a book is not encrypted.
const FONT_ALGORITHMS: [&str; 2] = ["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"];
/// Elements of HTML that have no end tag.
const VOID_ELEMENTS: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];

/// Extracts the text of a book.
pub(crate) fn extract(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let budget = Budget::new(limits);
    let mut package = Package::open(bytes, &budget)?;
    if is_encrypted(&mut package, &budget)? {
        return Err(Failure::Encrypted);
    }
    let mut output = Output::new(limits);
    let container = package.required("META-INF/container.xml")?;
    let root = root_file(&container, &budget)?
        .ok_or_else(|| Failure::DamagedFile("it names no root file".to_owned()))?;
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let book = package.required(&root)?;
    for chapter in read_book(&book, &budget, &mut output)? {
        let is_wanted = output.wants_next_page();
        output.start_page(Some(chapter.clone()), false);
        if output.is_full() {
            break;
        }
        if !is_wanted {
            continue;
        }
        match package.text(&resolve(folder, &chapter)) {
            Ok(Some(text)) if text.len() <= CHAPTER_BYTES_MAX => {
                let page = HtmlPage::parse(&with_end_tags(&text));
                output.start_block(Block::Paragraph);
                output.push_lines(&page.text);
                output.end_block();
            }
            Ok(_) | Err(Failure::DamagedFile(_)) => output.warn_broken_page(),
            Err(failure) => return Err(failure),
        }
    }
    output.finish()
}

/// Whether parts other than fonts are encrypted, as by a shop.
fn is_encrypted(package: &mut Package<'_>, budget: &Budget<'_>) -> Result<bool, Failure> {
    let Some(text) = package.text("META-INF/encryption.xml")? else { return Ok(false) };
    let mut xml = Xml::new(&text, budget);
    while let Some(event) = xml.next()? {
        if let Event::Open(tag) = event
            && tag.name() == "EncryptionMethod"
            && !tag.attr("Algorithm").is_some_and(|algorithm| FONT_ALGORITHMS.contains(&&*algorithm))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The part that describes the book.
fn root_file(container: &str, budget: &Budget<'_>) -> Result<Option<String>, Failure> {
    let mut xml = Xml::new(container, budget);
    while let Some(event) = xml.next()? {
        if let Event::Open(tag) = event
            && tag.name() == "rootfile"
            && let Some(path) = tag.attr("full-path")
        {
            return Ok(Some(resolve("", &path)));
        }
    }
    Ok(None)
}

/// Reads the title, the authors and the dates of a book. Returns its chapters in order of reading, each once.
fn read_book(text: &str, budget: &Budget<'_>, output: &mut Output<'_>) -> Result<Vec<String>, Failure> {
    let mut items: HashMap<String, String> = HashMap::new();
    let (mut spine, mut authors) = (Vec::new(), Vec::new());
    let mut xml = Xml::new(text, budget);
    while let Some(event) = xml.next()? {
        let Event::Open(tag) = event else { continue };
        match tag.full_name() {
            "dc:title" => output.set_title(&xml.text(PROPERTY_BYTES_MAX)?),
            "dc:creator" if authors.len() < 100 => authors.push(xml.text(PROPERTY_BYTES_MAX)?),
            "dc:date" => output.add_metadata("created", &xml.text(PROPERTY_BYTES_MAX)?),
            "meta" | "opf:meta"
                if tag.attr("property").is_some_and(|property| property == "dcterms:modified") =>
            {
                output.add_metadata("modified", &xml.text(PROPERTY_BYTES_MAX)?);
            }
            _ => match tag.name() {
                "item" if items.len() < ITEMS_MAX => {
                    if let (Some(id), Some(href)) = (tag.attr("id"), tag.attr("href")) {
                        items.insert(id.into_owned(), href.into_owned());
                    }
                }
                "itemref" if spine.len() < ITEMS_MAX => {
                    spine.extend(tag.attr("idref").map(std::borrow::Cow::into_owned))
                }
                _ => {}
            },
        }
    }
    output.add_list("author", &authors);
    let mut seen = HashSet::new();
    let chapters = spine
        .iter()
        .filter_map(|id| items.get(id))
        .map(|href| unescape(href.split('#').next().unwrap_or_default()));
    Ok(chapters.filter(|chapter| seen.insert(chapter.clone())).collect())
}

/// Replaces `%41` by its byte.
fn unescape(href: &str) -> String {
    let mut bytes = Vec::with_capacity(href.len());
    let mut rest = href.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes `<title/>` as `<title></title>`: in HTML, the first begins an element that has no end, and with it the text is gone.
fn with_end_tags(page: &str) -> String {
    let mut whole = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(at) = rest.find("/>") {
        let (before, after) = rest.split_at(at);
        let name = before.rfind('<').map_or("", |start| &before[start + 1..]);
        let name = name.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
        whole.push_str(before);
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-'));
        if is_name && !VOID_ELEMENTS.contains(&name.to_ascii_lowercase().as_str()) {
            whole.push_str("></");
            whole.push_str(name);
            whole.push('>');
        } else {
            whole.push_str("/>");
        }
        rest = &after[2..];
    }
    whole.push_str(rest);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_elements_get_an_end_tag_unless_html_has_none() {
        assert_eq!(
            with_end_tags("<title/><p>a<br/>b <a id='x' />c</p>"),
            "<title></title><p>a<br/>b <a id='x' ></a>c</p>"
        );
        assert_eq!(with_end_tags("a /> b <!-- x/> -->"), "a /> b <!-- x/> -->");
    }

    #[test]
    fn names_of_chapters_are_unescaped() {
        assert_eq!(unescape("a%20b%C3%A9%zz%"), "a b\u{e9}%zz%");
    }
}
