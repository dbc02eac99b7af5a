//! Parses a page in time linear in its length.
//!
//! The parser looks at every open element for many tags, and at every attribute of a tag for each further one. So elements are
//! nested to a limited depth, as in browsers, and tags have a limited number of attributes. Formatting elements such as `<b>`,
//! which the parser opens again in each paragraph after one that does not close them, are renamed: they have no effect on text.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use ego_tree::NodeId;
use html5ever::LocalName;
use html5ever::interface::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, StartTag, Tag, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{Tracer, TreeBuilder, TreeBuilderOpts, TreeSink};
use scraper::{Html, HtmlTreeSink};

use super::element::{Display, display};

/// Open elements, at most; Chromium has the same limit. The tags of elements that are nested more deeply are ignored, and their
/// text belongs to the last element that was opened.
const DEPTH_MAX: usize = 512;

/// Elements that one start tag opens, at most: `<td>` directly in a table also opens `<tbody>` and `<tr>`.
const OPENED_BY_TAG_MAX: usize = 5;

/// Attributes of a tag that are read.
const ATTRIBUTES_MAX: usize = 256;

/// The attributes that are looked at, here or by the parser.
const ATTRIBUTES: [&str; 11] =
    ["aria-hidden", "class", "encoding", "hidden", "href", "id", "open", "popover", "role", "style", "type"];

/// Elements that the parser opens again in later blocks.
const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// The prefix of the names of formatting elements, so that the parser does not recognise them.
const RENAMED: &str = "-";

/// The name of links: [`RENAMED`] and `a`.
pub(super) const LINK: &str = "-a";

/// Elements that have no end tag, or whose content is no markup: they are at most one level.
const LEAVES: [&str; 26] = [
    "area",
    "base",
    "basefont",
    "bgsound",
    "br",
    "col",
    "embed",
    "hr",
    "iframe",
    "img",
    "input",
    "link",
    "meta",
    "noembed",
    "noframes",
    "noscript",
    "param",
    "plaintext",
    "script",
    "source",
    "style",
    "textarea",
    "title",
    "track",
    "wbr",
    "xmp",
];

/// Elements whose content is no markup.
const RAW: [&str; 8] = ["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"];

/// The tree of a page.
pub(super) fn parse(source: &str) -> Html {
    let source = with_fewer_attributes(source);
    let tree = TreeBuilder::new(HtmlTreeSink::new(Html::new_document()), TreeBuilderOpts::default());
    let limited =
        Limited { tree, unchecked: Cell::new(0), is_full: Cell::new(false), ignored: RefCell::default() };
    let tokenizer = Tokenizer::new(limited, TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(&*source));
    // scripts and declared encodings interrupt the tokenizer
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    tokenizer.sink.tree.sink.finish()
}

/// Passes tokens on to the parser, without those that would make it slow.
struct Limited {
    tree: TreeBuilder<NodeId, HtmlTreeSink>,
    /// Start tags that are taken before open elements are counted again.
    unchecked: Cell<usize>,
    /// Whether a start tag was ignored since the last end tag.
    is_full: Cell<bool>,
    /// Ignored start tags whose end tag was not read yet, by name.
    ignored: RefCell<HashMap<LocalName, usize>>,
}

impl Limited {
    /// The replacement of a tag for the parser: that of an ignored block still separates words. `None`: nothing.
    fn limited(&self, mut tag: Tag) -> Option<Token> {
        if FORMATTING.contains(&&*tag.name) {
            tag.name = LocalName::from(format!("{RENAMED}{}", tag.name));
        }
        let is_taken = if tag.kind == StartTag { self.is_opened(&tag) } else { self.is_closed(&tag) };
        if !is_taken {
            let is_inline = display(&tag.name) == Display::Inline;
            return (!is_inline).then(|| Token::CharacterTokens(StrTendril::from(" ")));
        }
        tag.attrs.retain(|attribute| ATTRIBUTES.contains(&&*attribute.name.local));
        Some(Token::TagToken(tag))
    }

    fn is_opened(&self, tag: &Tag) -> bool {
        if let Some(left) = self.unchecked.get().checked_sub(1) {
            self.unchecked.set(left);
            return true;
        }
        let is_foreign = self.tree.adjusted_current_node_present_but_not_in_html_namespace();
        let is_leaf = if is_foreign { tag.self_closing } else { LEAVES.contains(&&*tag.name) };
        if is_leaf {
            return true;
        }
        if !self.is_full.get() {
            let open = self.open_elements();
            self.unchecked.set(DEPTH_MAX.saturating_sub(open) / OPENED_BY_TAG_MAX);
            self.is_full.set(open >= DEPTH_MAX);
        }
        if self.is_full.get() {
            *self.ignored.borrow_mut().entry(tag.name.clone()).or_default() += 1;
        }
        !self.is_full.get()
    }

    /// Whether an end tag belongs to an element that is open, as far as is known.
    fn is_closed(&self, tag: &Tag) -> bool {
        if let Some(count) = self.ignored.borrow_mut().get_mut(&tag.name).filter(|count| **count > 0) {
            *count -= 1;
            return false;
        }
        self.is_full.set(false);
        true
    }

    fn open_elements(&self) -> usize {
        struct Counter(Cell<usize>);
        impl Tracer for Counter {
            type Handle = NodeId;
            fn trace_handle(&self, _node: &NodeId) {
                self.0.set(self.0.get() + 1);
            }
        }
        let counter = Counter(Cell::new(0));
        self.tree.trace_handles(&counter);
        counter.0.get()
    }
}

