//! The strings of an event that are checked together with earlier events, besides pieces of texts: complete strings, and texts whose pieces were
//! sent.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash, RandomState};
use std::iter;
use std::ops::Range;

use weir_translate::SseEvent;
use weir_translate::conversation::{CompleteString, Lane};
use weir_translate::json::{Edits, Value, unescaped};

use super::super::vocabulary::is_name;
use super::super::walk::{Reading, Walk, is_json, restored_text};
use super::joined::chain_of;
use super::{BlockedBy, StreamFilter};
use crate::Placeholders;

/// Where the names of events are kept that are none of the APIs'.
const EVENT_NAMES: u64 = 0;
/// How much of the strings under the same names is checked with the next one.
const EARLIER_BYTES_MAX: usize = 1024;

/// Different names under which one stream has strings that are no pieces of texts.
const EARLIER_MAX: usize = 16_384;
/// The name of the rule that stops such a stream.
const EARLIER_RULE: &str = "at most 16,384 strings under different names in a stream";

/// Strings that were complete in earlier events, by a hash of their names.
#[derive(Default)]
pub(super) struct EarlierStrings {
    strings: HashMap<u64, Earlier>,
    hash_keys: RandomState,
}

/// Earlier strings under the same names.
#[derive(Default)]
struct Earlier {
    /// The end of all that came, in which something may have begun. `None` before the first.
    end: Option<String>,
    /// The hash of what came, if each event had the same.
    repeated: Option<u64>,
}

impl EarlierStrings {
    /// The end of the strings of these names, if something may have begun in it.
    pub(super) fn end(&self, names: u64) -> Option<String> {
        self.strings.get(&names)?.end.clone().filter(|end| !end.is_empty())
    }
}

impl StreamFilter {
    /// The most that is held of one kind.
    pub(super) fn places_held(&self) -> usize {
        let texts = self.lanes.len().max(self.ended.len()).max(self.open_texts.len());
        [self.places.len(), self.calls.len(), self.repeated.len()].into_iter().fold(texts, usize::max)
    }

    /// Whether nothing is found in the name of an event that is none of the API's, and in those before it.
    pub(super) fn is_name_clean(&mut self, event: &SseEvent) -> Result<bool, BlockedBy> {
        let Ok(name) = str::from_utf8(event.name()) else { return Ok(false) };
        if is_name(name) {
            return Ok(true);
        }
        let checks = self.checks.clone();
        let is_changed = self.complete(&[name], Reading::Text, &checks, true)?.is_some();
        let (_, joined) = self.go_on(EVENT_NAMES, &[name], false)?;
        Ok(joined.is_none() && !is_changed)
    }

    /// The changes to strings that are complete in an event, but for those at `places`. `restores`: the placeholders that are replaced.
    pub(super) fn complete_strings(
        &mut self,
        root: Value<'_>,
        places: &[Range<usize>],
        restores: Option<&Placeholders>,
    ) -> Result<Edits, BlockedBy> {
        self.has_found = false;
        let checks = self.checks.clone();
        let models = std::mem::take(&mut self.models);
        let walk = Walk {
            skipped: places,
            removes_tokens: checks.changes_streams(),
            models: &models,
            restores,
            ..Walk::default()
        };
        // the events of responses repeat texts that were counted
        let is_new = !self.api.repeats_texts();
        let edits = walk.edits(root, &mut |texts, reading| self.complete(texts, reading, &checks, is_new));
        self.models = models;
        edits
    }

    /// Checks the strings that are complete in an event together with what came under the same names before: some clients append them, and what was
    /// sent before stays. Whether earlier events had the same, and nothing else.
    pub(super) fn complete_go_on(
        &mut self,
        mut complete: Vec<CompleteString>,
        data: &[u8],
        edits: &mut Edits,
    ) -> Result<bool, BlockedBy> {
        if self.checks.output.is_none() {
            return Ok(true);
        }
        complete.sort_by_key(|string| string.names);
        let mut are_repeated = true;
        for same in complete.chunk_by(|string, other| string.names == other.names) {
            let text_of =
                |string: &CompleteString| unescaped(&data[string.place.clone()]).unwrap_or_default();
            let texts: Vec<String> = same.iter().map(text_of).collect();
            let is_one = same.iter().any(|string| string.is_of_same_entry);
            let (is_repeated, changed) = self.go_on(same[0].names, &texts, is_one)?;
            are_repeated &= is_repeated;
            for ((string, text), changed) in same.iter().zip(&texts).zip(changed.into_iter().flatten()) {
                if changed != *text {
                    // in place of what it becomes by itself
                    edits.take(&string.place);
                    edits.replace_by_string(string.place.clone(), &changed);
                }
            }
        }
        Ok(are_repeated)
    }

