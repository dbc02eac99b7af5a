//! The fast path compared with the reference: ids and spans of the same tokenizer file.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Tokenizer, spans};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn model_folder() -> PathBuf {
    #[allow(clippy::disallowed_methods, reason = "where the tests' model lies; no setting of the product")]
    let folder = std::env::var_os("WEIR_TEST_MODEL").map(PathBuf::from);
    folder.unwrap_or_else(|| repository().join("models/all-MiniLM-L6-v2"))
}

/// The texts of the recordings of the reference.
fn recorded() -> Vec<String> {
    let lines =
        std::fs::read_to_string(repository().join("fixtures/unicode/wordpiece/wordpiece_expected.jsonl"))
            .unwrap();
    let text = |line: &str| serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().to_owned();
    lines.lines().map(text).collect()
}

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// The tokenizer of the tests' model with other settings.
fn tokenizer(change: impl Fn(&mut Value)) -> Tokenizer {
    let mut file: Value =
        serde_json::from_slice(&std::fs::read(model_folder().join("tokenizer.json")).unwrap()).unwrap();
    change(&mut file);
    Tokenizer::from_json(file.to_string().into_bytes(), 256).unwrap()
}

/// Compares ids and spans of the fast path with the reference. Returns how many texts the fast path leaves to it.
fn compare(tokenizer: &Tokenizer, texts: &[String]) -> usize {
    let Some(fast) = &tokenizer.fast else { return texts.len() };
    let reference = tokenizer.reference();
    let mut left = 0;
    for text in texts {
        let Some(encoded) = fast.encode(text, usize::MAX) else {
            left += 1;
            continue;
        };
        assert_eq!(encoded.ids, tokenizer.reference_ids(text), "{text:?}");
        let encoding = reference.tokenizer.encode(text.as_str(), false).unwrap();
        assert_eq!(fast.spans(text).unwrap(), spans::of_text(text, encoding.get_offsets()), "{text:?}");
    }
    assert_eq!(fast.pair().special(), reference.pair.special());
    assert_eq!(fast.pair().join(&[7, 8], &[9], 3), reference.pair.join(&[7, 8], &[9], 3));
    left
}

#[test]
fn the_fast_path_gives_the_ids_and_spans_of_the_reference() {
    let tokenizer = tokenizer(|_| {});
    let mut texts: Vec<String> = recorded();
    let corpus = std::fs::read_to_string(repository().join("samples/xquad/documents/xquad.jsonl")).unwrap();
    texts.extend(corpus.lines().map(str::to_owned));
    let mut random = Random(1);
    for len in 0..3000 {
        // random ASCII, control characters included
        texts.push((0..len % 120).map(|_| random.below(128) as u8 as char).collect());
    }
    // five recordings have combining characters that BERT keeps
    assert_eq!(compare(&tokenizer, &texts), 5, "texts that need the reference");
}

#[test]
fn the_fast_path_knows_every_character() {
    let tokenizer = tokenizer(|_| {});
    let assigned =
        (0..0x3_2000).chain(0xe_0000..0xe_0200).chain(0xf_fff0..0x10_0010).filter_map(char::from_u32);
    let texts: Vec<String> = assigned.map(|c| format!("x{c}y {c} {c}{c} e{c}\u{301}\u{323}z {c}-")).collect();
    let left = compare(&tokenizer, &texts);
    // combining characters that the tables of `unicode_categories` do not have
    assert!(left < 250, "{left} texts need the reference");
}

#[test]
fn the_fast_path_gives_the_tokens_of_the_reference_with_all_settings() {
    let pieces = [
        "a",
        "Z",
        "ing",
        "the ",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\0",
        "\u{b}",
        "\u{85}",
        "\u{a0}",
        "\u{200b}",
        "\u{3000}",
        "\u{feff}",
        "\u{fffd}",
        "!",
        "-",
        "\u{2014}",
        "\u{201c}",
        "\u{37e}",
        "##",
        "[",
        "[SEP]",
        "[CLS]",
        "[MASK]",
        "[sep]",
        "[UNK] ",
        "\u{301}",
        "\u{323}",
        "\u{345}",
        "\u{302e}",
        "\u{1d165}",
        "\u{e9}",
        "\u{c9}",
        "\u{130}",
        "\u{1e9e}",
        "\u{df}",
        "\u{fb03}",
        "\u{212b}",
        "\u{344}",
        "\u{1fef}",
        "\u{ac01}",
        "\u{1100}\u{1161}",
        "\u{3042}",
        "\u{30ac}",
        "\u{6c34}",
        "\u{f900}",
        "\u{2f800}",
        "\u{31350}",
        "\u{915}\u{94d}\u{937}",
        "\u{43f}\u{440}",
        "\u{5d0}\u{5b0}",
        "\u{1f600}",
        "\u{1f468}\u{200d}",
        "0",
        "\u{660}",
    ];
    let mut random = Random(7);
    let mut texts: Vec<String> =
        (0..6000).map(|at| (0..at % 24).map(|_| pieces[random.below(pieces.len())]).collect()).collect();
    // around the longest word
    let repeated = |piece: &str| (98..103).map(|count| piece.repeat(count)).collect::<Vec<_>>();
    texts.extend(["\u{e9}", "\u{1e9e}", "x\u{301}", "\u{44f}"].iter().flat_map(|piece| repeated(piece)));
    for setting in 0..12 {
        let (is_lowercase, separates) = (setting % 2 == 0, setting / 2 % 2 == 0);
        let tokenizer = tokenizer(|file| {
            let normalizer = &mut file["normalizer"];
            normalizer["lowercase"] = is_lowercase.into();
            normalizer["handle_chinese_chars"] = separates.into();
            normalizer["strip_accents"] = [Value::Null, true.into(), false.into()][setting / 4].clone();
        });
        let left = compare(&tokenizer, &texts);
        assert!(left < texts.len() / 2, "{left} texts need the reference");
    }
}

#[test]
fn added_tokens_are_those_of_the_reference() {
    let added = |content: &str, flag: &str| {
        let mut token = json!({"id": 7, "special": false, "content": content, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false});
        if !flag.is_empty() {
            token[flag] = true.into();
        }
        token
    };
    let texts: Vec<String> =
        ["a hello b", "HELLO hello,hello", "xhellox  hello  ", "[SEP][SEP]hello", "h\u{e9}llo hello"]
            .map(str::to_owned)
            .into();
    for flag in ["", "single_word", "lstrip", "rstrip", "normalized"] {
        let tokenizer = tokenizer(|file| {
            file["added_tokens"].as_array_mut().unwrap().push(added("hello", flag));
            file["added_tokens"].as_array_mut().unwrap().push(added("hell", ""));
        });
        let left = compare(&tokenizer, &texts);
        assert_eq!(left, if flag.is_empty() { 0 } else { texts.len() }, "{flag}");
    }
}
