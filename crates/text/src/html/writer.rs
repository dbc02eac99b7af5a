//! Writes the text of a page: white space as CSS collapses it.

use std::collections::HashSet;

use ego_tree::{NodeId, NodeRef};
use scraper::Node;
use scraper::node::Element;

use super::element::{
    Display, Keep, display, has_role, is_dropped, is_heading, is_hidden, is_never_text, is_preformatted,
};
use super::prose::{Prose, is_block, is_edge};
use super::walk::Visitor;

/// Visits the nodes of a page and collects their text.
pub(super) struct PageWriter<'p> {
    root: NodeId,
    keep: Keep,
    prose: &'p Prose,
    parts: Option<Parts<'p>>,
    text: TextWriter,
    /// Open elements whose white space is kept.
    preformatted: usize,
    /// Open lists.
    lists: usize,
    /// Open headings and summaries, in which buttons have text.
    headings: usize,
    /// Open articles, sections and headers: a header in them isn't the site's.
    sections: usize,
    /// Open headers and footers of which only the prose is kept.
    edges: Vec<NodeId>,
}

/// The elements whose text is written, beside the prose of headers and footers.
struct Parts<'p> {
    elements: &'p HashSet<NodeId>,
    /// The open one of them, or the open header or footer outside them.
    open: Option<NodeId>,
    /// Bytes of the text when it was opened.
    start: usize,
    /// Bytes that were written in `elements`.
    bytes: usize,
}

impl<'p> PageWriter<'p> {
    /// A writer of the text in `root`, which is never dropped itself.
    pub(super) fn new(root: NodeId, keep: Keep, prose: &'p Prose) -> PageWriter<'p> {
        PageWriter {
            root,
            keep,
            prose,
            parts: None,
            text: TextWriter::default(),
            preformatted: 0,
            lists: 0,
            headings: 0,
            sections: 0,
            edges: Vec::new(),
        }
    }

    /// A writer of the text in `elements`, and of the prose in the headers and footers of the page.
    pub(super) fn of_parts(root: NodeId, elements: &'p HashSet<NodeId>, prose: &'p Prose) -> PageWriter<'p> {
        let parts = Parts { elements, open: None, start: 0, bytes: 0 };
        PageWriter { parts: Some(parts), ..PageWriter::new(root, Keep::OfMain, prose) }
    }

    /// The text, and the number of its bytes that are in the given parts.
    pub(super) fn into_text(mut self) -> (String, usize) {
        // a blank line at the begin of a `<pre>`
        let blank = self.text.text.len() - self.text.text.trim_start_matches('\n').len();
        (self.text.text.split_off(blank), self.parts.map_or(0, |parts| parts.bytes))
    }

    fn is_skipped(&self, node: NodeRef<'_, Node>, element: &Element) -> bool {
        if is_never_text(element.name()) || (element.name() == "button" && self.headings == 0) {
            return true;
        }
        if self.keep == Keep::All {
            return false;
        }
        if is_edge(node, element) {
            return is_hidden(element)
                || self.is_edge_of_prose(node, element) && !self.prose.is_in(node.id());
        }
        let is_bare = !self.edges.is_empty() && is_block(element) && !self.prose.is_in(node.id());
        let has_prose_beside = || node.parent().is_some_and(|parent| self.prose.is_in(parent.id()));
        is_dropped(node, element, self.keep) || is_bare && !(is_heading(element.name()) && has_prose_beside())
    }

    /// Whether only the prose of a header or footer is kept: of every footer, and of a site's header unless it has the
    /// page's title.
    fn is_edge_of_prose(&self, node: NodeRef<'_, Node>, element: &Element) -> bool {
        let has_title = || {
            let mut inside = node.descendants().filter_map(|node| node.value().as_element());
            inside.any(|element| element.name() == "h1")
        };
        let is_header =
            element.name() == "header" && !has_role(element, "banner") && !has_role(element, "contentinfo");
        let is_of_body = self.keep == Keep::OfBody && self.sections == 0 && self.edges.is_empty();
        !is_header || is_of_body && !has_title()
    }

