//! The styles of a Word document that matter to its text: headings, list levels, hidden text.

use std::collections::HashMap;

use crate::Failure;
use crate::budget::Budget;
use crate::xml::{Event, Xml};

/// Styles of one document.
const STYLES_MAX: usize = 20_000;
/// Longest chain of styles that are based on each other.
const CHAIN_MAX: usize = 16;

/// The properties of one style. Properties that it leaves open are those of the style that it is based on.
#[derive(Debug, Default, Clone)]
struct Style {
    based_on: Option<String>,
    /// The level of the heading, from 1; 0 for body text.
    heading: Option<usize>,
    list: Option<String>,
    list_level: Option<usize>,
    is_hidden: Option<bool>,
}

/// The styles of a document.
#[derive(Debug, Default)]
pub(super) struct Styles(HashMap<String, Style>);

impl Styles {
    /// Reads `styles.xml`.
    pub(super) fn parse(text: &str, budget: &Budget<'_>) -> Result<Styles, Failure> {
        let mut styles = HashMap::new();
        let mut id = String::new();
        let mut style = Style::default();
        let mut xml = Xml::new(text, budget);
        while let Some(event) = xml.next()? {
            match event {
                Event::Open(tag) => match tag.name() {
                    "style" => {
                        id = tag.attr("styleId").unwrap_or_default().into_owned();
                        style = Style::default();
                    }
                    "name" => {
                        style.heading =
                            style.heading.or_else(|| heading(&tag.attr("val").unwrap_or_default()))
                    }
                    "basedOn" => style.based_on = tag.attr("val").map(std::borrow::Cow::into_owned),
                    "outlineLvl" => {
                        style.heading = style.heading.or_else(|| tag.number("val").map(outline_level))
                    }
                    "numId" => style.list = tag.attr("val").map(std::borrow::Cow::into_owned),
                    "ilvl" => style.list_level = tag.number("val"),
                    "vanish" => style.is_hidden = Some(tag.is_on("val")),
                    _ => {}
                },
                Event::Close(tag) if tag.name() == "style" && styles.len() < STYLES_MAX => {
                    styles.insert(std::mem::take(&mut id), std::mem::take(&mut style));
                }
                Event::Close(_) | Event::Text(_) => {}
            }
        }
        Ok(Styles(styles))
    }

    /// The level of the heading that the style makes, from 1; 0 for body text.
    pub(super) fn heading(&self, id: &str) -> usize {
        self.find(id, |style| style.heading).unwrap_or(0)
    }

    /// The list of the style: its id and level.
    pub(super) fn list(&self, id: &str) -> Option<(String, usize)> {
        let list = self.find(id, |style| style.list.clone())?;
        Some((list, self.find(id, |style| style.list_level).unwrap_or(0)))
    }

    /// Whether text in the style is hidden.
    pub(super) fn is_hidden(&self, id: &str) -> bool {
        self.find(id, |style| style.is_hidden).unwrap_or(false)
    }

    /// The property of the style, or of the first one that it is based on.
    fn find<T>(&self, id: &str, property: impl Fn(&Style) -> Option<T>) -> Option<T> {
        let mut id = id;
        for _ in 0..CHAIN_MAX {
            let style = self.0.get(id)?;
            if let Some(value) = property(style) {
                return Some(value);
            }
            id = style.based_on.as_deref()?;
        }
        None
    }
}

/// The level of the heading that a built-in style is; their names are English in every language of Word.
fn heading(name: &str) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    match name.strip_prefix("heading ") {
        Some(level) => level.parse().ok(),
        None => (name == "title").then_some(1),
    }
}

/// The level of a heading, from 1, of an outline level, from 0. The level 9 is body text.
pub(super) fn outline_level(level: usize) -> usize {
    if level < 9 { level + 1 } else { 0 }
}
