//! Changes to the bytes of a JSON text.

use std::ops::Range;

use super::write_string;

/// Replacements of byte ranges of a JSON text.
#[derive(Debug, Clone, Default)]
pub struct Edits(Vec<(Range<usize>, Vec<u8>)>);

impl Edits {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Replaces a range by JSON. Of changes that overlap, the first in the text holds; of those of one range, the first that was made.
    pub fn replace(&mut self, range: Range<usize>, json: Vec<u8>) {
        self.0.push((range, json));
    }

    /// The change of exactly this range.
    pub fn get(&self, range: &Range<usize>) -> Option<&[u8]> {
        self.0.iter().find(|(place, _)| place == range).map(|(_, json)| &**json)
    }

    /// Takes out the change of exactly this range.
    pub fn take(&mut self, range: &Range<usize>) -> Option<Vec<u8>> {
        let place = self.0.iter().position(|(place, _)| place == range)?;
        Some(self.0.remove(place).1)
    }

    /// Whether a change replaces more than this range, and the range with it.
    pub fn covers(&self, range: &Range<usize>) -> bool {
        let covers = |place: &Range<usize>| place.start <= range.start && range.end <= place.end;
        self.0.iter().any(|(place, _)| place != range && covers(place))
    }

    /// Replaces a range by a JSON string.
    pub fn replace_by_string(&mut self, range: Range<usize>, text: &str) {
        let mut json = Vec::with_capacity(text.len() + 2);
        write_string(&mut json, text);
        self.replace(range, json);
    }

    /// The text with the changes.
    pub fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut edits: Vec<&(Range<usize>, Vec<u8>)> = self.0.iter().collect();
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        let more: usize = edits.iter().map(|(_, json)| json.len()).sum();
        let mut written = Vec::with_capacity(text.len() + more);
        let mut at = 0;
        for (range, json) in edits {
            if range.start < at {
                continue;
            }
            written.extend_from_slice(&text[at..range.start]);
            written.extend_from_slice(json);
            at = range.end;
        }
        written.extend_from_slice(&text[at..]);
        written
    }
}
