//! Random pages against a model of `innerText`.
//!
//! The model knows nothing of how the extraction works: it writes a page as one string, in which each border of a block
//! is a line break, and then collapses the spaces of each line. Blank lines are not compared: browsers put them around
//! paragraphs only.

use proptest::prelude::*;
use weir_text::HtmlPage;

/// A space and a tab that do not collapse.
const KEPT_SPACE: char = '\u{e000}';
const KEPT_TAB: char = '\u{e001}';

/// A part of a page.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(String),
    /// `<br>`
    Break,
    /// An element that shows nothing.
    Hidden(&'static str),
    Inline(&'static str, Vec<Part>),
    Block(&'static str, Vec<Part>),
    /// `<pre>`, of inline parts.
    Preformatted(Vec<Part>),
    /// Rows of cells of inline parts.
    Table(Vec<Vec<Vec<Part>>>),
}

impl Part {
    /// Writes the part as HTML.
    pub(crate) fn render(&self, html: &mut String) {
        match self {
            Part::Text(text) => html.push_str(&text.replace('&', "&amp;").replace('<', "&lt;")),
            Part::Break => html.push_str("<br>"),
            Part::Hidden(hidden) => html.push_str(hidden),
            Part::Inline(name, parts) | Part::Block(name, parts) => render_element(name, parts, html),
            // the parser drops a line break at the begin
            Part::Preformatted(parts) => {
                html.push_str("<pre>\n");
                render_all(parts, html);
                html.push_str("</pre>");
            }
            Part::Table(rows) => {
                html.push_str("<table>");
                for row in rows {
                    html.push_str("<tr>\n");
                    row.iter().for_each(|cell| render_element("td", cell, html));
                    html.push_str("</tr>");
                }
                html.push_str("</table>");
            }
        }
    }

    /// Writes what a browser shows: a line break for each border of a block, and spaces not collapsed yet.
    fn show(&self, is_preformatted: bool, shown: &mut String) {
        match self {
            Part::Text(text) => shown.extend(text.chars().map(|c| show_char(c, is_preformatted))),
            Part::Break => shown.push('\n'),
            Part::Hidden(_) => {}
            Part::Inline(_, parts) => show_all(parts, is_preformatted, shown),
            Part::Block(_, parts) => {
                shown.push('\n');
                show_all(parts, is_preformatted, shown);
                shown.push('\n');
            }
            Part::Preformatted(parts) => {
                shown.push('\n');
                show_all(parts, true, shown);
                shown.push('\n');
            }
            Part::Table(rows) => {
                for row in rows {
                    let cells: Vec<String> = row.iter().map(|cell| show_line(cell)).collect();
                    *shown += &format!("\n{}\n", cells.join(&KEPT_TAB.to_string()));
                }
            }
        }
    }
}

fn render_element(name: &str, parts: &[Part], html: &mut String) {
    *html += &format!("<{name}>");
    render_all(parts, html);
    *html += &format!("</{name}>");
}

pub(crate) fn render_all(parts: &[Part], html: &mut String) {
    parts.iter().for_each(|part| part.render(html));
}

fn show_all(parts: &[Part], is_preformatted: bool, shown: &mut String) {
    parts.iter().for_each(|part| part.show(is_preformatted, shown));
}

fn show_char(c: char, is_preformatted: bool) -> char {
    match c {
        '\u{a0}' => KEPT_SPACE,
        ' ' if is_preformatted => KEPT_SPACE,
        '\t' if is_preformatted => KEPT_TAB,
        '\n' if is_preformatted => '\n',
        ' ' | '\t' | '\n' => ' ',
        c => c,
    }
}

fn show_line(parts: &[Part]) -> String {
    let mut shown = String::new();
    show_all(parts, false, &mut shown);
    collapse(&shown)
}

fn collapse(line: &str) -> String {
    line.split(' ').filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The model: the lines that a browser shows of a page.
pub(crate) fn model(parts: &[Part]) -> String {
    let mut shown = String::new();
    show_all(parts, false, &mut shown);
    let lines: Vec<String> = shown.lines().map(collapse).collect();
    without_blank_lines(&lines.join("\n").replace(KEPT_SPACE, " ").replace(KEPT_TAB, "\t"))
}

/// The lines of a text that are not blank, without white space at their ends and before tabs.
pub(crate) fn without_blank_lines(text: &str) -> String {
    let trimmed =
        |line: &str| line.split('\t').map(str::trim_end).collect::<Vec<_>>().join("\t").trim_end().to_owned();
    let lines: Vec<String> = text.lines().map(trimmed).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

fn text() -> impl Strategy<Value = Part> {
    "[ab<é \\n\\t\u{a0}]{0,4}".prop_map(Part::Text)
}

const HIDDEN: [&str; 4] =
    ["<!-- x -->", "<script>x</script>", "<span hidden>x</span>", "<template>x</template>"];

fn hidden() -> impl Strategy<Value = Part> {
    prop::sample::select(&HIDDEN).prop_map(Part::Hidden)
}

/// Text and inline elements; line breaks if `has_breaks`.
fn inline(has_breaks: bool) -> BoxedStrategy<Part> {
    let leaf = prop_oneof![8 => text(), 1 => hidden(), u32::from(has_breaks) => Just(Part::Break)];
    leaf.prop_recursive(3, 12, 4, |part| {
        let name = prop::sample::select(&["span", "em", "code", "sup", "custom-element"]);
        (name, prop::collection::vec(part, 0..4)).prop_map(|(name, parts)| Part::Inline(name, parts))
    })
    .boxed()
}

fn table() -> impl Strategy<Value = Part> {
    let cell = prop::collection::vec(inline(false), 0..3);
    prop::collection::vec(prop::collection::vec(cell, 1..4), 1..4).prop_map(Part::Table)
}

fn block_of_inline() -> impl Strategy<Value = Part> {
    let parts = || prop::collection::vec(inline(true), 0..4);
    prop_oneof![
        3 => (prop::sample::select(&["p", "h2"]), parts()).prop_map(|(name, parts)| Part::Block(name, parts)),
        1 => parts().prop_map(Part::Preformatted),
        1 => table(),
    ]
}

fn list(items: Vec<Vec<Part>>) -> Part {
    Part::Block("ul", items.into_iter().map(|item| Part::Block("li", item)).collect())
}

pub(crate) fn page() -> impl Strategy<Value = Vec<Part>> {
    let leaf = prop_oneof![inline(true), block_of_inline()];
    let part = leaf.prop_recursive(4, 40, 5, |part| {
        let parts = || prop::collection::vec(part.clone(), 0..5);
        let name = prop::sample::select(&["div", "section", "blockquote", "address", "figure", "center"]);
        prop_oneof![
            (name, parts()).prop_map(|(name, parts)| Part::Block(name, parts)),
            prop::collection::vec(parts(), 1..4).prop_map(list),
            parts().prop_map(|parts| Part::Inline("ins", parts)),
        ]
    });
    prop::collection::vec(part, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_pages_have_the_text_of_the_model(parts in page()) {
        let mut html = String::new();
        render_all(&parts, &mut html);
        // of a page without visible text, what is hidden would be kept
        let found = HtmlPage::parse(&format!("<main>{html}<p>end</main>")).text;
        let expected = model(&parts) + "\nend";
        prop_assert_eq!(without_blank_lines(&found), expected.trim_start_matches('\n'), "{}", html);
    }

    #[test]
    fn any_text_is_parsed_and_a_text_without_marks_is_kept(text in "[^<&\0\u{feff}]*", soup in ".*") {
        HtmlPage::parse(&soup);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        prop_assert_eq!(words(&HtmlPage::parse(&text).text), words(&text));
    }
}
