//! How sources are shown: what of each a reader is given, the list in Markdown at the end of an answer, and the items of Open WebUI.

use serde_json::{Map, Value, json};
use weir_api::ChatSource;

use crate::augment::Source;
use crate::citations::Reference;

/// Longest title and heading, in characters.
const TITLE_CHARS_MAX: usize = 120;
/// Longest URL that is shown.
const URL_BYTES_MAX: usize = 1_000;
/// Most bytes of a list, give or take its last entry.
const LIST_BYTES_MAX: usize = 8 * 1024;
/// Heading of the list. A client may not keep the white space before it.
const HEADING: &str = "**Sources**\n\n";

/// A source as readers are shown it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    pub(crate) n: usize,
    pub(crate) document_id: String,
    /// Its title, or the document's id.
    pub(crate) title: String,
    /// An address with the scheme `http` or `https`.
    pub(crate) url: Option<String>,
    page: Option<String>,
    heading: Option<String>,
    start: u64,
    end: u64,
}

impl Shown {
    /// `clean`: what guardrails leave of a text. A URL of which they leave less is not shown.
    pub(crate) fn of(n: usize, source: &Source, clean: &mut dyn FnMut(&str) -> String) -> Shown {
        let origin = &source.origin;
        let title = origin.title.as_deref().map(one_line).filter(|title| !title.is_empty());
        let document_id = clean(&source.document_id);
        // what is cut is cut behind the guardrails, which find no part of a word
        let mut cleaned = |text: &str| shortened(one_line(&clean(&one_line(text))));
        Shown {
            n,
            document_id,
            title: cleaned(&title.unwrap_or_else(|| source.document_id.clone())),
            page: origin.page.as_deref().map(&mut cleaned),
            heading: origin.heading.as_deref().map(&mut cleaned),
            url: origin.url.as_deref().and_then(web_address).filter(|url| clean(url) == *url),
            start: source.start,
            end: source.start + source.text.len() as u64,
        }
    }

    fn place(&self) -> String {
        format!("bytes {}–{}", self.start, self.end)
    }
}

/// The list of the sources that `references` name, by their numbers; empty if they name none.
pub(crate) fn markdown(references: &[Reference], shown: &[Shown]) -> String {
    let mut list = String::new();
    for (index, source) in shown.iter().enumerate() {
        let mut named = references.iter().filter(|one| one.citation.n == source.n).peekable();
        if named.peek().is_none() {
            continue;
        }
        if list.len() > LIST_BYTES_MAX {
            let left = &shown[index..];
            let is_named = |source: &&Shown| references.iter().any(|one| one.citation.n == source.n);
            let count = left.iter().filter(is_named).count();
            list.push_str(&format!("- … and {count} more\n"));
            break;
        }
        let is_verified = named.any(|one| one.citation.verified);
        list.push_str(&entry(source, is_verified));
    }
    if list.is_empty() { list } else { format!("\n\n{HEADING}{}", list.trim_end()) }
}

fn entry(source: &Shown, is_verified: bool) -> String {
    let title = escaped(&source.title);
    let mut entry = match &source.url {
        Some(url) => format!("- [{}] [{title}]({url})", source.n),
        None => format!("- [{}] {title}", source.n),
    };
    if let Some(page) = &source.page {
        entry.push_str(&format!(", page {}", escaped(page)));
    }
    if let Some(heading) = &source.heading {
        entry.push_str(&format!(", {}", escaped(heading)));
    }
    entry.push_str(&format!(", {}", source.place()));
    if !is_verified {
        entry.push_str(" (quotation not found there)");
    }
    entry.push('\n');
    entry
}

/// The text before a list of sources at its end, or all of it.
pub(crate) fn without_list(text: &str) -> &str {
    let Some(at) = text.rfind(HEADING.trim_end()) else { return text };
    let before = &text[..at];
    let is_entry = |line: &str| {
        let number = line.strip_prefix("- [").and_then(|rest| rest.split_once("] "));
        number.is_some_and(|(n, _)| n.parse::<u16>().is_ok()) || line.starts_with("- … and ")
    };
    let mut lines = text[at..].lines().skip(1).map(str::trim).filter(|line| !line.is_empty()).peekable();
    let is_list =
        (before.is_empty() || before.ends_with('\n')) && lines.peek().is_some() && lines.all(is_entry);
    if is_list { before.trim_end() } else { text }
}

