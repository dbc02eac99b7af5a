//! Damages a tiny model folder as a list of choices says, and checks what becomes of it: it is refused with a reason, or embeds finite
//! numbers. Used by the test `folders`, whose choices are random numbers, and by the fuzz target `model_folder`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_encoder::{Kernels, LoadError, Model, Precision, Scratch};

/// What a damaged folder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Embeds,
    Refused,
}

const MODELS: [&str; 8] = [
    "bert",
    "distilbert",
    "roberta",
    "xlm-roberta",
    "bert-classifier",
    "distilbert-classifier",
    "roberta-classifier",
    "xlm-roberta-classifier",
];

const FILES: [&str; 7] = [
    "config.json",
    "tokenizer.json",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "config_sentence_transformers.json",
];

/// The memory that a damaged folder may need; the tiny models need a tenth.
const BYTES_MAX: u64 = 8 << 20;

const TEXTS: [&str; 7] = [
    "",
    "A weir is a low dam.",
    "na\u{ef}ve \u{6c34}",
    "e\u{301}\u{fdfa}",
    "[CLS]<s>",
    "\0\u{10ffff}",
    "aaaaaaaaaaaaaaaa",
];

/// Numbers that a caller supplies, each below a bound; all are 0 after the last.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl Choices<'_> {
    fn below(&mut self, bound: usize) -> usize {
        let taken = self.0.split_at_checked(4).unwrap_or((&[], &[]));
        self.0 = taken.1;
        let number = taken.0.try_into().map_or(0, u32::from_le_bytes);
        number as usize % bound.max(1)
    }

    fn one_of<'b, T>(&mut self, all: &'b [T]) -> &'b T {
        &all[self.below(all.len())]
    }
}

type Folder = BTreeMap<&'static str, Vec<u8>>;

/// The files of every tiny model, and a folder to write damaged ones to.
pub(crate) struct Folders {
    originals: Vec<Folder>,
    target: PathBuf,
}

impl Folders {
    /// Reads the models; damaged folders are written to `target`.
    pub(crate) fn new(fixtures: &Path, target: &Path) -> Folders {
        let read = |name: &&str| {
            let file = |file: &'static str| Some((file, std::fs::read(fixtures.join(name).join(file)).ok()?));
            FILES.into_iter().filter_map(file).collect()
        };
        Folders { originals: MODELS.iter().map(read).collect(), target: target.to_owned() }
    }

    /// Damages a folder and loads it.
    ///
    /// # Panics
    /// When the model panics, or embeds a text as something else than finite numbers.
    pub(crate) fn check(&self, mut choices: Choices) -> Outcome {
        let mut folder = choices.one_of(&self.originals).clone();
        for _ in 0..1 + choices.below(3) {
            let files: Vec<&'static str> = folder.keys().copied().collect();
            let file = *choices.one_of(&files);
            damage(&mut folder, file, &mut choices);
        }
        self.write(&folder);
        let precision = *choices.one_of(&Precision::ALL);
        match Model::load_within(&self.target, precision, Kernels::current(), None, BYTES_MAX) {
            Ok(model) => {
                check_results(&model);
                Outcome::Embeds
            }
            Err(LoadError::Missing { .. } | LoadError::Unreadable { .. }) if folder.len() == FILES.len() => {
                panic!("every file is there")
            }
            Err(error) => {
                assert!(error.to_string().len() > 20, "no reason: {error}");
                Outcome::Refused
            }
        }
    }

    fn write(&self, folder: &Folder) {
        for file in FILES {
            let path = self.target.join(file);
            match folder.get(file) {
                Some(bytes) => {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, bytes).unwrap();
                }
                None => drop(std::fs::remove_file(path)),
            }
        }
    }
}

fn check_results(model: &Model) {
    let (labels, mut scratch) = (model.info().labels.len(), Scratch::new());
    for text in TEXTS {
        let ids = model.tokenizer().encode(text).ids;
        model.tokenizer().token_spans(text);
        let mut out = vec![0.0; labels.max(model.info().dimension)];
        if labels == 0 {
            model.embed(&[&ids], &mut scratch, &mut out);
        } else {
            let pair = model.tokenizer().encode_pair(text, TEXTS[1]);
            model.classify(&[&pair.ids], &[pair.second], &mut scratch, &mut out[..labels]);
        }
        assert!(out.iter().all(|x| x.is_finite()), "{text:?} becomes {out:?}");
    }
}

fn damage(folder: &mut Folder, file: &'static str, choices: &mut Choices) {
    let Some(mut bytes) = folder.remove(file) else { return };
    match choices.below(8) {
        0 => flip(&mut bytes, choices),
        1 => bytes.truncate(choices.below(bytes.len())),
        2 => repeat(&mut bytes, choices),
        3 if file == "model.safetensors" => return, // the file is gone
        _ if file == "model.safetensors" => damage_weights(&mut bytes, choices),
        _ => damage_json(&mut bytes, choices),
    }
    folder.insert(file, bytes);
}

fn flip(bytes: &mut [u8], choices: &mut Choices) {
    let at = choices.below(bytes.len());
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << choices.below(8);
    }
}

/// Inserts a copy of a part of the file somewhere.
fn repeat(bytes: &mut Vec<u8>, choices: &mut Choices) {
    let (from, len, to) = (choices.below(bytes.len()), choices.below(64), choices.below(bytes.len()));
    let part: Vec<u8> = bytes.iter().skip(from).take(len).copied().collect();
    bytes.splice(to..to, part);
}

