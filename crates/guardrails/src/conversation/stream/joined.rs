//! Texts of a stream that their reader joins: those at one place, and the parts of an answer.

use weir_translate::conversation::{Api, Kind, Lane};
use weir_translate::json::Tape;

use crate::Window;

/// The ends of a text and of what it continues, as either way of joining texts gives them. Empty if nothing may have begun there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// With the text at the same place.
    pub(super) own: String,
    /// With the text of the same chain that came before it.
    pub(super) joined: String,
}

impl Ends {
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.joined.is_empty()
    }

    /// Those that differ and are not empty.
    pub(super) fn each(&self) -> impl Iterator<Item = &str> {
        let joined = Some(self.joined.as_str()).filter(|joined| *joined != self.own);
        std::iter::once(self.own.as_str()).chain(joined).filter(|end| !end.is_empty())
    }

    /// The ends of a text that stands behind these.
    pub(super) fn behind(&self, text: &str, window: &Window) -> Ends {
        let end = |before: &str| window.open_text_of(&[before, text].concat());
        let own = end(&self.own);
        let joined = if self.joined == self.own { own.clone() } else { end(&self.joined) };
        Ends { own, joined }
    }
}

/// The earlier text with which a text that continues after its end is checked.
pub(super) struct EndedText {
    pub(super) lane: Lane,
    /// All of a text that was held as JSON, as the provider wrote it.
    pub(super) json: String,
    /// Whether that is whole JSON.
    pub(super) is_whole: bool,
    /// The end of the text, if something may have begun in it.
    pub(super) open_text: String,
    /// Whether it was complete in an event whose text others continue.
    pub(super) is_begun: bool,
}

impl EndedText {
    /// Whether nothing can go on from it.
    pub(super) fn is_empty(&self) -> bool {
        self.json.is_empty() && self.open_text.is_empty()
    }

    /// Whether a text that begins is the same one. The event with which a text begins gives it another name.
    pub(super) fn is_continued_by(&self, lane: &Lane) -> bool {
        let place = |lane: &Lane| (lane.index, lane.kind, lane.part);
        self.lane == *lane || self.is_begun && place(&self.lane) == place(lane)
    }
}

/// Texts that are joined in the order in which they come.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chain {
    index: u32,
    kind: Kind,
    path: String,
}

/// The path of the text of a message.
const CONTENT: &str = ".content";

/// The chain of a text: the parts of one list and a text in place of the list, or all texts of a message.
pub(super) fn chain_of(api: Api, lane: &Lane) -> Option<Chain> {
    match lane.kind {
        Kind::Answer | Kind::Refusal if !has_choices(api) => {
            let is_text = matches!(lane.path.rsplit('.').next(), Some("text" | "output_text" | "refusal"));
            is_text.then(|| Chain { index: 0, kind: Kind::Answer, path: String::new() })
        }
        // blocks of what a model thinks
        Kind::Reasoning if !has_choices(api) => {
            let is_text = lane.path.ends_with(".thinking");
            is_text.then(|| Chain { index: 0, kind: Kind::Reasoning, path: String::new() })
        }
        // behind the text of a message
        Kind::Refusal => Some(Chain { index: lane.index, kind: Kind::Answer, path: CONTENT.to_owned() }),
        Kind::Answer | Kind::Reasoning => {
            let path = path_of_list(&lane.path);
            Some(Chain { index: lane.index, kind: lane.kind, path })
        }
        Kind::Arguments | Kind::Other => None,
    }
}

/// The choice whose reader is shown a text behind the others of it.
pub(super) fn reader_of(api: Api, lane: &Lane) -> Option<u32> {
    let is_shown = !matches!(lane.kind, Kind::Arguments | Kind::Other);
    is_shown.then(|| if has_choices(api) { lane.index } else { 0 })
}

/// Whether a reply may have several answers.
fn has_choices(api: Api) -> bool {
    match api {
        Api::ChatCompletions | Api::Completions | Api::Embeddings => true,
        Api::Messages | Api::CountTokens | Api::Responses => false,
    }
}

/// A path without numbers of lists, and without the name of a part's text: some servers send a text, and a list in other events.
fn path_of_list(path: &str) -> String {
    let mut names = String::with_capacity(path.len());
    for (number, part) in path.split('[').enumerate() {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == ']';
        names.push_str(if number == 0 { part } else { part.trim_start_matches(is_number) });
    }
    match names.strip_suffix(".text") {
        Some(list) => list.to_owned(),
        None => names,
    }
}

/// Whether a text is JSON that nothing continues. A number may have more digits.
pub(super) fn is_whole_json(text: &str) -> bool {
    !text.ends_with(|letter: char| letter.is_ascii_digit()) && Tape::parse(text.as_bytes()).is_ok()
}