/// A source as the component `Citations` of Open WebUI reads it, in the fields `source`, `document`, `metadata` and `distances`.
///
/// Open WebUI numbers sources by their different `metadata.source`, and takes an address there for the name: it is the document with its bytes, so
/// that `[2]` leads to the second source.
pub(crate) fn open_webui(source: &Shown, text: String, relevance: Option<f32>) -> Map<String, Value> {
    let id = format!("{} of {}", source.place(), source.document_id);
    let mut metadata = json!({"source": id, "name": source.title});
    let mut origin = json!({"id": id, "name": source.title});
    if let Some(url) = &source.url {
        metadata["source_url"] = url.as_str().into();
        origin["url"] = url.as_str().into();
    }
    // counted from 0, and shown from 1
    if let Some(page) = source.page.as_deref().and_then(|page| page.parse::<u32>().ok()?.checked_sub(1)) {
        metadata["page"] = page.into();
    }
    let distances: Vec<f32> = relevance.into_iter().collect();
    Map::from_iter([
        ("source".to_owned(), origin),
        ("document".to_owned(), json!([text])),
        ("metadata".to_owned(), json!([metadata])),
        ("distances".to_owned(), json!(distances)),
    ])
}

/// The field `sources` of a reply.
pub(crate) fn fields(sources: &[Source]) -> Vec<Value> {
    let fields = |(n, source): (usize, &Source)| {
        json!(ChatSource {
            n,
            document_id: source.document_id.clone(),
            start: source.start,
            end: source.start + source.text.len() as u64,
            pages: source.pages.clone(),
            relevance: source.relevance,
            flagged: source.flagged,
        })
    };
    (1..).zip(sources).map(fields).collect()
}

/// A text in one line, without control characters and those that change the direction of writing.
fn one_line(text: &str) -> String {
    let is_direction =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").replace(is_direction, "")
}

/// A line that is cut to [`TITLE_CHARS_MAX`].
fn shortened(line: String) -> String {
    match line.char_indices().nth(TITLE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A text in which Markdown and HTML find no mark, and no address that they would make a link of.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '~' | ':' | '@' | '$' | '^'
            | '=' | '!' => {
                out.extend(['\\', c]);
            }
            '.' if out.len() >= 3 && out.as_bytes()[out.len() - 3..].eq_ignore_ascii_case(b"www") => {
                out.push_str("\\.");
            }
            c => out.push(c),
        }
    }
    out
}

