//! The translation of each content and field of one API to another: one table, which is checked against the translation and is
//! `docs/translation.md`. `UPDATE_DOCS=1` rewrites that page.

#![allow(clippy::disallowed_methods, reason = "`UPDATE_DOCS` is read by a test")]

mod messages_requests;
mod replies;
mod requests;

use std::fmt::Write as _;

use super::*;
use crate::{anthropic, gemini, messages};

/// The text in every example that is looked for in what is sent.
const MARKER: &str = "MARKER";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/translation.md");
const HEAD: &str = "# What crosses between APIs

Generated from the tables in `crates/translate/src/tests/crossing` (`UPDATE_DOCS=1 cargo test -p weir-translate` rewrites this page), whose tests translate an example of
each row.

Where the API of the route and that of the provider are [the same](llm.md#providers-and-apis), bodies are passed on byte by byte and nothing here applies. Where they differ, a content or a field is

- *carried*: it has a counterpart,
- *rewritten*: it is said in another way, with the same meaning,
- *ignored*: the provider has no counterpart, and the reply's meaning stays the same or the part is of use to its own provider alone,
- *refused*: the request is answered by 400 `invalid_parameter` with the name of the field and the remedy.

A field that no row names is refused, but for those of sampling that a provider has not (`min_p`, `top_a`, `repetition_penalty`) and those of other routes (`input`, `prompt`). Keys keep their order and numbers their spelling: models answer in the order of a schema's keys. The replacement character U+FFFD stands for a half of a surrogate pair.
";

#[derive(Clone, Copy)]
enum Direction {
    ChatToAnthropic,
    ChatToGemini,
    AnthropicToChat,
    GeminiToChat,
    MessagesToOpenai,
    MessagesToChat,
    ChatToMessages,
}

struct Table {
    title: &'static str,
    directions: &'static [(&'static str, Direction)],
    rows: &'static [Row],
}

struct Row {
    what: &'static str,
    /// A part, messages, fields, or the content of a reply.
    example: &'static str,
    /// One for each direction, or one for all.
    cells: &'static [Cell],
}

impl Row {
    fn cell(&self, direction: usize) -> &Cell {
        &self.cells[direction.min(self.cells.len() - 1)]
    }
}

enum Fate {
    Carried,
    Rewritten,
    Ignored,
    Refused,
}

struct Cell {
    fate: Fate,
    /// The part of the example that is sent, the part that is not, or the field that is refused.
    proof: &'static str,
    note: &'static str,
}

const fn carried(proof: &'static str) -> Cell {
    Cell { fate: Fate::Carried, proof, note: "" }
}

const fn rewritten(proof: &'static str, note: &'static str) -> Cell {
    Cell { fate: Fate::Rewritten, proof, note }
}

const fn ignored(note: &'static str) -> Cell {
    Cell { fate: Fate::Ignored, proof: MARKER, note }
}

const fn without(proof: &'static str, note: &'static str) -> Cell {
    Cell { fate: Fate::Ignored, proof, note }
}

const fn refused(field: &'static str, note: &'static str) -> Cell {
    Cell { fate: Fate::Refused, proof: field, note }
}

fn body_of(example: &str) -> String {
    let user = r#"{"role":"user","content":"u"}"#;
    match example {
        part if part.starts_with(r#"{"type""#) => {
            format!(r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"u"}},{part}]}}]}}"#)
        }
        messages if messages.starts_with('{') => format!(r#"{{"messages":[{user},{messages}]}}"#),
        fields => format!(r#"{{"messages":[{user}],{fields}}}"#),
    }
}

/// The translation of an example.
fn translate(direction: Direction, example: &str) -> Result<String, TranslateError> {
    let request = body_of(example);
    let context = context(false);
    let body = match direction {
        Direction::ChatToAnthropic => anthropic::request(request.as_bytes(), "claude-sonnet-4-5")?,
        Direction::ChatToGemini => gemini::request(request.as_bytes(), "gemini-2.5-pro")?,
        Direction::MessagesToOpenai => messages::request(request.as_bytes(), "gpt-5", true)?,
        Direction::MessagesToChat => messages::request(request.as_bytes(), "m", true)?,
        Direction::AnthropicToChat => {
            anthropic::reply(
                format!(r#"{{"content":[{example}],"stop_reason":"end_turn"}}"#).as_bytes(),
                &context,
            )?
            .0
        }
        Direction::GeminiToChat => {
            let candidate =
                format!(r#"{{"candidates":[{{"content":{{"parts":[{example}]}},"finishReason":"STOP"}}]}}"#);
            gemini::reply(candidate.as_bytes(), &context)?.0
        }
        Direction::ChatToMessages => {
            let choice = format!(r#"{{"choices":[{{"message":{{{example}}},"finish_reason":"stop"}}]}}"#);
            messages::reply(choice.as_bytes(), &context)?.0
        }
    };
    Ok(String::from_utf8(body).unwrap())
}

fn check(cell: &Cell, direction: Direction, example: &str) {
    let translated = translate(direction, example);
    match (&cell.fate, translated) {
        (Fate::Carried | Fate::Rewritten, Ok(body)) => {
            assert!(body.contains(cell.proof), "{} is not in {body}", cell.proof);
        }
        (Fate::Ignored, Ok(body)) => assert!(!body.contains(cell.proof), "{} is in {body}", cell.proof),
        (Fate::Refused, Err(error)) => {
            let message = error.to_string();
            assert!(message.starts_with(&format!("`{}`: ", cell.proof)), "{message} for {example}");
        }
        (_, translated) => panic!("{translated:?} of {example}"),
    }
}

#[test]
fn every_row_is_what_the_translation_does() {
    for table in requests::TABLES.iter().chain(replies::TABLES) {
        for row in table.rows {
            for (number, (_, direction)) in table.directions.iter().enumerate() {
                check(row.cell(number), *direction, row.example);
            }
        }
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for table in requests::TABLES.iter().chain(replies::TABLES) {
        let columns: Vec<&str> = table.directions.iter().map(|(name, _)| *name).collect();
        let _ = writeln!(page, "\n## {}\n\n| what | {} |", table.title, columns.join(" | "));
        let _ = writeln!(page, "|{}", "---|".repeat(columns.len() + 1));
        for row in table.rows {
            let cells: Vec<String> = (0..columns.len()).map(|number| text_of(row.cell(number))).collect();
            let _ = writeln!(page, "| {} | {} |", row.what, cells.join(" | "));
        }
    }
    page
}

fn text_of(cell: &Cell) -> String {
    let fate = match cell.fate {
        Fate::Carried => "carried",
        Fate::Rewritten => "rewritten",
        Fate::Ignored => "ignored",
        Fate::Refused => "refused",
    };
    match cell.note {
        "" => fate.to_owned(),
        note => format!("{fate}: {note}"),
    }
}

#[test]
fn the_page_has_every_row() {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, page()).unwrap();
    }
    let found = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        found == page(),
        "docs/translation.md is out of date; run `UPDATE_DOCS=1 cargo test -p weir-translate`"
    );
}
