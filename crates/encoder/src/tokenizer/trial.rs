//! Tries a tokenizer on awkward texts when its model is loaded: what it does to them, clients can make it do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use super::{Reference, Tokenizer};

/// Tokens of a text, for each of its bytes. Byte-level vocabularies and compatibility characters make about ten.
const TOKENS_PER_BYTE_MAX: usize = 64;

/// Longest texts of the trial, in characters; enough to notice a time that grows with the square of the length.
const LONG: usize = 512;

/// Texts on which normalizers, splitters, vocabularies and templates differ from the usual.
fn awkward_texts() -> Vec<String> {
    let pieces = [
        "",
        " ",
        "a",
        "\0",
        "\r\n\t\u{b}\u{c}",
        "\u{feff}",
        "\u{fffd}\u{ffff}\u{10ffff}",
        "\u{85}\u{a0}\u{2028}\u{3000}",
        "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
        "[CLS] [SEP] [MASK] [UNK] [PAD]",
        "<s></s><unk><mask><pad>",
        "##a ##",
        "\u{2581}\u{2581}a",
        "The quick brown fox jumps over the lazy dog, 0123456789 times.",
        // case, compatibility and composition
        "\u{130}\u{1e9e}\u{df}\u{fb03}\u{fdfa}\u{1d400}\u{2160}\u{bd}",
        "e\u{301}\u{302}\u{303} o\u{308}",
        "\u{1100}\u{1161}\u{11a8}\u{ac01}",
        // scripts
        "\u{6c34}\u{706b}\u{6728}",
        "\u{645}\u{631}\u{62d}\u{628}\u{627}",
        "\u{e01}\u{e33}\u{e49}",
        "\u{915}\u{94d}\u{937}",
        "\u{43f}\u{440}\u{438}",
        // clusters of several characters
        "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{1f3fd}\u{fe0f}",
        "\u{1f1e6}\u{1f1e7}\u{1f1e8}",
        "\u{202e}abc\u{202c}",
    ];
    let long = ["a", " ", "1", "!", "ab ", "\u{301}", "\u{6c34}", "\u{fdfa}", "\u{1f600}", "\n"];
    let mut texts: Vec<String> = pieces.iter().map(|text| (*text).to_owned()).collect();
    texts.push(pieces.join(" "));
    texts.push(pieces.concat());
    texts.extend(long.iter().map(|text| text.repeat(LONG)));
    texts
}

impl Tokenizer {
    /// Tries the tokenizer on texts that break damaged ones. Ids must be below `vocabulary`; texts must fit into the limit of tokens.
    ///
    /// Takes tens of milliseconds, as it loads the reference tokenizer, which a tokenizer with a fast path does not keep.
    ///
    /// # Errors
    /// The step that fails, and the text.
    pub fn try_out(&mut self, vocabulary: usize) -> Result<(), String> {
        if self.fast.is_some() {
            self.reference = OnceLock::from(Reference::read(&self.json)?);
        }
        let tried = self.try_texts(vocabulary);
        if self.fast.is_some() {
            self.reference = OnceLock::new();
        }
        tried
    }

    fn try_texts(&self, vocabulary: usize) -> Result<(), String> {
        let mut texts = awkward_texts();
        texts.extend(
            self.reference().tokenizer.get_added_tokens_decoder().values().map(|token| token.content.clone()),
        );
        for text in &texts {
            let tried = catch_unwind(AssertUnwindSafe(|| self.try_text(text, vocabulary)));
            let told = |reason: &str| format!("it can't tokenise the text {}: {reason}", excerpt(text));
            tried.map_err(|_| told(PANICKED))?.map_err(|reason| told(&reason))?;
        }
        catch_unwind(AssertUnwindSafe(|| self.try_pair(vocabulary))).map_err(|_| PANICKED.to_owned())?
    }

    fn try_text(&self, text: &str, vocabulary: usize) -> Result<(), String> {
        let encoding = self.reference().tokenizer.encode(text, true).map_err(|error| error.to_string())?;
        let ids = encoding.get_ids();
        check_ids(ids, vocabulary)?;
        if ids.is_empty() {
            return Err("it becomes no token; Weir supports tokenizers with special tokens at start and end"
                .to_owned());
        }
        let limit = TOKENS_PER_BYTE_MAX * (text.len() + 1);
        if ids.len() > limit {
            return Err(format!("it becomes {} tokens; the limit of Weir is {limit}", ids.len()));
        }
        if text.is_empty() && ids.len() >= self.max_tokens {
            return Err(format!("special tokens alone take {} of {} tokens", ids.len(), self.max_tokens));
        }
        check_ids(&self.encode(text).ids, vocabulary)?;
        for span in self.token_spans(text) {
            text.get(span).ok_or("a token stands for bytes outside of the text")?;
        }
        self.decode(ids, true);
        Ok(())
    }

    fn try_pair(&self, vocabulary: usize) -> Result<(), String> {
        let special = self.pair().special();
        if special >= self.max_tokens {
            return Err(format!(
                "special tokens of a pair alone take {special} of {} tokens",
                self.max_tokens
            ));
        }
        check_ids(&self.encode_pair("a", "b").ids, vocabulary)
    }
}

const PANICKED: &str = "its file is damaged, which the log shows as a panic";

fn check_ids(ids: &[u32], vocabulary: usize) -> Result<(), String> {
    match ids.iter().find(|id| **id as usize >= vocabulary) {
        Some(id) => Err(format!("token id {id} is outside of the model's vocabulary of {vocabulary}")),
        None => Ok(()),
    }
}

/// The start of a text, printable.
fn excerpt(text: &str) -> String {
    let start: String = text.chars().take(16).collect();
    let rest = if start.len() < text.len() { "\u{2026}" } else { "" };
    format!("\"{}{rest}\"", start.escape_debug())
}
