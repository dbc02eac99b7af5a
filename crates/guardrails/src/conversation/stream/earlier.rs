//! What of an event is checked together with earlier ones, but for the pieces of texts: names and ids, and texts whose pieces were sent.

use std::ops::Range;

use weir_translate::SseEvent;
use weir_translate::conversation::Lane;
use weir_translate::json::{Edits, unescaped, write_string};

use super::super::vocabulary::is_name;
use super::super::walk::{Reading, is_json, restored_text};
use super::joined::chain_of;
use super::{BlockedBy, StreamFilter};

/// Where the names of events are kept that are none of the APIs'.
const EVENT_NAMES: &str = "event";
/// How much of the names and ids at one place is checked with the next one.
const NAMES_BYTES_MAX: usize = 4096;

impl StreamFilter {
    /// The most that is held of one kind.
    pub(super) fn places_held(&self) -> usize {
        let texts = self.lanes.len().max(self.ended.len()).max(self.open_texts.len());
        [self.places.len(), self.calls.len(), self.names.len(), self.repeated.len()]
            .into_iter()
            .fold(texts, usize::max)
    }

    /// Whether nothing is found in the name of an event that is none of the API's, and in those before it.
    pub(super) fn is_name_clean(&mut self, event: &SseEvent) -> Result<bool, BlockedBy> {
        let Ok(name) = str::from_utf8(event.name()) else { return Ok(false) };
        if is_name(name) {
            return Ok(true);
        }
        let mut literal = Vec::new();
        write_string(&mut literal, name);
        let checks = self.checks.clone();
        let is_changed = self.complete(&[name], Reading::Text, &checks, true)?.is_some();
        Ok(self.name_goes_on(u32::MAX, EVENT_NAMES, &literal)?.is_none() && !is_changed)
    }

    /// Checks a name together with what came of it before: some clients append it. What it becomes, if it changes.
    pub(super) fn name_goes_on(
        &mut self,
        index: u32,
        path: &str,
        name: &[u8],
    ) -> Result<Option<String>, BlockedBy> {
        let name = unescaped(name).unwrap_or_default();
        let place = self.names.iter().position(|(of, at, _)| (*of, at.as_str()) == (index, path));
        let Some(place) = place else {
            self.names.push((index, path.to_owned(), name));
            return Ok(None);
        };
        let before = self.names[place].2.clone();
        // some servers repeat it in each event
        if name.is_empty() || before == name {
            return Ok(None);
        }
        let checks = self.checks.clone();
        let changed = self.complete(&[&before, &name], Reading::Text, &checks, true)?;
        let names = &mut self.names[place].2;
        names.push_str(&name);
        let start = names.ceil_char_boundary(names.len().saturating_sub(NAMES_BYTES_MAX));
        names.drain(..start);
        Ok(changed.and_then(|mut texts| texts.pop()).filter(|text| *text != name))
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
        let earlier = self.repeated.iter().filter(|(other, at, ..)| *other == chain && *at < first);
        let earlier =
            earlier.max_by_key(|(_, at, ..)| *at).map(|(.., end, place)| (end.clone(), place.clone()));
        let (mut before, mut at) = earlier.unwrap_or_default();
        let all: Vec<&str> =
            std::iter::once(&*before).chain(texts.iter().map(|(.., text)| text.as_str())).collect();
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
            if !self.repeated.iter().any(|(other, of, ..)| (other, *of) == (&chain, part)) {
                let bytes_max = self.checks.window_bytes.max(NAMES_BYTES_MAX);
                let start = before.ceil_char_boundary(before.len().saturating_sub(bytes_max));
                self.repeated.push((chain.clone(), part, before[start..].to_owned(), at.clone()));
            }
        }
        Ok(())
    }
}