    /// Checks texts together with what came under the same names before. Whether they were repeated, and what they become if something begins in one and
    /// ends in another. `is_one`: whether clients append them to each other, also where nothing came before.
    fn go_on<T: AsRef<str> + Hash>(
        &mut self,
        names: u64,
        texts: &[T],
        is_one: bool,
    ) -> Result<(bool, Option<Vec<String>>), BlockedBy> {
        let checks = self.checks.clone();
        let Some(rules) = &checks.output else { return Ok((true, None)) };
        if texts.iter().all(|text| text.as_ref().is_empty()) {
            return Ok((true, None));
        }
        let hash = self.earlier.hash_keys.hash_one(texts);
        let is_full = self.earlier.strings.len() == EARLIER_MAX;
        let earlier = match self.earlier.strings.entry(names) {
            Entry::Vacant(_) if is_full => return Err(BlockedBy(EARLIER_RULE.to_owned())),
            // most servers repeat them in each event
            Entry::Occupied(entry) if entry.get().repeated == Some(hash) => return Ok((true, None)),
            entry @ (Entry::Occupied(_) | Entry::Vacant(_)) => entry.or_default(),
        };
        let is_first = earlier.end.is_none();
        let before = earlier.end.take().unwrap_or_default();
        let all: Vec<&str> = iter::once(&*before).chain(texts.iter().map(AsRef::as_ref)).collect();
        earlier.end = Some(rules.open_text(&all.concat(), EARLIER_BYTES_MAX).to_owned());
        earlier.repeated = is_first.then_some(hash);
        if is_first && !is_one {
            return Ok((false, None));
        }
        let found = Reading::Text.scan(&all, rules);
        if found.crossing.is_empty() {
            return Ok((false, None));
        }
        let changed = self.found(&all, &found, Reading::Text, &checks, true)?;
        Ok((false, changed.map(|changed| changed.into_iter().skip(1).collect())))
    }

    /// The changes to whole texts whose pieces were sent, if something of them began in the texts before: it is removed as from the pieces.
    pub(super) fn repeated(
        &mut self,
        repeats: Vec<(Lane, Range<usize>)>,
        data: &[u8],
        edits: &mut Edits,
    ) -> Result<(), BlockedBy> {
        let chains =
            repeats.iter().filter_map(|(lane, _)| chain_of(self.api, lane).map(|chain| (chain, lane)));
        let Some((chain, first)) = chains.map(|(chain, lane)| (chain, (lane.index, lane.part))).next() else {
            return Ok(());
        };
        let mut texts = Vec::new();
        for (lane, place) in repeats {
            let text = unescaped(&data[place.clone()]).unwrap_or_default();
            if chain_of(self.api, &lane).as_ref() == Some(&chain) && !is_json(&text) {
                texts.push(((lane.index, lane.part), place, text));
            }
        }
        let start = (chain.clone(), (0, 0));
        let earlier =
            self.repeated.range(start..(chain.clone(), first)).next_back().map(|(_, text)| text.clone());
        let (mut before, mut at) = earlier.unwrap_or_default();
        let all: Vec<&str> =
            iter::once(&*before).chain(texts.iter().map(|(.., text)| text.as_str())).collect();
        let checks = self.checks.clone();
        let changed = self.complete(&all, Reading::Text, &checks, false)?;
        for (number, (part, place, text)) in texts.into_iter().enumerate() {
            let changed = changed.as_ref().map(|all| &all[number + 1]).filter(|changed| **changed != text);
            if changed.is_some() || at.is_in_link() {
                edits.take(&place);
                let changed = changed.unwrap_or(&text);
                let mut behind = at.clone();
                let restored =
                    checks.restores.then(|| restored_text(changed, &self.placeholders, &mut behind));
                edits.replace_by_string(place, restored.flatten().as_ref().unwrap_or(changed));
            }
            at.pass(&text);
            before.push_str(&text);
            self.repeated.entry((chain.clone(), part)).or_insert_with(|| {
                let bytes_max = self.checks.window_bytes.max(EARLIER_BYTES_MAX);
                let start = before.ceil_char_boundary(before.len().saturating_sub(bytes_max));
                (before[start..].to_owned(), at.clone())
            });
        }
        Ok(())
    }
}
