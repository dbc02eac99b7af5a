//! Events that differ in one text only.

use std::ops::Range;
use std::sync::Arc;

use weir_translate::conversation::{Lane, Pieces};
use weir_translate::json::Tape;

use super::super::vocabulary::is_name;
use super::super::walk::is_data_name;
use super::write::Template;

/// Upper bound of the bytes around the text.
const FORM_BYTES_MAX: usize = 4096;

/// The data of an event with one text that goes on, of which everything else was checked and nothing found, and came before. Most events of a stream have the same
/// form: all around their text is equal byte for byte, so that it need not be read and checked again.
pub(super) struct Form {
    before: Vec<u8>,
    behind: Vec<u8>,
    lane: Lane,
    has_more: bool,
    /// The event, in whose frame text is sent later, and the place of its text.
    pub(super) template: (Arc<Template>, Range<usize>),
}

impl Form {
    /// The form of an event, if it has one text and changes nothing else that is known of the stream.
    pub(super) fn of(data: &[u8], pieces: &Pieces) -> Option<Form> {
        let Pieces { texts, ended, calls, unnumbered, numbers, begins, repeats, ends_all, has_more, .. } =
            pieces;
        let [(lane, range)] = texts.as_slice() else { return None };
        let is_plain = !is_within_data(&lane.path)
            && ended.is_empty()
            && calls.is_empty()
            && unnumbered.is_empty()
            && numbers.is_empty()
            && begins.is_empty()
            && repeats.is_empty()
            && !ends_all;
        let has_room = data.len() - range.len() <= FORM_BYTES_MAX;
        (is_plain && has_room).then(|| Form {
            before: data[..range.start].to_vec(),
            behind: data[range.end..].to_vec(),
            lane: lane.clone(),
            has_more: *has_more,
            template: (Arc::default(), range.clone()),
        })
    }

    /// The pieces of an event, if it has this form.
    pub(super) fn pieces(&self, data: &[u8]) -> Option<Pieces> {
        let text = data.strip_prefix(&*self.before)?.strip_suffix(&*self.behind)?;
        let is_string = text.starts_with(b"\"") && text.ends_with(b"\"") && Tape::parse(text).is_ok();
        let range = self.before.len()..self.before.len() + text.len();
        is_string.then(|| Pieces {
            texts: vec![(self.lane.clone(), range)],
            has_more: self.has_more,
            ..Pieces::default()
        })
    }
}

/// Whether a text is part of JSON whose keys and values are read together.
fn is_within_data(path: &str) -> bool {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut names = path.split(['.', '[', ']']).filter(|name| !is_number(name)).rev();
    let last = names.next().unwrap_or_default();
    !is_name(last) || names.any(|name| !is_name(name) || is_data_name(name))
}

#[cfg(test)]
mod tests {
    use weir_translate::conversation::{Api, pieces};

    use super::*;

    fn chunk(delta: &str) -> String {
        format!("{{\"id\":\"c1\",\"choices\":[{{\"index\":0,\"delta\":{delta}}}],\"usage\":null}}")
    }

    #[test]
    fn events_of_one_form_have_the_pieces_that_reading_them_gives() {
        let first = chunk("{\"content\":\"a\"}");
        let form = Form::of(first.as_bytes(), &pieces(Api::ChatCompletions, &first)).unwrap();
        for text in ["\"\"", "\"b\"", "\"\\\"} \\u00e9\"", "\" \""] {
            let event = chunk(&format!("{{\"content\":{text}}}"));
            let mut read = pieces(Api::ChatCompletions, &event);
            // all of them stand around the text
            read.complete.clear();
            read.names.clear();
            assert_eq!(form.pieces(event.as_bytes()).unwrap(), read, "{event}");
        }
        let others = [
            "{\"content\":1}",
            "{\"content\":null}",
            "{\"content\":\"a\",\"content\":\"b\"}",
            "{\"content\":\"a\",\"note\":\"b\"}",
            "{\"content\":\"a\" }",
            "{\"content\":\"\n\"}",
            "{\"content\":\"\\x\"}",
            "{\"content\":\"}",
        ];
        for delta in others {
            assert!(form.pieces(chunk(delta).as_bytes()).is_none(), "{delta}");
        }
        // shorter than what stands around the text
        assert!(form.pieces(&first.as_bytes()[..first.len() - 3]).is_none());
    }

    #[test]
    fn an_event_that_says_more_than_its_text_has_no_form() {
        let of = |event: &str| Form::of(event.as_bytes(), &pieces(Api::ChatCompletions, event)).is_some();
        assert!(of(&chunk("{\"content\":\"a\"}")));
        for delta in ["{}", "{\"content\":\"a\",\"refusal\":\"b\"}", "{\"id\":\"c\",\"content\":\"a\"}"] {
            assert!(!of(&chunk(delta)), "{delta}");
        }
        assert!(!of(
            &chunk("{\"content\":\"a\"}").replace("\"index\":0", "\"index\":0,\"finish_reason\":\"stop\"")
        ));
        assert!(!of(&chunk(&format!("{{\"content\":\"a\",\"type\":\"{}\"}}", "b".repeat(FORM_BYTES_MAX)))));
    }
}
