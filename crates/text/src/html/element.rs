//! The effect of an element on the text of a page: how it separates text, and whether its text belongs to the page.

use ego_tree::NodeRef;
use scraper::node::Element;
use scraper::{CaseSensitivity, Node};

use super::parse::LINK;

/// The elements that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// All that can have text for a reader, also if hidden.
    All,
    /// Visible elements, without navigation. Names such as `sidebar` are taken for navigation.
    OfBody,
    /// The same in an element that holds the page's own text: a `sidebar` in it belongs to the text.
    OfMain,
}

/// How an element separates its text from the text around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Display {
    /// Not at all.
    Inline,
    /// By a space.
    Spaced,
    /// By a line break.
    Line,
    /// By a blank line.
    Paragraph,
    /// By a blank line, or by a line break in another list.
    List,
    /// By a line break; its cells are separated by tabs.
    Row,
    /// A cell of a row.
    Cell,
    /// A line break without content: `<br>`.
    Break,
}

/// The display that a browser gives an element by its name. Elements with a vertical margin are paragraphs.
pub(super) fn display(name: &str) -> Display {
    match name {
        "article" | "aside" | "blockquote" | "details" | "fieldset" | "figure" | "footer" | "form" | "h1"
        | "h2" | "h3" | "h4" | "h5" | "h6" | "header" | "hgroup" | "hr" | "listing" | "main" | "nav"
        | "p" | "plaintext" | "pre" | "section" | "table" | "xmp" => Display::Paragraph,
        "dir" | "dl" | "menu" | "ol" | "ul" => Display::List,
        "address" | "body" | "caption" | "center" | "dd" | "dialog" | "div" | "dt" | "figcaption"
        | "html" | "legend" | "li" | "option" | "search" | "summary" => Display::Line,
        "tr" => Display::Row,
        "td" | "th" => Display::Cell,
        "br" => Display::Break,
        // inline in browsers, but separated by the style sheets of all pages that put one after another
        "label" => Display::Spaced,
        _ => Display::Inline,
    }
}

/// Whether white space in the element is shown as it is written.
pub(super) fn is_preformatted(element: &Element) -> bool {
    matches!(element.name(), "pre" | "listing" | "plaintext" | "xmp")
        || declared(element, "white-space")
            .is_some_and(|value| matches!(value, "pre" | "pre-wrap" | "break-spaces"))
}

/// Whether elements of this name have no text for a reader: scripts, controls, replaced content.
pub(super) fn is_never_text(name: &str) -> bool {
    matches!(
        name,
        "annotation"
            | "annotation-xml"
            | "applet"
            | "audio"
            | "canvas"
            | "datalist"
            | "embed"
            | "frameset"
            | "head"
            | "iframe"
            | "input"
            | "noembed"
            | "noframes"
            | "noscript"
            | "object"
            | "progress"
            | "rp"
            | "rt"
            | "script"
            | "select"
            | "style"
            | "svg"
            | "template"
            | "textarea"
            | "title"
            | "video"
    )
}

/// Whether the text of an element doesn't belong to the page: it is hidden, navigation or decoration.
pub(super) fn is_dropped(node: NodeRef<'_, Node>, element: &Element, keep: Keep) -> bool {
    match keep {
        Keep::All => false,
        Keep::OfMain => is_hidden(element) || is_navigation(node, element),
        Keep::OfBody => is_hidden(element) || is_navigation(node, element) || is_named_navigation(element),
    }
}

/// Whether a role of the element is `role`.
pub(super) fn has_role(element: &Element, role: &str) -> bool {
    element.attr("role").is_some_and(|roles| roles.split_ascii_whitespace().any(|found| found == role))
}

/// Roles of navigation, and of what lies above a page.
const NAVIGATION_ROLES: [&str; 11] = [
    "alertdialog",
    "banner",
    "contentinfo",
    "dialog",
    "doc-toc",
    "menu",
    "menubar",
    "navigation",
    "search",
    "tablist",
    "toolbar",
];

/// Classes of navigation and of decoration, wherever they stand: marks beside headings, line numbers of code, links to
/// the source, tables of contents.
const CLASSES: [&str; 20] = [
    "anchor-link",
    "anchorjs-link",
    "breadcrumb",
    "breadcrumbs",
    "hash-link",
    "header-anchor",
    "headerlink",
    "heading-anchor",
    "lineno",
    "linenodiv",
    "linenos",
    "md-skip",
    "pagination",
    "skip-link",
    "skip-nav",
    "skip-to-content",
    "skipnav",
    "table-of-contents",
    "toc",
    "viewcode-link",
];

