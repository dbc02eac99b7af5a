//! The styles of an OpenDocument file that matter to its text: what is hidden, where pages break, numbers of lists.

use std::collections::{HashMap, HashSet};

use crate::Failure;
use crate::budget::Budget;
use crate::numbers::{self, Numbering};
use crate::xml::{Event, Tag, Xml};

/// Levels of a list.
const LEVELS: usize = 10;
/// Styles of one file.
const STYLES_MAX: usize = 100_000;

/// One level of a list.
#[derive(Debug, Clone, Default)]
struct Level {
    /// `None` for a bullet.
    numbering: Option<Numbering>,
    prefix: String,
    suffix: String,
    start: Option<u32>,
    /// Levels whose numbers are shown.
    shown: usize,
}

/// The styles of a file.
#[derive(Debug, Default)]
pub(super) struct Styles {
    /// Family and name of styles that hide.
    hidden: HashSet<(String, String)>,
    /// Names of paragraph styles that begin a page.
    breaks: HashSet<String>,
    lists: HashMap<String, [Level; LEVELS]>,
    /// The names of parents of paragraph styles.
    titles: HashSet<String>,
}

impl Styles {
    /// Adds the styles of a part: `styles.xml` or `content.xml`.
    pub(super) fn add(&mut self, text: &str, budget: &Budget<'_>) -> Result<(), Failure> {
        let (mut family, mut name) = (String::new(), String::new());
        let mut list: Option<(String, [Level; LEVELS])> = None;
        let mut xml = Xml::new(text, budget);
        while let Some(event) = xml.next()? {
            match event {
                Event::Open(tag) => match tag.name() {
                    "body" => break,
                    "style" => {
                        family = tag.attr("family").unwrap_or_default().into_owned();
                        name = tag.attr("name").unwrap_or_default().into_owned();
                        let parent = tag.attr("parent-style-name").unwrap_or_default();
                        if family == "paragraph"
                            && self.titles.len() < STYLES_MAX
                            && (name == "Title" || parent == "Title")
                        {
                            self.titles.insert(name.clone());
                        }
                    }
                    "text-properties"
                    | "table-properties"
                    | "table-row-properties"
                    | "drawing-page-properties"
                    | "paragraph-properties" => {
                        self.add_properties(&tag, &family, &name);
                    }
                    "list-style" => {
                        list = Some((tag.attr("name").unwrap_or_default().into_owned(), Default::default()))
                    }
                    "list-level-style-number" => {
                        if let Some((_, levels)) = &mut list {
                            add_level(&tag, levels);
                        }
                    }
                    _ => {}
                },
                Event::Close(tag) if tag.name() == "list-style" && self.lists.len() < STYLES_MAX => {
                    self.lists.extend(list.take());
                }
                Event::Close(_) | Event::Text(_) => {}
            }
        }
        Ok(())
    }

    fn add_properties(&mut self, tag: &Tag<'_>, family: &str, name: &str) {
        let is = |attribute: &str, value: &str| tag.attr(attribute).is_some_and(|found| found == value);
        if self.hidden.len() < STYLES_MAX
            && (is("display", "none") || is("display", "false") || is("visibility", "hidden"))
        {
            self.hidden.insert((family.to_owned(), name.to_owned()));
        }
        if self.breaks.len() < STYLES_MAX && family == "paragraph" && is("break-before", "page") {
            self.breaks.insert(name.to_owned());
        }
    }

    /// Whether what has the style is hidden.
    pub(super) fn is_hidden(&self, family: &str, name: &str) -> bool {
        !self.hidden.is_empty() && self.hidden.contains(&(family.to_owned(), name.to_owned()))
    }

    /// Whether a paragraph in the style begins a page.
    pub(super) fn breaks_page(&self, name: &str) -> bool {
        self.breaks.contains(name)
    }

    /// Whether the style is that of the title of a document.
    pub(super) fn is_title(&self, name: &str) -> bool {
        self.titles.contains(name)
    }
}

/// Reads a numbered level of a list.
fn add_level(tag: &Tag<'_>, levels: &mut [Level; LEVELS]) {
    let Some(level) = tag.number::<usize>("level").and_then(|level| levels.get_mut(level.wrapping_sub(1)))
    else {
        return;
    };
    let text = |name: &str| tag.attr(name).unwrap_or_default().chars().take(100).collect::<String>();
    *level = Level {
        numbering: Numbering::of_open_document(&text("num-format")),
        prefix: text("num-prefix"),
        suffix: text("num-suffix"),
        start: tag.number("start-value"),
        shown: tag.number("display-levels").unwrap_or(1),
    };
}

/// The lists that are open, and their numbers.
#[derive(Debug, Default)]
pub(super) struct Lists {
    open: Vec<String>,
    counters: [Option<u32>; LEVELS],
    /// The style and numbers of the last list of the first level, which another may continue.
    last: HashMap<String, [Option<u32>; LEVELS]>,
}

impl Lists {
    /// A list begins; one within another has its style unless it says its own.
    pub(super) fn open(&mut self, tag: &Tag<'_>) {
        let style = tag
            .attr("style-name")
            .map(std::borrow::Cow::into_owned)
            .or_else(|| self.open.last().cloned())
            .unwrap_or_default();
        if self.open.is_empty() {
            let is_continued = tag.is_set("continue-numbering") || tag.attr("continue-list").is_some();
            self.counters = if is_continued {
                self.last.get(&style).copied().unwrap_or_default()
            } else {
                Default::default()
            };
        }
        self.open.push(style);
    }

    /// A list ends.
    pub(super) fn close(&mut self) {
        let Some(style) = self.open.pop() else { return };
        if self.open.is_empty() && self.last.len() < STYLES_MAX {
            self.last.insert(style, self.counters);
        } else if let Some(counter) = self.counters.get_mut(self.open.len()) {
            *counter = None;
        }
    }

    /// Whether a list is open.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The level of the innermost list, from 0.
    pub(super) fn level(&self) -> usize {
        self.open.len().saturating_sub(1)
    }

    /// Counts an item of the innermost list. Returns its number, empty for a bullet.
    pub(super) fn next(&mut self, styles: &Styles, start: Option<u32>) -> String {
        let at = self.level().min(LEVELS - 1);
        let levels = self.open.last().and_then(|style| styles.lists.get(style));
        let first = levels.and_then(|levels| levels[at].start).unwrap_or(1);
        self.counters[at] =
            start.or_else(|| self.counters[at].map(|number| number.wrapping_add(1))).or(Some(first));
        let Some(levels) = levels else { return String::new() };
        let level = &levels[at];
        if level.numbering.is_none() {
            return String::new();
        }
        let from = (at + 1).saturating_sub(level.shown.max(1));
        let shown = (from..=at)
            .filter_map(|of| Some(numbers::render(self.counters[of].unwrap_or(1), levels[of].numbering?)));
        format!("{}{}{}", level.prefix, shown.collect::<Vec<_>>().join("."), level.suffix).trim().to_owned()
    }
}