    /// Whether the node is outside the parts that are written.
    fn is_outside(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.open.is_none())
    }

    /// Opens a part if the element is one. Whether the elements in it are visited.
    fn enter_outside(&mut self, node: NodeRef<'_, Node>, element: &Element) -> bool {
        let is_edge = is_edge(node, element);
        if is_never_text(element.name()) || is_hidden(element) {
            return false;
        }
        let Some(parts) = self.parts.as_mut() else { return true };
        if parts.elements.contains(&node.id()) || is_edge && self.prose.is_in(node.id()) {
            (parts.open, parts.start) = (Some(node.id()), self.text.text.len());
            self.edges.extend(is_edge.then_some(node.id()));
            self.open(element);
            return true;
        }
        node.id() == self.root || !is_edge && !is_dropped(node, element, Keep::OfMain)
    }

    fn open(&mut self, element: &Element) {
        match display(element.name()) {
            Display::Break => self.text.break_line(),
            Display::Row => self.text.open_row(),
            Display::Cell => self.text.open_cell(),
            shown @ (Display::Inline
            | Display::Spaced
            | Display::Line
            | Display::Paragraph
            | Display::List) => self.separate(shown),
        }
        self.count(element, true);
    }

    /// Notes that an element is opened, or closed if `is_open` is false.
    fn count(&mut self, element: &Element, is_open: bool) {
        let counter = match element.name() {
            "article" | "section" | "main" | "header" => &mut self.sections,
            "dir" | "dl" | "menu" | "ol" | "ul" => &mut self.lists,
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "summary" => &mut self.headings,
            _ => return self.count_preformatted(element, is_open),
        };
        *counter = if is_open { *counter + 1 } else { *counter - 1 };
        self.count_preformatted(element, is_open);
    }

    fn count_preformatted(&mut self, element: &Element, is_open: bool) {
        if is_preformatted(element) {
            self.preformatted = if is_open { self.preformatted + 1 } else { self.preformatted - 1 };
        }
    }

    /// Separates an element from the text before it and after it; called where no list counts the element itself.
    fn separate(&mut self, display: Display) {
        match display {
            Display::Inline | Display::Break | Display::Row | Display::Cell => {}
            Display::Spaced => self.text.push_space(),
            Display::Line => self.text.begin_line(1),
            Display::List if self.lists > 0 => self.text.begin_line(1),
            Display::Paragraph | Display::List => self.text.begin_line(2),
        }
    }
}

impl<'a> Visitor<'a> for PageWriter<'_> {
    fn enter(&mut self, node: NodeRef<'a, Node>) -> bool {
        let is_outside = self.is_outside();
        if let Node::Text(text) = node.value()
            && !is_outside
        {
            if self.preformatted > 0 { self.text.push_verbatim(text) } else { self.text.push(text) }
        }
        let Some(element) = node.value().as_element() else { return true };
        if is_outside {
            return self.enter_outside(node, element);
        }
        if node.id() != self.root && self.is_skipped(node, element) {
            return false;
        }
        let is_edge_of_prose = is_edge(node, element) && self.is_edge_of_prose(node, element);
        self.edges.extend(is_edge_of_prose.then_some(node.id()));
        self.open(element);
        true
    }

    fn leave(&mut self, node: NodeRef<'a, Node>) {
        let Some(element) = node.value().as_element() else { return };
        if self.is_outside() {
            return;
        }
        self.edges.pop_if(|edge| *edge == node.id());
        self.count(element, false);
        let shown = display(element.name());
        if shown == Display::Row {
            self.text.close_row();
        }
        self.separate(shown);
        if let Some(parts) = self.parts.as_mut().filter(|parts| parts.open == Some(node.id())) {
            if parts.elements.contains(&node.id()) {
                parts.bytes += self.text.text.len() - parts.start;
            }
            parts.open = None;
        }
    }
}

