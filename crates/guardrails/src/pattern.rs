//! Regular expressions of the operator, as deterministic automata that are built when rules are compiled.
//!
//! An automaton reads each byte once and has a size limit, so an expression that would explode is refused and none is slow. `\b` is the
//! boundary of ASCII words: that of Unicode is no regular language over bytes.

use std::ops::Range;

use regex_automata::dfa::dense::{self, DFA};
use regex_automata::dfa::regex::Regex;
use regex_automata::dfa::{Automaton, StartKind};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{Hir, HirKind, Look};

use crate::{Finding, RuleError};

/// Largest automaton of one expression in bytes; its reverse has the same limit.
pub(crate) const AUTOMATON_BYTES_MAX: usize = 4 << 20;
/// Starts of possible matches that are followed at a time at the end of a stream. If there are more, the text from the first of the
/// rest is held as if a match began there.
const LIVE_MAX: usize = 64;

/// One compiled expression.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
}

/// The state of an automaton in the middle of a match.
pub(crate) type State = StateID;

impl Pattern {
    /// Compiles the expression of `rule`; for an allow list, it has to match a value as a whole.
    pub(crate) fn compile(rule: &str, expression: &str, is_whole: bool) -> Result<Pattern, RuleError> {
        let syntax = |problem: String| RuleError::Syntax { rule: rule.to_owned(), problem };
        let too_large = || RuleError::TooLarge { rule: rule.to_owned(), bytes_max: AUTOMATON_BYTES_MAX };
        let mut parser = regex_syntax::ParserBuilder::new().nest_limit(64).build();
        let parsed = parser.parse(expression).map_err(|error| syntax(error.to_string()))?;
        if parsed.properties().minimum_len().unwrap_or(0) == 0 {
            return Err(RuleError::MatchesEmpty { rule: rule.to_owned() });
        }
        let mut parsed = with_ascii_boundaries(parsed);
        if is_whole {
            parsed = Hir::concat(vec![Hir::look(Look::Start), parsed, Hir::look(Look::End)]);
        }
        let nfa = |reverse: bool| {
            let config = thompson::Config::new()
                .which_captures(WhichCaptures::None)
                .reverse(reverse)
                .nfa_size_limit(Some(AUTOMATON_BYTES_MAX));
            thompson::Compiler::new().configure(config).build_from_hir(&parsed).map_err(|error| {
                match error.size_limit() {
                    Some(_) => too_large(),
                    None => syntax(error.to_string()),
                }
            })
        };
        let config = dense::Config::new()
            .dfa_size_limit(Some(AUTOMATON_BYTES_MAX))
            .determinize_size_limit(Some(AUTOMATON_BYTES_MAX));
        let dfa = |config: dense::Config, nfa: &thompson::NFA| {
            dense::Builder::new().configure(config).build_from_nfa(nfa).map_err(|error| {
                if error.is_size_limit_exceeded() { too_large() } else { syntax(error.to_string()) }
            })
        };
        let prefilter = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &parsed);
        let forward = config.clone().start_kind(StartKind::Both).specialize_start_states(prefilter.is_some());
        let reverse = config.start_kind(StartKind::Anchored).match_kind(MatchKind::All);
        let forward = dfa(forward.prefilter(prefilter), &nfa(false)?)?;
        let reverse = dfa(reverse, &nfa(true)?)?;
        Ok(Pattern { regex: Regex::builder().build_from_dfas(forward, reverse) })
    }

    /// Matches from `from` on, which do not overlap.
    pub(crate) fn matches(&self, text: &str, from: usize) -> impl Iterator<Item = Range<usize>> {
        self.regex.find_iter(Input::new(text).range(from..)).map(|found| found.range())
    }

    /// Whether it matches `value` as a whole.
    pub(crate) fn is_match(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }

    /// The first position from `from` on at which a match could begin that more text completes or makes longer, with the automaton's
    /// state. `matches` are those of the text: inside one, no other begins.
    pub(crate) fn open(&self, text: &str, from: usize, matches: &[Finding]) -> Option<(usize, State)> {
        let (dfa, bytes) = (self.regex.forward(), text.as_bytes());
        let mut live: Vec<(State, usize)> = Vec::new();
        let mut matches = matches.iter().peekable();
        for position in from..bytes.len() {
            while matches.next_if(|found| found.end <= position).is_some() {}
            let is_inside = matches.peek().is_some_and(|found| found.start < position);
            if !is_inside
                && live.len() < LIVE_MAX
                && let Some(state) = start(dfa, bytes, position)
            {
                live.push((state, position));
            }
            let mut kept = 0;
            for index in 0..live.len() {
                let state = dfa.next_state(live[index].0, bytes[position]);
                let is_known = live[..kept].iter().any(|(other, _)| *other == state);
                if !is_dead(dfa, state) && !is_known {
                    live[kept] = (state, live[index].1);
                    kept += 1;
                }
            }
            live.truncate(kept);
        }
        live.first().map(|(state, position)| (*position, *state))
    }

    /// Continues a match: the state after all of `text`, or the position of the byte at which no match is possible any more.
    pub(crate) fn advance(&self, mut state: State, text: &str) -> Result<State, usize> {
        let dfa = self.regex.forward();
        for (position, byte) in text.bytes().enumerate() {
            state = dfa.next_state(state, byte);
            if is_dead(dfa, state) {
                return Err(position);
            }
        }
        Ok(state)
    }
}

fn start(dfa: &DFA<Vec<u32>>, bytes: &[u8], position: usize) -> Option<State> {
    let input = Input::new(bytes).range(position..).anchored(Anchored::Yes);
    dfa.start_state_forward(&input).ok()
}

fn is_dead(dfa: &DFA<Vec<u32>>, state: State) -> bool {
    dfa.is_dead_state(state) || dfa.is_quit_state(state)
}

/// The expression with the boundaries of ASCII words in place of those of Unicode.
fn with_ascii_boundaries(hir: Hir) -> Hir {
    match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        #[allow(clippy::wildcard_enum_match_arm, reason = "every other kind stays as it is")]
        HirKind::Look(look) => Hir::look(match look {
            Look::WordUnicode => Look::WordAscii,
            Look::WordUnicodeNegate => Look::WordAsciiNegate,
            Look::WordStartUnicode => Look::WordStartAscii,
            Look::WordEndUnicode => Look::WordEndAscii,
            Look::WordStartHalfUnicode => Look::WordStartHalfAscii,
            Look::WordEndHalfUnicode => Look::WordEndHalfAscii,
            other => other,
        }),
        HirKind::Repetition(mut repetition) => {
            repetition.sub = Box::new(with_ascii_boundaries(*repetition.sub));
            Hir::repetition(repetition)
        }
        HirKind::Capture(capture) => with_ascii_boundaries(*capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(with_ascii_boundaries).collect()),
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.into_iter().map(with_ascii_boundaries).collect())
        }
    }
}
