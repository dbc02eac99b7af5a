//! Texts of a request or reply that their reader takes for one: the parts of a message, and what the gateway joins for other providers.

use std::ops::Range;

use weir_translate::json::{Edits, Value};

use super::file::File;
use super::walk::{Check, Reading, Walk, check_one, is_tokens, looks_like_json, without_escapes};

/// Longest string of a list that is taken for a piece of a text, in bytes.
const PIECE_BYTES_MAX: usize = 64;

/// A string that is read together with others.
struct Text {
    range: Range<usize>,
    text: String,
    /// Whether it is JSON, which is checked by itself.
    is_alone: bool,
}

impl Walk<'_> {
    /// Checks texts of an array together, so that nothing passes that begins in one and ends in another; where those begin that were checked so far,
    /// if there are more of them.
    /// Files are left to be checked as such. `field`: the key of the array. `is_unknown`: whether it is in a field that is none of the APIs'.
    pub(super) fn joined<E>(
        self,
        array: Value<'_>,
        field: &str,
        is_unknown: bool,
        edits: &mut Edits,
        check: &mut Check<'_, E>,
    ) -> Result<Option<Vec<usize>>, E> {
        if is_unknown {
            self.check_pieces(array, edits, check)?;
        }
        let mut values = Vec::new();
        for item in array.items() {
            let is_instruction =
                item.get("role").is_some_and(|role| role.is("system") || role.is("developer"));
            // those of the items of an answer are joined by the libraries of its API
            if is_instruction || field == "output" {
                texts_of_content(item, &mut values);
            }
            texts_of_part(item, &mut values);
        }
        self.checked_together(&values, edits, check)
    }

    /// The same for the text and the refusal of a message.
    pub(super) fn joined_fields<E>(
        self,
        message: Value<'_>,
        edits: &mut Edits,
        check: &mut Check<'_, E>,
    ) -> Result<Option<Vec<usize>>, E> {
        let mut values = Vec::new();
        if message.get("refusal").is_some_and(Value::is_string) && message.get("content").is_some() {
            texts_of_content(message, &mut values);
            values.extend(message.get("refusal"));
        }
        self.checked_together(&values, edits, check)
    }

    fn checked_together<E>(
        self,
        values: &[Value<'_>],
        edits: &mut Edits,
        check: &mut Check<'_, E>,
    ) -> Result<Option<Vec<usize>>, E> {
        let texts: Vec<Text> = values.iter().filter_map(|value| self.text_of(*value)).collect();
        if texts.len() < 2 {
            return Ok(None);
        }
        let mut starts = self.joined.to_vec();
        let before: Vec<&str> =
            texts.iter().filter(|text| !text.is_alone).map(|text| text.text.as_str()).collect();
        let is_one = before.len() < 2;
        let changed = if is_one { None } else { check(&before, Reading::Text)? };
        let mut changed = changed.map(Vec::into_iter);
        for Text { range, text, is_alone } in &texts {
            let now = if is_one || *is_alone {
                self.text(text, false, check)?
            } else {
                let changed = changed.as_mut().and_then(Iterator::next).filter(|changed| changed != text);
                let plain = without_escapes(changed.as_ref().unwrap_or(text));
                let found = plain.map_or(Ok(None), |plain| check_one(&plain, Reading::Text, check))?;
                let changed = found.or(changed);
                self.restored(changed.as_ref().unwrap_or(text)).or(changed)
            };
            if let Some(now) = now {
                // in place of what it becomes by itself
                edits.take(range);
                edits.replace_by_string(range.clone(), &now);
            }
            starts.push(range.start);
        }
        starts.sort_unstable();
        Ok(Some(starts))
    }

    /// A text that is checked with others, unless it was before, or is elsewhere.
    fn text_of(self, value: Value<'_>) -> Option<Text> {
        let (range, text) = (value.range(), value.as_str()?.into_owned());
        let is_file = File::of(false, &text).is_some_and(|file| file.is_whole);
        let is_checked = self.skipped.contains(&range) || self.joined.binary_search(&range.start).is_ok();
        (!is_file && !is_checked).then(|| Text { range, is_alone: looks_like_json(&text), text })
    }

    /// Checks a list of short strings as one text, without and with blanks between: a server may repeat the tokens of an answer in it.
    fn check_pieces<E>(self, array: Value<'_>, edits: &mut Edits, check: &mut Check<'_, E>) -> Result<(), E> {
        let is_piece = |item: &Value<'_>| item.is_string() && item.raw().len() <= PIECE_BYTES_MAX + 2;
        if !array.items().all(|item| is_piece(&item)) || array.items().nth(1).is_none() {
            return Ok(());
        }
        let pieces: Vec<_> = array.items().map(Value::string).collect();
        let joined: Vec<&str> = pieces.iter().map(|piece| &**piece).collect();
        let blanks: Vec<&str> = joined.iter().flat_map(|piece| [" ", *piece]).collect();
        let mut replace = |changed: Vec<String>| {
            for ((item, piece), changed) in array.items().zip(&pieces).zip(changed) {
                if changed != **piece {
                    edits.take(&item.range());
                    edits.replace_by_string(item.range(), &changed);
                }
            }
        };
        check(&joined, Reading::Text)?.into_iter().for_each(&mut replace);
        let changed = check(&blanks, Reading::Text)?;
        changed.into_iter().for_each(|changed| replace(changed.into_iter().skip(1).step_by(2).collect()));
        Ok(())
    }
}

/// Appends the texts of a message, in order.
fn texts_of_content<'v>(message: Value<'v>, texts: &mut Vec<Value<'v>>) {
    if let Some(content) = message.get("content") {
        texts.extend(Some(content).filter(|content| content.is_string()));
        content.items().for_each(|part| texts_of_part(part, texts));
    }
}

/// Appends the texts of a part of a message, in the order in which they become one for providers that have no such part.
fn texts_of_part<'v>(part: Value<'v>, texts: &mut Vec<Value<'v>>) {
    let kind = part.get("type").and_then(Value::as_str);
    let is_document = matches!(kind.as_deref(), Some("document" | "search_result"));
    if is_document {
        texts.extend(["title", "context", "source"].into_iter().filter_map(|name| part.get(name)));
        let source =
            part.get("source").filter(|source| source.get("type").is_some_and(|kind| kind.is("text")));
        texts.extend(source.and_then(|source| source.get("data")));
        part.get("source").into_iter().for_each(|source| texts_of_content(source, texts));
        texts_of_content(part, texts);
    }
    texts.extend(["text", "refusal"].into_iter().filter_map(|name| part.get(name)));
}

/// Whether a field has the tokens of a text.
pub(super) fn is_of_tokens(field: &str) -> bool {
    ["logprobs", "probs", "probabilities"].iter().any(|end| field.ends_with(end))
}

/// Whether a list of a reply repeats a text as tokens: their numbers, or what they are.
pub(super) fn repeats_text(list: Value<'_>, field: &str) -> bool {
    let mut items = list.items().peekable();
    let is_token = |item: Value<'_>| {
        let is_object = ["token", "tok_str", "decoded_token"].iter().any(|name| item.get(name).is_some());
        is_object || item.is_string() && field.ends_with("tokens")
    };
    is_tokens(list) || items.peek().is_some() && items.all(is_token)
}