/// A row of a table that is being written.
struct Row {
    /// Length of the text before the row.
    start: usize,
    /// The number of its cells so far.
    cells: usize,
}

/// A text and the white space that is due before its next word.
#[derive(Default)]
struct TextWriter {
    text: String,
    /// Line breaks that blocks require: 1 begins a line, 2 a paragraph.
    required: usize,
    /// Line breaks by `<br>`.
    breaks: usize,
    /// Cells that were opened since the last word in this row, without the row's first cell.
    cells: usize,
    /// White space since the last word, or since the last of the above.
    space: String,
    rows: Vec<Row>,
}

impl TextWriter {
    /// Begins a line, after `breaks` line breaks. At the begin of a cell there is nothing to separate.
    fn begin_line(&mut self, breaks: usize) {
        if self.cells == 0 && !self.is_at_row_start() {
            self.required = self.required.max(breaks);
        }
        self.space.clear();
    }

    /// Whether a row is open and has no text.
    fn is_at_row_start(&self) -> bool {
        self.rows.last().is_some_and(|row| row.start == self.text.len())
    }

    fn break_line(&mut self) {
        if self.cells == 0 && !self.is_at_row_start() {
            self.breaks += 1;
        }
        self.space.clear();
    }

    fn open_row(&mut self) {
        self.cells = 0;
        self.begin_line(1);
        self.rows.push(Row { start: self.text.len(), cells: 0 });
    }

    /// Begins the line after a row, without the blank line of a paragraph at its end.
    fn close_row(&mut self) {
        let row = self.rows.pop();
        if row.is_some_and(|row| self.text.len() > row.start) {
            (self.required, self.breaks) = (0, 0);
        }
        self.cells = 0;
        self.begin_line(1);
    }

    /// Separates a cell from the one before it: by a tab instead of the line breaks of the blocks in that cell.
    fn open_cell(&mut self) {
        let Some(row) = self.rows.last_mut() else { return self.begin_line(1) };
        row.cells += 1;
        if row.cells == 1 {
            return;
        }
        if self.text.len() > row.start {
            (self.required, self.breaks) = (0, 0);
        }
        self.space.clear();
        self.cells += 1;
    }

    /// Writes text whose white space collapses.
    fn push(&mut self, text: &str) {
        for (index, piece) in text.split([' ', '\t', '\n', '\r', '\u{c}']).enumerate() {
            if index > 0 {
                self.push_space();
            }
            let word = piece.trim_start_matches('\u{a0}');
            self.space.push_str(&piece[..piece.len() - word.len()]);
            self.push_verbatim(word);
        }
    }

    /// A space that collapses with the one before it, and vanishes at the begin of a line.
    fn push_space(&mut self) {
        let is_collapsed = self.space.ends_with(' ') || (self.space.is_empty() && self.is_at_line_start());
        if !is_collapsed {
            self.space.push(' ');
        }
    }

    /// Writes text as it is. White space at its end is written with the next word of the line.
    fn push_verbatim(&mut self, text: &str) {
        let shown = text.trim_end_matches([' ', '\t', '\n', '\u{a0}']);
        if !shown.is_empty() {
            self.push_due_space();
            push_with_plain_spaces(shown, &mut self.text);
        }
        self.space.push_str(&text[shown.len()..]);
    }

    fn push_due_space(&mut self) {
        if !self.text.is_empty() {
            self.text.push_str(&"\n\n"[..self.required.max(self.breaks).min(2)]);
        }
        self.text.extend(std::iter::repeat_n('\t', self.cells));
        push_with_plain_spaces(&self.space, &mut self.text);
        self.space.clear();
        (self.required, self.breaks, self.cells) = (0, 0, 0);
    }

    fn is_at_line_start(&self) -> bool {
        self.text.is_empty() || self.required + self.breaks + self.cells > 0
    }
}

fn push_with_plain_spaces(text: &str, out: &mut String) {
    out.extend(text.chars().map(|c| if c == '\u{a0}' { ' ' } else { c }));
}
