//! Token ids compared with recordings of the reference.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_encoder::{Model, Precision};
use weir_kernels::Kernels;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn model() -> Model {
    #[allow(clippy::disallowed_methods, reason = "where the tests' model lies; no setting of the product")]
    let folder = std::env::var_os("WEIR_TEST_MODEL").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| repository().join("models/all-MiniLM-L6-v2"));
    Model::load(&folder, Precision::F32, Kernels::current(), None).expect("run `make setup` first")
}

#[derive(Deserialize)]
struct Expected {
    text: String,
    ids: Vec<u32>,
}

fn recorded() -> Vec<Expected> {
    let path = repository().join("fixtures/unicode/wordpiece/wordpiece_expected.jsonl");
    let lines = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn ids_equal_all_recordings_of_the_reference() {
    let model = model();
    let all = recorded();
    let mismatches: Vec<_> =
        all.iter().filter(|e| model.tokenizer().encode_to(&e.text, usize::MAX).ids != e.ids).collect();
    println!("wordpiece: {} texts, {} mismatches", all.len(), mismatches.len());
    assert!(all.len() >= 2370, "the recordings are incomplete");
    assert!(mismatches.is_empty(), "first mismatch: {:?}", mismatches[0].text);
}

#[test]
fn every_id_has_a_span_inside_the_text() {
    let model = model();
    let tokenizer = model.tokenizer();
    for text in
        ["Unaffable words, 42!", "  two\t\tlines\nhere ", "naïve café 東京 🙂 x", "a\u{0}b \u{200b}c", ""]
    {
        let spans = tokenizer.token_spans(text);
        assert_eq!(spans.len() + 2, tokenizer.encode(text).ids.len(), "{text:?}");
        assert!(spans.windows(2).all(|pair| pair[0].start <= pair[1].start), "{text:?}: {spans:?}");
        for span in spans {
            assert!(text.get(span.clone()).is_some_and(|s| !s.trim().is_empty()), "{text:?}: {span:?}");
        }
    }
    assert_eq!(tokenizer.token_spans("unaffable ok"), [0..3, 3..6, 6..9, 10..12]);
}

#[test]
fn truncation_keeps_the_last_special_token() {
    let model = model();
    for (word, name) in [("hello ", "ASCII"), ("h\u{e9}llo ", "other letters")] {
        let encoded = model.tokenizer().encode(&word.repeat(1000));
        assert!(encoded.is_truncated, "{name}");
        assert_eq!((encoded.ids.len(), encoded.ids[0], encoded.ids[255]), (256, 101, 102), "{name}");
        let whole = model.tokenizer().encode(&word.repeat(254));
        assert_eq!((whole.is_truncated, whole.ids.len()), (false, 256), "{name}");
    }
}

#[test]
fn truncation_at_either_end_keeps_special_tokens() {
    let model = model();
    let tokenizer = model.tokenizer();
    let most = model.info().max_tokens;
    for word in ["river", "fluß"] {
        let text = format!("dam {}gate", format!("{word} ").repeat(300));
        let whole = tokenizer.encode_to(&text, usize::MAX).ids;
        let (end, start) = (tokenizer.encode(&text), tokenizer.encode_end(&text));
        assert!(end.is_truncated && start.is_truncated, "{word}");
        assert_eq!(end.ids, [&whole[..most - 1], &whole[whole.len() - 1..]].concat(), "{word}");
        assert_eq!(start.ids, [&whole[..1], &whole[whole.len() - (most - 1)..]].concat(), "{word}");
        let short = format!("a {word}");
        assert_eq!(tokenizer.encode_end(&short), tokenizer.encode(&short), "{word}");
    }
}