/// Changes a weight, or the header of the file.
fn damage_weights(bytes: &mut Vec<u8>, choices: &mut Choices) {
    let header_bytes = bytes.first_chunk().map_or(0, |length| u64::from_le_bytes(*length) as usize);
    let Some((head, body)) = bytes.get(8..).and_then(|rest| rest.split_at_checked(header_bytes)) else {
        return;
    };
    let (mut head, mut body) = (head.to_vec(), body.to_vec());
    if choices.below(2) == 0 {
        damage_json(&mut head, choices);
    } else {
        let weights =
            [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 65504.0, -65504.0, 70000.0, 1e-45, 0.0];
        let (weight, all) = (choices.one_of(&weights).to_le_bytes(), body.len() / 4);
        let (first, count) = (choices.below(all), [1, 1, 32, all][choices.below(4)]);
        body.as_chunks_mut().0.iter_mut().skip(first).take(count).for_each(|slot| *slot = weight);
    }
    *bytes = [&(head.len() as u64).to_le_bytes(), head.as_slice(), &body].concat();
}

/// Replaces or removes a part of a JSON file.
fn damage_json(bytes: &mut Vec<u8>, choices: &mut Choices) {
    let Ok(mut root) = serde_json::from_slice::<Value>(bytes) else { return flip(bytes, choices) };
    damage_value(&mut root, choices);
    *bytes = root.to_string().into_bytes();
}

/// Damages a random part of a value; the deeper ones are the most.
fn damage_value(value: &mut Value, choices: &mut Choices) {
    let children: Vec<&mut Value> = match value {
        Value::Array(values) => values.iter_mut().collect(),
        Value::Object(values) => values.values_mut().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    if !children.is_empty() && choices.below(6) > 0 {
        let chosen = choices.below(children.len());
        return children.into_iter().nth(chosen).into_iter().for_each(|child| damage_value(child, choices));
    }
    match (value, choices.below(3)) {
        (Value::Object(values), 0) => {
            let keys: Vec<String> = values.keys().cloned().collect();
            drop(keys.get(choices.below(keys.len())).map(|key| values.remove(key)));
        }
        (Value::Object(values), 1) => {
            let (key, value) = awkward_member(choices);
            values.insert(key.to_owned(), value);
        }
        (value, _) => *value = awkward_value(choices),
    }
}

fn awkward_value(choices: &mut Choices) -> Value {
    let integers =
        [0, 1, 2, 3, 4, 5, 7, 31, 33, 64, 65, 1000, 1 << 16, 1 << 24, (1 << 24) + 1, 1 << 32, u64::MAX];
    let floats = [-1.0, -1e-12, 0.5, 1e-12, 1e-40, 1e38, 1e300, f64::MIN];
    let texts = [
        "",
        "a",
        " ",
        "\u{2581}",
        "[UNK]",
        "##",
        ".*",
        "(a+)+b",
        "\u{6c34}",
        "Sequence",
        "Replace",
        "WordPiece",
        "BPE",
        "Unigram",
    ];
    match choices.below(6) {
        0 => Value::Null,
        1 => json!(choices.below(2) == 0),
        2 => json!(choices.one_of(&integers)),
        3 => json!(choices.one_of(&floats)),
        4 => json!(choices.one_of(&texts)),
        _ => awkward_rule(choices),
    }
}

/// A rule of a tokenizer.
fn awkward_rule(choices: &mut Choices) -> Value {
    let twice = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let special = |id: u64| json!({"[X]": {"id": "[X]", "ids": [id], "tokens": ["[X]"]}});
    let template = |pieces: Value, id| json!({"type": "TemplateProcessing", "single": pieces, "pair": pieces, "special_tokens": special(id)});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let other = json!({"SpecialToken": {"id": "[X]", "type_id": 0}});
    match choices.below(12) {
        0 => json!([]),
        1 => json!({}),
        2 => json!({"type": "Sequence", "normalizers": vec![twice; 1 + choices.below(40)]}),
        3 => {
            json!({"type": "Precompiled", "precompiled_charsmap": choices.one_of(&["", "////fw==", "AAAAAA==", "BAAAAAAAAAA="])})
        }
        4 => json!({"type": "Prepend", "prepend": "x".repeat(choices.below(100))}),
        5 => template(json!([text]), 1),
        6 => template(json!([other, text, other]), [0, 1, 1 << 16, u64::from(u32::MAX)][choices.below(4)]),
        7 => template(json!(vec![other; choices.below(100)]), 1),
        8 => {
            json!({"type": "Split", "pattern": {"Regex": choices.one_of(&["", ".", "(a+)+$", "(?=a)"])}, "behavior": "Isolated", "invert": false})
        }
        9 => json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        10 => json!({"type": "Strip", "strip_left": true, "strip_right": true}),
        _ => {
            json!({"type": "BertProcessing", "sep": ["[SEP]", 1 << choices.below(32)], "cls": ["[CLS]", choices.below(9)]})
        }
    }
}

fn awkward_member(choices: &mut Choices) -> (&'static str, Value) {
    let keys = [
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "model",
        "dropout",
        "unk_id",
        "layer_norm_eps",
        "a",
    ];
    (*choices.one_of(&keys), awkward_value(choices))
}
