//! The title and text of an HTML page.
//!
//! The text is what a browser would show without style sheets, less navigation. White space collapses as in CSS: inline
//! elements don't separate words, blocks begin a line, `<pre>` is verbatim. Blocks with a margin in browsers, such as
//! paragraphs, also have a blank line around them, which the chunker takes as the end of a paragraph.
//!
//! The text is taken from `<main>` or `role="main"`, all of them; else from the page's only `<article>` if that has most of
//! the text; else from the whole body, where navigation is also recognised by usual class names and ids. Of headers and
//! footers outside these the prose is kept, but neither links nor notices such as a copyright.

mod element;
mod parse;
mod prose;
mod walk;
mod writer;

use std::collections::HashSet;

use ego_tree::{NodeId, NodeRef};
use scraper::Node;

use element::{Keep, has_role, is_never_text};
use prose::Prose;
use walk::{Visitor, walk};
use writer::PageWriter;

/// The title and text of an HTML page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtmlPage {
    /// `<title>`, or else the first `<h1>`, on one line; never empty.
    pub title: Option<String>,
    /// The text, with blank lines between paragraphs. Cells of a table row are separated by tabs. A no-break space is
    /// written as a space.
    pub text: String,
}

impl HtmlPage {
    /// Parses a page. Any text is accepted, as in browsers. The time is linear in its length.
    ///
    /// A page that has no text except navigation and hidden elements keeps these.
    pub fn parse(source: &str) -> HtmlPage {
        let html = parse::parse(source);
        let root = html.tree.root();
        let mut landmarks = Landmarks::default();
        walk(root, &mut landmarks);
        let mut prose = Prose::default();
        walk(root, &mut prose);
        let (body, text) = landmarks.body_text(root, &prose);
        let heading = |root| first_heading(root, &prose);
        let title = landmarks.title.map(raw_text).or_else(|| heading(body)).or_else(|| heading(root));
        HtmlPage { title, text }
    }
}

/// The elements that show where a page's own text is.
#[derive(Default)]
struct Landmarks<'a> {
    /// The first `<title>` that isn't empty.
    title: Option<NodeRef<'a, Node>>,
    /// Each `<main>`.
    mains: Vec<NodeRef<'a, Node>>,
    /// The other elements with `role="main"`.
    main_roles: Vec<NodeRef<'a, Node>>,
    /// The first `<article>`.
    article: Option<NodeRef<'a, Node>>,
    /// The number of articles that are in no other article.
    articles: usize,
    /// Articles that are open while the page is visited.
    open_articles: usize,
}

impl<'a> Landmarks<'a> {
    /// The first element with the page's own text, and all of that text.
    fn body_text(&self, root: NodeRef<'a, Node>, prose: &Prose) -> (NodeRef<'a, Node>, String) {
        let mains = if self.mains.is_empty() { &self.main_roles } else { &self.mains };
        if let Some(main) = mains.first() {
            let (text, bytes) = text_of_parts(root, mains, prose);
            if bytes > 0 {
                return (*main, text);
            }
        }
        let text = text_of(root, Keep::OfBody, prose);
        if text.is_empty() {
            return (root, text_of(root, Keep::All, prose));
        }
        if let Some(article) = self.article.filter(|_| self.articles == 1) {
            let (of_article, bytes) = text_of_parts(root, &[article], prose);
            if bytes >= text.len() / 2 {
                return (article, of_article);
            }
        }
        (root, text)
    }
}

impl<'a> Visitor<'a> for Landmarks<'a> {
    fn enter(&mut self, node: NodeRef<'a, Node>) -> bool {
        let Some(element) = node.value().as_element() else { return true };
        let name = element.name();
        if name == "title" && self.title.is_none() && !raw_text(node).is_empty() {
            self.title = Some(node);
        } else if name == "main" {
            self.mains.push(node);
        } else if has_role(element, "main") {
            self.main_roles.push(node);
        }
        if name == "article" {
            self.article.get_or_insert(node);
            self.articles += usize::from(self.open_articles == 0);
            self.open_articles += 1;
        }
        name == "head" || !is_never_text(name)
    }

    fn leave(&mut self, node: NodeRef<'a, Node>) {
        let is_article = node.value().as_element().is_some_and(|element| element.name() == "article");
        self.open_articles -= usize::from(is_article);
    }
}

/// The text of `root` and what is in it.
fn text_of(root: NodeRef<'_, Node>, keep: Keep, prose: &Prose) -> String {
    let mut writer = PageWriter::new(root.id(), keep, prose);
    walk(root, &mut writer);
    writer.into_text().0
}

/// The text of `parts` with the prose of the page's headers and footers, and the bytes that are of `parts`.
fn text_of_parts(root: NodeRef<'_, Node>, parts: &[NodeRef<'_, Node>], prose: &Prose) -> (String, usize) {
    let parts: HashSet<NodeId> = parts.iter().map(NodeRef::id).collect();
    let mut writer = PageWriter::of_parts(root.id(), &parts, prose);
    walk(root, &mut writer);
    writer.into_text()
}

/// The text nodes directly in `node`, on one line.
fn raw_text(node: NodeRef<'_, Node>) -> String {
    let texts = node.children().filter_map(|child| child.value().as_text());
    let words: Vec<&str> = texts.flat_map(|text| text.split_whitespace()).collect();
    words.join(" ")
}

/// The first `<h1>` in `root` that has text, on one line.
fn first_heading(root: NodeRef<'_, Node>, prose: &Prose) -> Option<String> {
    struct Headings<'a>(Vec<NodeRef<'a, Node>>);
    impl<'a> Visitor<'a> for Headings<'a> {
        fn enter(&mut self, node: NodeRef<'a, Node>) -> bool {
            let name = node.value().as_element().map_or("", |element| element.name());
            if name == "h1" {
                self.0.push(node);
            }
            name != "h1" && !is_never_text(name)
        }

        fn leave(&mut self, _node: NodeRef<'a, Node>) {}
    }
    let mut headings = Headings(Vec::new());
    walk(root, &mut headings);
    let mut titles = headings.0.into_iter().map(|heading| text_of(heading, Keep::OfMain, prose));
    let title = titles.find(|title| !title.is_empty())?;
    Some(title.split_whitespace().collect::<Vec<_>>().join(" "))
}