impl TokenSink for Limited {
    type Handle = NodeId;

    fn process_token(&self, token: Token, line_number: u64) -> TokenSinkResult<NodeId> {
        let token = match token {
            Token::TagToken(tag) => match self.limited(tag) {
                Some(token) => token,
                None => return TokenSinkResult::Continue,
            },
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::CharacterTokens(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => token,
        };
        self.tree.process_token(token, line_number)
    }

    fn end(&self) {
        self.tree.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.tree.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// The page without the attributes of each tag behind the first [`ATTRIBUTES_MAX`].
fn with_fewer_attributes(source: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    // everything before `copied` is in `kept`
    let (mut copied, mut at) = (0, 0);
    while let Some(offset) = source[at..].find('<') {
        let tag = at + offset;
        let rest = &source[tag + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            at = comment.find("-->").map_or(source.len(), |end| source.len() - comment.len() + end);
            continue;
        }
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            at = tag + 1;
            continue;
        }
        let attributes = Attributes::read(source.as_bytes(), tag);
        if let Some(cut) = attributes.cut {
            kept.push_str(&source[copied..cut]);
            copied = attributes.end;
        }
        at = attributes.end;
        let name = &source[tag + 1..attributes.name_end];
        if RAW.iter().any(|raw| raw.eq_ignore_ascii_case(name)) {
            at = end_of_raw(source, at, name);
        }
    }
    if copied == 0 {
        return Cow::Borrowed(source);
    }
    kept.push_str(&source[copied..]);
    Cow::Owned(kept)
}

/// Where the content ends that begins at `at` and is no markup: at its end tag, or at the end of the page.
fn end_of_raw(source: &str, mut at: usize, name: &str) -> usize {
    while let Some(offset) = source[at..].find("</") {
        at += offset + 2;
        if source.as_bytes()[at..]
            .get(..name.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
        {
            return at - 2;
        }
    }
    source.len()
}

/// Where a start tag has its attributes.
struct Attributes {
    /// The end of the tag's name.
    name_end: usize,
    /// The begin of the first attribute that is not kept.
    cut: Option<usize>,
    /// The `>` of the tag, or the end of the page.
    end: usize,
}

impl Attributes {
    /// Reads the tag whose `<` is at `tag`, as the tokenizer does.
    fn read(bytes: &[u8], tag: usize) -> Attributes {
        let ends_name = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
        let next = |at: usize, ends: &dyn Fn(&u8) -> bool| {
            bytes[at..].iter().position(ends).map_or(bytes.len(), |offset| at + offset)
        };
        let name_end = next(tag + 1, &ends_name);
        let (mut at, mut count, mut cut) = (name_end, 0, None);
        loop {
            at = next(at, &|byte| !byte.is_ascii_whitespace() && *byte != b'/');
            if at >= bytes.len() || bytes[at] == b'>' {
                return Attributes { name_end, cut, end: at };
            }
            count += 1;
            if count == ATTRIBUTES_MAX + 1 {
                cut = Some(at);
            }
            // an attribute's name may begin with `=`
            at = next(at + 1, &|byte| ends_name(byte) || *byte == b'=');
            let value = next(at, &|byte| !byte.is_ascii_whitespace());
            if bytes.get(value) != Some(&b'=') {
                continue;
            }
            at = next(value + 1, &|byte| !byte.is_ascii_whitespace());
            at = match bytes.get(at) {
                Some(&quote @ (b'"' | b'\'')) => (next(at + 1, &|byte| *byte == quote) + 1).min(bytes.len()),
                Some(b'>') | None => at,
                Some(_) => next(at, &|byte| byte.is_ascii_whitespace() || *byte == b'>'),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_beyond_the_limit_are_cut() {
        let attributes: String = (0..ATTRIBUTES_MAX).map(|n| format!(" a{n}='>'")).collect();
        let tag = format!("<p{attributes}");
        for (source, kept) in [
            (format!("{tag}>x"), None),
            (format!("é{tag} b=\"1>\" c/d>x<i>"), Some(format!("é{tag} >x<i>"))),
            (format!("{tag} b"), Some(format!("{tag} "))),
            (format!("{tag} b='é"), Some(format!("{tag} "))),
            (
                format!("<!-- <a{} -->{tag} =b=c>", " b".repeat(300)),
                Some(format!("<!-- <a{} -->{tag} >", " b".repeat(300))),
            ),
            (format!("<script>a<b{} </script>y", " c".repeat(300)), None),
        ] {
            assert_eq!(with_fewer_attributes(&source), kept.unwrap_or_else(|| source.clone()), "{source}");
        }
    }

    #[test]
    fn the_tree_has_at_most_the_depth() {
        let depth = |source: &str| {
            let html = parse(source);
            html.tree.nodes().map(|node| node.ancestors().count()).max().unwrap_or_default()
        };
        for open in
            ["<div>", "<p><b>", "<table><tr><td>", "<svg><g>", "<select><option>", "<template>", "<b id=x>"]
        {
            let depth = depth(&open.repeat(2_000));
            // a template has a node for its content
            let depth = if open == "<template>" { depth / 2 } else { depth };
            assert!(
                (100..=DEPTH_MAX + 3 * OPENED_BY_TAG_MAX).contains(&depth) || depth < 20,
                "{open}: {depth}"
            );
        }
    }
}