/// An address of the web, with what could end a link in Markdown or HTML percent-encoded; `None` for another scheme.
fn web_address(url: &str) -> Option<String> {
    let url = url.trim();
    let is_web =
        |scheme: &&str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let scheme = ["http://", "https://"].into_iter().find(is_web)?;
    if url.len() > URL_BYTES_MAX || url.len() == scheme.len() {
        return None;
    }
    let mut out = String::with_capacity(url.len());
    for c in url.chars() {
        let is_plain = c.is_ascii_alphanumeric() || "-._~:/?#@!$&'+,=%*".contains(c);
        if is_plain {
            out.push(c);
        } else {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::Origin;
    use crate::citations::references;

    fn source(document_id: &str, origin: Origin) -> Source {
        let text = "A weir is a low dam.".to_owned();
        let (header, relevance) = (String::new(), Some(0.5));
        Source {
            document_id: document_id.to_owned(),
            start: 7,
            text,
            pages: weir_api::CitedPages::default(),
            header,
            relevance,
            flagged: false,
            origin,
        }
    }

    fn titled(title: &str, url: &str) -> Source {
        let origin = Origin { title: Some(title.to_owned()), url: Some(url.to_owned()), ..Origin::default() };
        source("weirs.md", origin)
    }

    fn list(answer: &str, sources: &[Source]) -> String {
        let shown: Vec<Shown> =
            (1..).zip(sources).map(|(n, source)| Shown::of(n, source, &mut str::to_owned)).collect();
        markdown(&references(answer, sources), &shown)
    }

    #[test]
    fn the_sources_that_were_cited_are_listed_by_their_numbers() {
        let page = Origin {
            title: Some("Dams".to_owned()),
            url: Some("https://example.com/a b?x=1&y=2".to_owned()),
            page: Some("3".to_owned()),
            heading: Some("Low ones".to_owned()),
        };
        let sources =
            [source("a.md", Origin::default()), source("b.md", Origin::default()), source("c.md", page)];
        let expected = "\n\n**Sources**\n\n- [1] a.md, bytes 7–27 (quotation not found there)\n\
            - [3] [Dams](https://example.com/a%20b?x=1&y=2), page 3, Low ones, bytes 7–27";
        assert_eq!(list("\"a high dam\" [1], \"a low dam\" [3] [9].", &sources), expected);
        assert_eq!(list("None is cited [9].", &sources), "");
    }

    #[test]
    fn a_title_or_an_address_injects_no_markdown_and_no_html() {
        let check = |title: &str, url: &str, expected: &str| {
            let list = list("[1]", &[titled(title, url)]);
            assert_eq!(
                list.trim_start_matches("\n\n**Sources**\n\n- [1] "),
                format!("{expected}, bytes 7–27")
            );
        };
        check("a](http://evil) ![x](y)", "", "a\\](http\\://evil) \\!\\[x\\](y)");
        check("a\n\n# b\n- [2] c", "", "a \\# b - \\[2\\] c");
        check("<script>&lt;", "", "&lt;script&gt;&amp;lt;");
        check("`*_~www.evil.com a@b.c\u{202e}", "", "\\`\\*\\_\\~www\\.evil.com a\\@b.c");
        check("a", "javascript:alert(1)", "a");
        check("a", "https://x/) [b](http://evil", "[a](https://x/%29%20%5Bb%5D%28http://evil)");
        check("a", "https://x/\"><script>&copy;", "[a](https://x/%22%3E%3Cscript%3E&copy%3B)");
        check("a", &format!("https://{}", "x".repeat(1_000)), "a");
        check(&"é".repeat(200), "", &format!("{}…", "é".repeat(120)));
    }

    #[test]
    fn what_guardrails_redact_is_not_in_the_list() {
        let mut clean = |text: &str| text.replace("secret", "[WORD_1]");
        let source = titled("A secret dam", "https://x/secret");
        let shown = Shown::of(1, &Source { document_id: "secret.md".to_owned(), ..source }, &mut clean);
        assert_eq!((shown.title.as_str(), shown.url), ("A [WORD_1] dam", None));
        assert_eq!(shown.document_id, "[WORD_1].md");
    }

    #[test]
    fn a_list_has_a_bound() {
        let sources = vec![titled(&"*".repeat(200), &format!("https://x/{}", "y".repeat(900))); 60];
        let answer: String = (1..=60).map(|n| format!("[{n}]")).collect();
        let list = list(&answer, &sources);
        assert!(list.len() < LIST_BYTES_MAX + 2_000 && list.ends_with(" more"), "{}", list.len());
        assert_eq!(without_list(&format!("a{list}")), "a");
    }

    #[test]
    fn only_a_list_at_the_end_is_removed() {
        let list = list("[1]", &[titled("a", "https://x/")]);
        for (text, expected) in [
            (format!("A dam [1].{list}"), "A dam [1]."),
            (format!("A dam [1].{list}\n"), "A dam [1]."),
            (list.clone(), ""),
            (list.trim().to_owned(), ""),
            (format!("a\n{}", list.replace('\n', "\r\n")), "a"),
        ] {
            assert_eq!(without_list(&text), expected, "{text:?}");
        }
        for text in ["a\n\n**Sources**\n\nare where rivers begin", "**Sources**", "a **Sources**\n\n- [1] b"]
        {
            assert_eq!(without_list(text), text);
        }
        let more = format!("a{list}\n\nMore text.");
        assert_eq!(without_list(&more), more);
    }

    #[test]
    fn open_webui_gets_one_item_for_each_source() {
        let origin = Origin { page: Some("3".to_owned()), ..titled("Dams", "https://x/").origin };
        let source = source("b.md", origin);
        let item = open_webui(&Shown::of(1, &source, &mut str::to_owned), "A text.".to_owned(), Some(0.5));
        let expected = json!({
            "source": {"id": "bytes 7–27 of b.md", "name": "Dams", "url": "https://x/"},
            "document": ["A text."],
            "metadata": [{"source": "bytes 7–27 of b.md", "name": "Dams", "source_url": "https://x/", "page": 2}],
            "distances": [0.5],
        });
        assert_eq!(Value::Object(item), expected);
    }
}
