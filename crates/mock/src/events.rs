//! Shapes of completions, and the order of a stream's steps.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use crate::chaos::{Fault, FaultSet};
use crate::echo::Message;
use crate::provider::{ERROR_IN_STREAM, Provider};
use crate::quirks::{Quirk, QuirkSet};
use crate::reply::{Finish, Reply};
use crate::request::{Prompt, Refusal};
use crate::timing::Delays;

/// Comments of `comments-first`.
const COMMENTS_FIRST: u32 = 4;

/// `created` of every reply, so that its bytes are always the same.
pub(crate) const CREATED: u64 = 1_700_000_000;

/// One request for a completion and its reply.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Number of the request, from 1; part of the reply's ids.
    pub(crate) number: u64,
    /// The model as a JSON string.
    pub(crate) model: String,
    pub(crate) prompt: Prompt,
    pub(crate) reply: Reply,
    pub(crate) quirks: QuirkSet,
}

impl Exchange {
    /// The name of the called tool as a JSON string.
    pub(crate) fn tool(&self) -> Option<String> {
        self.reply.tool.as_deref().map(json_string)
    }

    pub(crate) fn finish(&self) -> Finish {
        self.reply.finish()
    }
}

/// `text` as a JSON string.
pub(crate) fn json_string(text: &str) -> String {
    // a string always has a JSON form
    serde_json::to_string(text).unwrap_or_default()
}

/// How one route of a provider writes completions.
///
/// A stream is `opening`, one `piece` per part of the reply from 1, `closing` and `end`. Each appends complete events.
pub(crate) trait Shape: Sync {
    fn provider(&self) -> Provider;
    /// Reads a request's body.
    fn parse(&self, body: &Value) -> Result<Prompt, Refusal>;
    /// The texts of the prompt in a request's body.
    fn messages(&self, body: &Value) -> Vec<Message>;
    /// The body of a reply without stream.
    fn whole(&self, exchange: &Exchange) -> String;
    fn opening(&self, exchange: &Exchange, out: &mut String);
    fn piece(&self, exchange: &Exchange, number: u32, out: &mut String);
    fn closing(&self, exchange: &Exchange, out: &mut String);
    /// The event that says that the stream is complete.
    fn end(&self, exchange: &Exchange, out: &mut String);
    /// The event that reports an error after `pieces` pieces; the stream ends with it.
    fn error(&self, _exchange: &Exchange, _pieces: u32, out: &mut String) {
        out.push_str(&self.provider().error_event());
    }
    /// The body of a reply that is an error although its status is 200.
    fn failed(&self, _exchange: &Exchange) -> String {
        let message = ERROR_IN_STREAM.to_owned();
        self.provider().error_body(&Refusal { status: 429, message, param: None })
    }
}

/// One step of sending a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Close the connection.
    Drop,
}

/// The steps of a stream, made one token at a time.
pub(crate) struct EventStream {
    pub(crate) shape: &'static dyn Shape,
    pub(crate) exchange: Exchange,
    pub(crate) delays: Delays,
    pub(crate) faults: FaultSet,
    pub(crate) stall: Duration,
    /// Number of the next piece; 0 is the opening.
    pub(crate) next: u32,
}

impl EventStream {
    /// Appends the next steps; none at the end.
    pub(crate) fn refill(&mut self, steps: &mut VecDeque<Step>) {
        let pieces = self.exchange.reply.pieces();
        match self.next {
            0 => self.start(steps),
            number if number <= pieces => self.piece(number, steps),
            number if number == pieces + 1 => self.finish(steps),
            _ => return,
        }
        self.next += 1;
    }

    fn start(&mut self, steps: &mut VecDeque<Step>) {
        if self.has(Quirk::Bom) {
            steps.push_back(Step::Send("\u{FEFF}".into()));
        }
        self.wait_for_first_token(steps);
        if self.faults.has(Fault::StallFirstToken) {
            steps.push_back(Step::Wait(self.stall));
        }
        if self.faults.has(Fault::DropFirstToken) {
            steps.push_back(Step::Drop);
        }
        if self.has(Quirk::ErrorFirst) {
            return self.fail(0, steps);
        }
        self.send(steps, |shape, exchange, out| shape.opening(exchange, out));
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.exchange.quirks.has(quirk)
    }

