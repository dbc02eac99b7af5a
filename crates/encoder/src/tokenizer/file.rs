//! The parts of a `tokenizer.json` of the BERT family.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct File {
    pub(super) normalizer: Option<BertNormalizer>,
    pub(super) pre_tokenizer: Option<Kind>,
    #[serde(default)]
    pub(super) post_processor: Value,
    pub(super) model: Vocabulary,
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize)]
pub(super) struct Kind {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct BertNormalizer {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) clean_text: bool,
    #[serde(default)]
    pub(super) lowercase: bool,
    #[serde(default)]
    pub(super) strip_accents: Option<bool>,
    #[serde(default)]
    pub(super) handle_chinese_chars: bool,
}

#[derive(Deserialize)]
pub(super) struct PostProcessor {
    #[serde(default)]
    pub(super) single: Vec<Piece>,
}

#[derive(Deserialize)]
pub(super) struct Piece {
    #[serde(rename = "SpecialToken")]
    special: Option<PieceId>,
}

impl Piece {
    pub(super) fn special(&self) -> Option<&str> {
        self.special.as_ref().map(|piece| piece.id.as_str())
    }
}

#[derive(Deserialize)]
struct PieceId {
    id: String,
}

#[derive(Deserialize)]
pub(super) struct Vocabulary {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) vocab: HashMap<String, u32>,
    #[serde(default)]
    pub(super) unk_token: String,
    #[serde(default)]
    pub(super) continuing_subword_prefix: String,
    #[serde(default)]
    pub(super) max_input_chars_per_word: usize,
}

#[derive(Deserialize)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) normalized: bool,
}
