//! The text of an HTML page: headings, paragraphs and list items as blocks, no scripts.

use scraper::{Html, Node};

/// The title and text of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// `<title>`, or else the first `<h1>`.
    pub(super) title: Option<String>,
    /// The text, with blank lines between blocks.
    pub(super) text: String,
}

/// Elements whose content is not text for a reader.
const SKIPPED: [&str; 9] =
    ["script", "style", "noscript", "template", "head", "svg", "iframe", "object", "canvas"];

/// Parses a page. Any text is accepted, as in browsers.
pub(super) fn parse(source: &str) -> Page {
    let html = Html::parse_document(source);
    let mut writer = Writer::default();
    let mut title = Capture::default();
    let mut heading = Capture::default();
    let mut preformatted = 0_usize;
    let mut node = html.tree.root();
    loop {
        let name = node.value().as_element().map_or("", |element| element.name());
        let is_entered = !SKIPPED.contains(&name) || name == "head";
        if name == "pre" {
            preformatted += 1;
        }
        writer.boundary(name);
        title.enter(name == "title");
        heading.enter(name == "h1");
        if let Node::Text(text) = node.value() {
            title.push(text);
            heading.push(text);
            if !title.is_inside() {
                writer.push(text, preformatted > 0);
            }
        }
        if let Some(child) = node.first_child().filter(|_| is_entered) {
            node = child;
            continue;
        }
        // closes elements up to the first one that has a next sibling
        loop {
            let name = node.value().as_element().map_or("", |element| element.name());
            if name == "pre" {
                preformatted -= 1;
            }
            writer.boundary(name);
            title.leave(name == "title");
            heading.leave(name == "h1");
            if let Some(next) = node.next_sibling() {
                node = next;
                break;
            }
            match node.parent() {
                Some(parent) => node = parent,
                None => return Page { title: title.found().or(heading.found()), text: writer.text },
            }
        }
    }
}

/// Collects the text of the first non-empty element of a kind.
#[derive(Default)]
struct Capture {
    depth: usize,
    is_done: bool,
    text: String,
}

impl Capture {
    fn enter(&mut self, is_of_kind: bool) {
        self.depth += usize::from(is_of_kind);
    }

    fn leave(&mut self, is_of_kind: bool) {
        if is_of_kind {
            self.depth -= 1;
            self.is_done |= !self.text.trim().is_empty();
        }
    }

    fn is_inside(&self) -> bool {
        self.depth > 0
    }

    fn push(&mut self, text: &str) {
        if self.is_inside() && !self.is_done {
            self.text.push_str(text);
        }
    }

    fn found(&self) -> Option<String> {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

/// The separator before the next text. Of several, the greatest is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Block,
}

impl Gap {
    /// The separator before and after an element called `name`.
    fn around(name: &str) -> Gap {
        match name {
            "address" | "article" | "aside" | "blockquote" | "body" | "dd" | "details" | "div" | "dl"
            | "dt" | "fieldset" | "figcaption" | "figure" | "footer" | "form" | "h1" | "h2" | "h3" | "h4"
            | "h5" | "h6" | "header" | "hr" | "main" | "nav" | "ol" | "p" | "pre" | "section" | "table"
            | "ul" => Gap::Block,
            "br" | "li" | "tr" | "summary" => Gap::Line,
            "td" | "th" => Gap::Space,
            _ => Gap::None,
        }
    }
}

#[derive(Default)]
struct Writer {
    text: String,
    gap: Gap,
}

impl Writer {
    /// Marks the begin or end of an element called `name`.
    fn boundary(&mut self, name: &str) {
        self.gap = self.gap.max(Gap::around(name));
    }

    fn push(&mut self, text: &str, is_preformatted: bool) {
        if is_preformatted {
            if !text.trim().is_empty() {
                self.fill_gap();
                self.text.push_str(text.trim_end());
                self.gap = if text.ends_with('\n') { Gap::Line } else { Gap::None };
            }
            return;
        }
        if text.starts_with(char::is_whitespace) {
            self.gap = self.gap.max(Gap::Space);
        }
        for word in text.split_whitespace() {
            self.fill_gap();
            self.text.push_str(word);
            self.gap = Gap::Space;
        }
        if !text.ends_with(char::is_whitespace) && self.gap == Gap::Space && !text.trim().is_empty() {
            self.gap = Gap::None;
        }
    }

    fn fill_gap(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if self.text.is_empty() {
            return;
        }
        self.text.push_str(match gap {
            Gap::None => "",
            Gap::Space => " ",
            Gap::Line => "\n",
            Gap::Block => "\n\n",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, title: Option<&str>, text: &str) {
        assert_eq!(
            parse(source),
            Page { title: title.map(str::to_owned), text: text.to_owned() },
            "{source}"
        );
    }

    #[test]
    fn blocks_become_paragraphs_and_scripts_are_skipped() {
        check(
            "<html><head><title> A  page </title><style>p{}</style></head><body><h1>Head <b>ing</b></h1>\n\
             <p>One\n two<em>three</em>.</p><script>let x = 1;</script><p>Four &amp; five<br>six</p>\n\
             <ul><li>a</li><li>b</li></ul><table><tr><td>c</td><td>d</td></tr><tr><td>e</td></tr></table></body></html>",
            Some("A page"),
            "Head ing\n\nOne twothree.\n\nFour & five\nsix\n\na\nb\n\nc d\ne",
        );
    }

    #[test]
    fn a_page_without_a_title_takes_its_first_heading() {
        check("<h1>First</h1><h1>Second</h1>text", Some("First"), "First\n\nSecond\n\ntext");
        check("<p>text", None, "text");
        check("", None, "");
    }

    #[test]
    fn preformatted_text_keeps_its_lines() {
        check("<p>a</p><pre>x = 1\n  y = 2\n</pre><p>b</p>", None, "a\n\nx = 1\n  y = 2\n\nb");
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let deep = format!("{}x{}", "<div>".repeat(20_000), "</div>".repeat(20_000));
        check(&deep, None, "x");
    }
}