/// Classes and ids of navigation outside the element that holds the page's own text.
const NAMES_IN_BODY: [&str; 24] = [
    "bottomnav",
    "cookie-banner",
    "footer",
    "main-nav",
    "masthead",
    "nav",
    "navbar",
    "navfooter",
    "navheader",
    "navigation",
    "navpath",
    "page-footer",
    "pager",
    "related",
    "sidebar",
    "site-footer",
    "site-header",
    "site-nav",
    "sphinxsidebar",
    "subnav",
    "titlearea",
    "top-nav",
    "topbar",
    "topnav",
];

/// Parts of the classes of an `<aside>` that belongs to the text: a footnote, a warning.
const NOTES: [&str; 10] = [
    "admonition",
    "callout",
    "caution",
    "danger",
    "example",
    "important",
    "note",
    "starlight-aside",
    "tip",
    "warning",
];
/// Classes of the first element in such an `<aside>`.
const NOTE_TITLES: [&str; 2] = ["sidebar-title", "topic-title"];

/// The text of a link to a heading beside it, and of a footnote's link back.
const LINK_MARKS: &str = "¶§#🔗⚓◆↩↑⬆⤴\u{200b}\u{200d}\u{fe0e}\u{fe0f}";
/// Longest subtree, in nodes, that is examined for being such a link.
const LINK_NODES_MAX: usize = 8;

/// Whether a browser does not show the element, and a reader of screens does not read it.
pub(super) fn is_hidden(element: &Element) -> bool {
    element.attr("hidden").is_some_and(|value| !value.eq_ignore_ascii_case("until-found"))
        || element.attr("aria-hidden").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || element.attr("popover").is_some()
        || (element.name() == "dialog" && element.attr("open").is_none())
        || declared(element, "display") == Some("none")
}

fn is_navigation(node: NodeRef<'_, Node>, element: &Element) -> bool {
    let by_name = match element.name() {
        "nav" | "search" => true,
        "aside" => !is_note(node, element),
        LINK => is_mark(node, element),
        _ => false,
    };
    by_name
        || NAVIGATION_ROLES.iter().any(|role| has_role(element, role))
        || element.classes().any(|class| is_listed(class, &CLASSES))
        || (has_class(element, "contents") && (has_class(element, "topic") || has_class(element, "local")))
}

fn is_note(aside: NodeRef<'_, Node>, element: &Element) -> bool {
    let classes = element.attr("class").unwrap_or_default().to_ascii_lowercase();
    let first = aside.children().find_map(|child| child.value().as_element());
    NOTES.iter().any(|part| classes.contains(part))
        || element.attr("role").is_some_and(|role| role == "note" || role.starts_with("doc-"))
        || first.is_some_and(|first| NOTE_TITLES.iter().any(|title| has_class(first, title)))
}

/// Whether a link within the page shows nothing but a mark.
fn is_mark(link: NodeRef<'_, Node>, element: &Element) -> bool {
    let is_within_page = element.attr("href").is_some_and(|target| target.starts_with('#'));
    let is_mark = |c: char| c.is_whitespace() || LINK_MARKS.contains(c);
    let mut nodes = link.descendants();
    is_within_page
        && nodes
            .by_ref()
            .take(LINK_NODES_MAX)
            .all(|node| node.value().as_text().is_none_or(|t| t.chars().all(is_mark)))
        && nodes.next().is_none()
}

/// Whether a class or the id of an element outside the page's main element is one of navigation. Only ids of boxes count,
/// because those of headings and sections are made from their text: `<h2 id="pagination">`.
fn is_named_navigation(element: &Element) -> bool {
    let is_box =
        matches!(element.name(), "div" | "form" | "ol" | "table" | "ul") && !has_class(element, "section");
    let id = element.id().filter(|_| is_box);
    id.is_some_and(|id| is_listed(id, &CLASSES))
        || element.classes().chain(id).any(|name| is_listed(name, &NAMES_IN_BODY))
}

/// Whether `names` has this name, in any case.
fn is_listed(name: &str, names: &[&str]) -> bool {
    names.iter().any(|listed| name.eq_ignore_ascii_case(listed))
}

fn has_class(element: &Element, class: &str) -> bool {
    element.has_class(class, CaseSensitivity::AsciiCaseInsensitive)
}

/// Whether an element of this name is a heading.
pub(super) fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "hgroup")
}

/// The value that the element's `style` attribute gives a property.
fn declared<'a>(element: &'a Element, property: &str) -> Option<&'a str> {
    let declarations =
        element.attr("style")?.split(';').filter_map(|declaration| declaration.split_once(':'));
    let mut values = declarations.filter(|(name, _)| name.trim().eq_ignore_ascii_case(property));
    values.next_back().and_then(|(_, value)| value.split_ascii_whitespace().next())
}
