//! Findings in a text as it is written and as its readers take it.
//!
//! Each [`View`] of the text is scanned on its own, and the findings of all are joined by their places in the original: what one of them
//! shows is found. A text that normalisation does not change has one view. Phrases of prompt injection are joined before their weights are
//! added, because they may come from different views.

use crate::injection::{self, Event};
use crate::normalise::{Place, View, has_change, has_tags, locate, normalise};
use crate::scan::{Cause, Pass};
use crate::text::Text;
use crate::{Finding, RuleSet};

/// A text, and what is known of the stream to which it belongs.
#[derive(Clone, Copy)]
pub(crate) struct Source<'t> {
    pub(crate) text: &'t str,
    /// Whether no text follows.
    pub(crate) is_final: bool,
    /// The first byte that was not scanned before.
    pub(crate) from: usize,
    /// Bytes with which the text begins and which normalisation does not change.
    pub(crate) unchanged: usize,
    /// Bytes of the stream before the text.
    pub(crate) offset: usize,
    /// Phrases that began before `from`.
    pub(crate) carried: &'t [Event],
}

/// The findings in all views of a text. Positions are those of the original.
pub(crate) struct Scan {
    /// Findings, which may overlap, in no order.
    pub(crate) findings: Vec<Finding>,
    /// Phrases and markers, ordered by their start.
    pub(crate) events: Vec<Event>,
    /// Findings that begin before are final, and none will begin before.
    pub(crate) open: usize,
    /// The kind of finding that begins at `open`, and its view.
    pub(crate) cause: (Cause, View),
    /// Whether normalisation changes the text.
    pub(crate) is_changed: bool,
}

impl Scan {
    /// Scans a text. `is_strict_only` leaves out rules that only flag.
    pub(crate) fn run(rules: &RuleSet, source: Source, is_strict_only: bool) -> Scan {
        let text = Text::new(source.text, source.is_final);
        let Pass { findings, events, open, cause, .. } = Pass::run(rules, &text, source.from, is_strict_only);
        let is_changed = has_change(source.text, source.unchanged);
        let cause = (cause, View::Original);
        let mut scan = Scan { findings, events, open, cause, is_changed };
        if is_changed {
            scan.add(rules, source, View::Shown, is_strict_only);
            if has_tags(source.text) {
                scan.add(rules, source, View::Tagged, is_strict_only);
            }
        }
        if !scan.events.is_empty() {
            scan.add_injections(rules, source.carried);
        }
        if !source.is_final {
            // Invisible characters that follow belong to a finding at the end.
            let at_end = scan.findings.iter().filter(|finding| finding.end == source.text.len());
            if let Some(start) = at_end.map(|finding| finding.start).min() {
                scan.hold(start, (Cause::Short, View::Original));
            }
        }
        scan.check_length(rules, source);
        scan
    }

    /// Adds what a view that is not the original shows.
    fn add(&mut self, rules: &RuleSet, source: Source, view: View, is_strict_only: bool) {
        let normalised = normalise(source.text, view, source.from);
        let text = Text::new(&normalised.text, source.is_final);
        let pass = Pass::run(rules, &text, normalised.position, is_strict_only);
        let places = Places::new(source.text, view, &pass);
        self.hold(places.of(pass.open).start, (pass.cause, view));
        self.findings.extend(pass.findings.iter().map(|finding| Finding {
            start: places.of(finding.start).start,
            end: places.of(finding.end).end,
            rule: finding.rule,
        }));
        self.events.extend(pass.events.iter().map(|event| Event {
            start: places.of(event.start as usize).start as isize,
            end: places.of(event.end as usize).end as isize,
            ..*event
        }));
    }

    fn hold(&mut self, start: usize, cause: (Cause, View)) {
        if start < self.open {
            (self.open, self.cause) = (start, cause);
        }
    }

    /// Phrases and markers whose weights are enough are findings.
    fn add_injections(&mut self, rules: &RuleSet, carried: &[Event]) {
        let Some(rule) = rules.kinds.injection else { return };
        self.events.sort_unstable_by_key(|event| (event.start, event.end, event.id));
        self.events.dedup();
        for (index, event) in self.events.iter().enumerate() {
            if injection::is_finding(carried, &self.events, index) {
                self.findings.push(Finding { start: event.start as usize, end: event.end as usize, rule });
            }
        }
    }

    /// The finding of a length rule is the first character beyond its limit.
    fn check_length(&mut self, rules: &RuleSet, source: Source) {
        let Some((rule, bytes_max)) = rules.length else { return };
        let start = source.text.floor_char_boundary(bytes_max.saturating_sub(source.offset));
        if start >= source.from && start < source.text.len() && source.offset <= bytes_max {
            let length = source.text[start..].chars().next().map_or(0, char::len_utf8);
            self.findings.push(Finding { start, end: start + length, rule });
        }
    }
}

/// Where the positions that a pass over a view names are in the original.
struct Places {
    positions: Vec<usize>,
    places: Vec<Place>,
}

impl Places {
    fn new(text: &str, view: View, pass: &Pass) -> Places {
        let mut positions = vec![pass.open];
        positions.extend(pass.findings.iter().flat_map(|finding| [finding.start, finding.end]));
        positions.extend(pass.events.iter().flat_map(|event| [event.start as usize, event.end as usize]));
        positions.sort_unstable();
        positions.dedup();
        let places = locate(text, view, &positions);
        Places { positions, places }
    }

    /// The place of one of these positions.
    fn of(&self, position: usize) -> Place {
        self.places[self.positions.partition_point(|known| *known < position)]
    }
}
