//! The numbers that Word generates for list items and headings.

use std::collections::HashMap;

use crate::Failure;
use crate::budget::Budget;
use crate::numbers::{self, Numbering};
use crate::xml::{Event, Tag, Xml};

/// Levels of a list.
const LEVELS: usize = 9;
/// Lists of one document.
const LISTS_MAX: usize = 20_000;

/// One level of a list.
#[derive(Debug, Clone, Default)]
struct Level {
    start: Option<u32>,
    /// `None` for a bullet.
    numbering: Option<Numbering>,
    /// The text of the number, with `%1` for the number of the first level.
    pattern: String,
}

/// A list that paragraphs refer to.
#[derive(Debug, Default)]
struct List {
    /// The definition, whose numbers it continues.
    definition: String,
    /// Levels that begin anew with this list, with their number.
    restarts: [Option<u32>; LEVELS],
    has_begun: bool,
}

/// The lists of a document and their numbers up to here.
#[derive(Debug, Default)]
pub(super) struct Lists {
    definitions: HashMap<String, [Level; LEVELS]>,
    lists: HashMap<String, List>,
    counters: HashMap<String, [Option<u32>; LEVELS]>,
}

impl Lists {
    /// Reads `numbering.xml`.
    pub(super) fn parse(text: &str, budget: &Budget<'_>) -> Result<Lists, Failure> {
        let mut lists = Lists::default();
        let mut parser = Parser::default();
        let mut xml = Xml::new(text, budget);
        while let Some(event) = xml.next()? {
            match event {
                Event::Open(tag) => parser.open(&tag),
                Event::Close(tag) => parser.close(tag.name(), &mut lists),
                Event::Text(_) => {}
            }
        }
        Ok(lists)
    }

    /// Counts an item of the list `id`. Returns its number, empty for a bullet; `None` where there is no such list.
    pub(super) fn next(&mut self, id: &str, level: usize) -> Option<String> {
        let list = self.lists.get_mut(id)?;
        let levels = self.definitions.get(&list.definition)?;
        let level = level.min(LEVELS - 1);
        let counters = self.counters.entry(list.definition.clone()).or_default();
        if !list.has_begun {
            list.has_begun = true;
            for (counter, restart) in counters.iter_mut().zip(list.restarts) {
                *counter = restart.map(|start| start.wrapping_sub(1)).or(*counter);
            }
        }
        let start = |level: usize| levels[level].start.unwrap_or(1);
        counters[level] = Some(counters[level].map_or(start(level), |number| number.wrapping_add(1)));
        for deeper in &mut counters[level + 1..] {
            *deeper = None;
        }
        levels[level].numbering?;
        let mut number = String::new();
        let mut pattern = levels[level].pattern.chars();
        while let Some(character) = pattern.next() {
            let digit = if character == '%' {
                pattern.clone().next().and_then(|digit| digit.to_digit(10))
            } else {
                None
            };
            match digit {
                Some(digit @ 1..=9) => {
                    pattern.next();
                    let of = digit as usize - 1;
                    let numbering = levels[of].numbering.unwrap_or_default();
                    number.push_str(&numbers::render(counters[of].unwrap_or(start(of)), numbering));
                }
                Some(_) | None => number.push(character),
            }
        }
        Some(number.trim().to_owned())
    }
}

/// The definition or list that is open.
#[derive(Debug, Default)]
struct Parser {
    definition: Option<String>,
    levels: [Level; LEVELS],
    list: Option<(String, List)>,
    level: usize,
}

impl Parser {
    fn open(&mut self, tag: &Tag<'_>) {
        let value = || tag.attr("val").unwrap_or_default().into_owned();
        let level = &mut self.levels[self.level];
        match tag.name() {
            "abstractNum" => {
                self.definition = Some(tag.attr("abstractNumId").unwrap_or_default().into_owned());
                self.levels = Default::default();
            }
            "num" => self.list = Some((tag.attr("numId").unwrap_or_default().into_owned(), List::default())),
            "lvl" | "lvlOverride" => self.level = tag.number("ilvl").unwrap_or(0).min(LEVELS - 1),
            "start" if self.definition.is_some() => level.start = tag.number("val"),
            "numFmt" if self.definition.is_some() => level.numbering = Numbering::of_word(&value()),
            "lvlText" if self.definition.is_some() => level.pattern = value().chars().take(100).collect(),
            "abstractNumId" => {
                if let Some((_, list)) = &mut self.list {
                    list.definition = value();
                }
            }
            "startOverride" => {
                if let Some((_, list)) = &mut self.list {
                    list.restarts[self.level] = tag.number("val");
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str, lists: &mut Lists) {
        if name == "abstractNum" && lists.definitions.len() < LISTS_MAX {
            if let Some(id) = self.definition.take() {
                lists.definitions.insert(id, std::mem::take(&mut self.levels));
            }
        } else if name == "num"
            && lists.lists.len() < LISTS_MAX
            && let Some((id, list)) = self.list.take()
        {
            lists.lists.insert(id, list);
        }
    }
}