    fn wait_for_first_token(&self, steps: &mut VecDeque<Step>) {
        let delay = self.delays.first_token();
        if !self.has(Quirk::CommentsFirst) {
            return steps.push_back(Step::Wait(delay));
        }
        for _ in 0..COMMENTS_FIRST {
            steps.push_back(Step::Send(b": OPENROUTER PROCESSING\n\n".to_vec()));
            steps.push_back(Step::Wait(delay / COMMENTS_FIRST));
        }
    }

    /// Ends the stream by an error event after `pieces` pieces.
    fn fail(&mut self, pieces: u32, steps: &mut VecDeque<Step>) {
        self.send(steps, |shape, exchange, out| shape.error(exchange, pieces, out));
        self.next = u32::MAX - 1;
    }

    fn piece(&mut self, number: u32, steps: &mut VecDeque<Step>) {
        steps.push_back(Step::Wait(self.delays.token(number)));
        if number != middle(self.exchange.reply.pieces()) {
            return self.send(steps, |shape, exchange, out| shape.piece(exchange, number, out));
        }
        let faults = self.faults;
        self.send(steps, |shape, exchange, out| {
            shape.piece(exchange, number, out);
            if faults.has(Fault::Malformed) {
                cut_json(out);
            }
            if faults.has(Fault::NoBlankLine) {
                remove_blank_line(out);
            }
        });
        if faults.has(Fault::StallMidstream) {
            steps.push_back(Step::Wait(self.stall));
        }
        if faults.has(Fault::DropMidstream) {
            steps.push_back(Step::Drop);
        }
        if faults.has(Fault::ErrorMidstream) {
            self.fail(number, steps);
        }
    }

    fn finish(&mut self, steps: &mut VecDeque<Step>) {
        self.send(steps, |shape, exchange, out| shape.closing(exchange, out));
        if !self.faults.has(Fault::NoDone) {
            self.send(steps, |shape, exchange, out| shape.end(exchange, out));
        }
    }

    /// Appends a step that sends the output of `render`.
    fn send(&self, steps: &mut VecDeque<Step>, render: impl FnOnce(&dyn Shape, &Exchange, &mut String)) {
        let mut out = String::new();
        if self.faults.has(Fault::Ping) {
            out.push_str(": ping\n\n");
        }
        render(self.shape, &self.exchange, &mut out);
        if self.has(Quirk::DataLines) {
            out = split_data(&out);
        }
        steps.push_back(Step::Send(out.into_bytes()));
    }
}

/// The piece after which the faults of the middle happen.
fn middle(pieces: u32) -> u32 {
    (pieces / 2).max(1)
}

/// Ends each line `data:` after the brace that opens its JSON.
fn split_data(events: &str) -> String {
    let line_end = if events.contains("\r\n") { "\r\n" } else { "\n" };
    let lines = events.split_inclusive('\n').map(|line| match line.strip_prefix("data: {") {
        Some(rest) => format!("data: {{{line_end}data: {rest}"),
        None => line.to_owned(),
    });
    lines.collect()
}

/// Removes the last third of an event but keeps its end.
fn cut_json(event: &mut String) {
    let text_len = event.trim_end().len();
    let end = event.split_off(text_len);
    event.truncate(event.floor_char_boundary(text_len - text_len / 3));
    event.push_str(&end);
}

/// Removes the line end that separates an event from the next.
fn remove_blank_line(event: &mut String) {
    let line_end = if event.ends_with("\r\n") { 2 } else { 1 };
    event.truncate(event.len().saturating_sub(line_end));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_cut_inside_its_json_and_stays_an_event() {
        let mut event = "data: {\"text\":\"äöü\"}\r\n\r\n".to_owned();
        cut_json(&mut event);
        assert_eq!(event, "data: {\"text\":\"\r\n\r\n");
        remove_blank_line(&mut event);
        assert_eq!(event, "data: {\"text\":\"\r\n");
        let mut event = "data: 1\n\n".to_owned();
        remove_blank_line(&mut event);
        assert_eq!(event, "data: 1\n");
    }

    #[test]
    fn the_json_of_an_event_is_split_into_two_lines() {
        assert_eq!(
            split_data("event: e\ndata: {\"a\":1}\n\ndata: [DONE]\n\n"),
            "event: e\ndata: {\ndata: \"a\":1}\n\ndata: [DONE]\n\n"
        );
        assert_eq!(split_data("data: {\"a\":1}\r\n\r\n"), "data: {\r\ndata: \"a\":1}\r\n\r\n");
    }

    #[test]
    fn the_middle_is_after_the_first_piece_at_least() {
        assert_eq!([1, 2, 3, 4, 9].map(middle), [1, 1, 1, 2, 4]);
    }
}
