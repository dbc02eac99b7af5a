//! Tiny random models of every supported kind, compared with recordings of transformers and sentence-transformers.

#![allow(clippy::print_stdout, reason = "prints the differences from the recordings")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use weir_encoder::{EncodedPair, ExternalModel, Model, Pooling, Precision, Scratch};
use weir_kernels::Kernels;

const EMBEDDERS: [&str; 4] = ["bert", "distilbert", "roberta", "xlm-roberta"];
const CLASSIFIERS: [&str; 4] =
    ["bert-classifier", "distilbert-classifier", "roberta-classifier", "xlm-roberta-classifier"];

#[derive(Deserialize)]
struct Recorded {
    #[serde(default)]
    pooling: String,
    #[serde(default)]
    texts: Vec<Text>,
    #[serde(default)]
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
    spans: Vec<(usize, usize)>,
    /// By pooling.
    embeddings: BTreeMap<String, Vec<f32>>,
    token_embeddings: Option<Vec<Vec<f32>>>,
    /// By length.
    #[serde(default)]
    cut: BTreeMap<usize, Vec<f32>>,
}

#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    ids: Vec<u32>,
    types: Option<Vec<u32>>,
    logits: Vec<f32>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name)
}

fn recorded(name: &str) -> Recorded {
    serde_json::from_slice(&std::fs::read(folder(name).join("recorded.json")).unwrap()).unwrap()
}

fn model(name: &str, precision: Precision) -> Model {
    Model::load(&folder(name), precision, Kernels::current(), None).unwrap()
}

/// A copy of a model with one of its small files edited: every `from` becomes `to`.
fn edited(name: &str, file: &str, from: &str, to: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in ["", "1_Pooling"] {
        let source = folder(name).join(entry);
        std::fs::create_dir_all(copy.path().join(entry)).unwrap();
        for file in std::fs::read_dir(&source).into_iter().flatten().map(Result::unwrap) {
            if file.path().is_file() {
                std::fs::copy(file.path(), copy.path().join(entry).join(file.file_name())).unwrap();
            }
        }
    }
    let path = copy.path().join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{name}/{file} has no {from}");
    std::fs::write(path, text.replace(from, to)).unwrap();
    copy
}

fn load(folder: &Path, precision: Precision) -> Result<Model, String> {
    Model::load(folder, precision, Kernels::current(), None).map_err(|error| error.to_string())
}

fn embed(model: &Model, batch: &[&[u32]]) -> Vec<f32> {
    let mut out = vec![0.0; batch.len() * model.info().dimension];
    model.embed(batch, &mut Scratch::new(), &mut out);
    out
}

fn classify(model: &Model, batch: &[EncodedPair]) -> Vec<f32> {
    let mut out = vec![0.0; batch.len() * model.info().labels.len()];
    let ids: Vec<&[u32]> = batch.iter().map(|pair| pair.ids.as_slice()).collect();
    let second: Vec<usize> = batch.iter().map(|pair| pair.second).collect();
    model.classify(&ids, &second, &mut Scratch::new(), &mut out);
    out
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().all(|x| x.is_finite()), "not a number: {a:?}");
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// The largest absolute difference between elements.
fn max_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().all(|x| x.is_finite()), "not a number: {a:?}");
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

/// The tolerance of a precision: the smallest cosine of an embedding, the largest difference of a logit.
fn bounds(precision: Precision) -> (f64, f32) {
    match precision {
        Precision::F32 => (0.999_99, 1e-4),
        Precision::Bf16 => (0.999_9, 0.03),
        Precision::Int8 => (0.997, 0.15),
    }
}

#[test]
fn ids_equal_the_recordings() {
    for name in EMBEDDERS {
        let model = model(name, Precision::F32);
        let texts = recorded(name).texts;
        assert!(texts.len() >= 25, "{name}: the recordings are incomplete");
        for Text { text, ids, .. } in &texts {
            assert_eq!(&model.tokenizer().encode(text).ids, ids, "{name}: {text:?}");
        }
    }
}

#[test]
fn spans_equal_the_recordings_without_white_space() {
    for name in EMBEDDERS {
        let model = model(name, Precision::F32);
        for Text { text, spans, .. } in recorded(name).texts {
            let got = model.tokenizer().token_spans(&text);
            assert_eq!(got.len(), spans.len(), "{name}: {text:?}");
            for (span, (start, end)) in got.iter().zip(spans) {
                assert_eq!(text[span.clone()], *text[start..end].trim(), "{name}: {text:?} {span:?}");
                let inside = span.is_empty() || (start <= span.start && span.end <= end);
                assert!(inside, "{name}: {text:?} {span:?} not in {start}..{end}");
            }
            assert!(got.is_sorted_by_key(|span| (span.start, span.end)), "{name}: {text:?} {got:?}");
        }
    }
}

#[test]
fn embeddings_equal_the_recordings_by_every_pooling() {
    let mut seen = Vec::new();
    for name in EMBEDDERS {
        let recorded = recorded(name);
        for pooling in recorded.texts[0].embeddings.keys() {
            let own = format!("\"{}\"", recorded.pooling);
            let copy = edited(name, "1_Pooling/config.json", &own, &format!("\"{pooling}\""));
            seen.push(pooling.clone());
            for precision in Precision::ALL {
                let model = load(copy.path(), precision).unwrap();
                assert_eq!(model.info().pooling.name(), pooling);
                let mut least = 1.0f64;
                for Text { text, ids, embeddings, .. } in &recorded.texts {
                    let (got, expected) = (embed(&model, &[ids]), &embeddings[pooling]);
                    least = least.min(cosine(&got, expected));
                    if precision == Precision::F32 {
                        let apart = max_difference(&got, expected);
                        assert!(apart < 1e-4, "{name} by {pooling}: {text:?} differs by {apart}");
                    }
                }
                println!("{name} by {pooling} in {}: least cosine {least:.7}", precision.name());
                assert!(least >= bounds(precision).0, "{name} by {pooling}, {}: {least}", precision.name());
            }
        }
    }
    assert!(Pooling::ALL.iter().all(|pooling| seen.iter().any(|name| name == pooling.name())), "{seen:?}");
}

#[test]
fn poolings_are_read_from_flags_too() {
    let flags = [
        ("mean_tokens", "mean"),
        ("cls_token", "cls"),
        ("max_tokens", "max"),
        ("mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
        ("lasttoken", "lasttoken"),
    ];
    for (flag, name) in flags {
        let copy = edited(
            "bert",
            "1_Pooling/config.json",
            "\"pooling_mode\": \"mean\"",
            &format!("\"pooling_mode_{flag}\": true, \"pooling_mode_weightedmean_tokens\": false"),
        );
        assert_eq!(load(copy.path(), Precision::F32).unwrap().info().pooling.name(), name);
    }
    let none = edited("bert", "1_Pooling/config.json", "\"pooling_mode\": \"mean\",", "");
    assert_eq!(load(none.path(), Precision::F32).unwrap().info().pooling, Pooling::Mean);
}

#[test]
fn token_embeddings_equal_the_recordings_and_cost_the_pooled_one_nothing() {
    for name in EMBEDDERS {
        let model = model(name, Precision::F32);
        let texts = recorded(name).texts;
        let with_tokens: Vec<&Text> = texts.iter().filter(|text| text.token_embeddings.is_some()).collect();
        assert!(with_tokens.len() >= 3);
        let batch: Vec<&[u32]> = with_tokens.iter().map(|text| text.ids.as_slice()).collect();
        let expected: Vec<&Vec<f32>> =
            with_tokens.iter().flat_map(|text| text.token_embeddings.as_ref().unwrap()).collect();
        let width = model.info().dimension;
        let (mut pooled, mut tokens) = (vec![0.0; batch.len() * width], vec![0.0; expected.len() * width]);
        model.embed_tokens(&batch, &mut Scratch::new(), &mut pooled, &mut tokens);
        assert_eq!(bits(&pooled), bits(&embed(&model, &batch)), "{name}");
        for (got, expected) in tokens.chunks_exact(width).zip(expected) {
            let length = got.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!((length - 1.0).abs() < 1e-5, "{name}: length {length}");
            assert!(cosine(got, expected) >= 0.999_99, "{name}: {}", cosine(got, expected));
        }
    }
}

#[test]
fn late_interaction_is_the_mean_of_the_best_cosines_without_special_tokens() {
    for name in EMBEDDERS {
        let model = model(name, Precision::F32);
        let texts = recorded(name).texts;
        let with_tokens: Vec<&Text> =
            texts.iter().filter(|text| text.token_embeddings.is_some() && text.ids.len() > 2).collect();
        // the inner tokens, of length one
        let inner = |text: &Text| -> Vec<Vec<f32>> {
            let all = text.token_embeddings.as_ref().unwrap();
            all[1..all.len() - 1].to_vec()
        };
        let query = inner(with_tokens[0]);
        let expected: Vec<f32> = with_tokens
            .iter()
            .map(|text| {
                let best = |token: &Vec<f32>| {
                    inner(text).iter().map(|other| cosine(token, other)).fold(f64::MIN, f64::max)
                };
                (query.iter().map(best).sum::<f64>() / query.len() as f64) as f32
            })
            .collect();
        let batch: Vec<&[u32]> = with_tokens.iter().map(|text| text.ids.as_slice()).collect();
        let mut got = vec![0.0; batch.len()];
        model.max_sim(&query.concat(), &batch, &mut Scratch::new(), &mut got);
        assert!(max_difference(&got, &expected) < 1e-4, "{name}: {got:?} is not {expected:?}");
        assert!((got[0] - 1.0).abs() < 1e-4, "{name}: a text is all like itself, not {}", got[0]);
    }
}

#[test]
fn a_cut_embedding_equals_the_recordings_and_has_length_one() {
    let model = model("bert", Precision::F32);
    assert_eq!(model.info().dimensions, [8, 16, 32]);
    for Text { ids, cut, .. } in recorded("bert").texts {
        let whole = embed(&model, &[&ids]);
        assert_eq!(cut.len(), 2);
        for (dimension, expected) in cut {
            let got = model.cut(&whole, dimension).unwrap();
            let apart = max_difference(&got, &expected);
            assert!(got.len() == dimension && apart < 1e-5, "{dimension}: differs by {apart}");
        }
        assert_eq!(model.cut(&whole, 9), None);
        assert_eq!(model.cut(&whole[..8], 8), None);
    }
}

#[test]
fn lengths_come_from_the_files_or_from_the_caller() {
    let plain = model("xlm-roberta", Precision::F32);
    assert_eq!(plain.info().dimensions, [48]);
    assert_eq!(plain.with_dimensions(&[32, 12, 32]).unwrap().info().dimensions, [12, 32, 48]);
    let file = "config_sentence_transformers.json";
    let copy = edited("xlm-roberta", file, "\"prompts\"", "\"truncate_dim\": 24, \"prompts\"");
    assert_eq!(load(copy.path(), Precision::F32).unwrap().info().dimensions, [24, 48]);
    for wrong in [0, 49] {
        let error = model("xlm-roberta", Precision::F32).with_dimensions(&[wrong]).err().unwrap().to_string();
        assert!(error.contains(&format!("can't be cut to {wrong}")), "{error}");
    }
}

#[test]
fn prompts_are_read() {
    let bert = model("bert", Precision::F32).info().prompts.clone();
    assert_eq!((bert.query.as_str(), bert.document.as_str()), ("Which text answers: ", "text: "));
    let file = "config_sentence_transformers.json";
    let copy = edited("bert", file, "\"document\": \"text: \"", "\"passage\": \"passage: \"");
    assert_eq!(load(copy.path(), Precision::F32).unwrap().info().prompts.document, "passage: ");
    let copy = edited("bert", file, "\"default_prompt_name\": null", "\"default_prompt_name\": \"query\"");
    assert_eq!(load(copy.path(), Precision::F32).unwrap().info().prompts.document, "text: ");
}

#[test]
fn pairs_have_the_ids_and_token_types_of_the_recordings() {
    for name in CLASSIFIERS {
        let model = model(name, Precision::F32);
        let pairs = recorded(name).pairs;
        assert!(pairs.len() >= 12, "{name}: the recordings are incomplete");
        let mut truncated = 0;
        for pair in &pairs {
            let got = model.tokenizer().encode_pair(&pair.a, &pair.b);
            assert_eq!(got.ids, pair.ids, "{name}: {:?} {:?}", pair.a, pair.b);
            if let Some(types) = &pair.types {
                let first = types.iter().filter(|kind| **kind == 0).count();
                assert_eq!(got.second, first, "{name}: {:?} {:?}", pair.a, pair.b);
            }
            truncated += usize::from(got.is_truncated);
        }
        assert!(truncated >= 4, "{name}: {truncated} pairs are cut");
    }
}

#[test]
fn logits_equal_the_recordings() {
    for name in CLASSIFIERS {
        for precision in Precision::ALL {
            let model = model(name, precision);
            let mut most = 0.0f32;
            for Pair { a, b, logits, .. } in recorded(name).pairs {
                let got = classify(&model, &[model.tokenizer().encode_pair(&a, &b)]);
                most = most.max(max_difference(&got, &logits));
            }
            println!("{name} in {}: logits differ by {most:.1e} at most", precision.name());
            assert!(most <= bounds(precision).1, "{name} in {}: {most}", precision.name());
        }
    }
}

#[test]
fn labels_come_from_the_configuration() {
    let labels = |name| model(name, Precision::F32).info().labels.clone();
    assert_eq!(labels("roberta-classifier"), ["contradiction", "entailment", "neutral"]);
    assert_eq!(labels("bert-classifier"), ["LABEL_0"]);
    assert_eq!(labels("distilbert-classifier"), ["LABEL_0", "LABEL_1"]);
    assert_eq!(labels("bert"), [""; 0]);
}

#[test]
fn every_model_computes_the_same_alone_and_in_any_batch_bit_for_bit() {
    for precision in Precision::ALL {
        for name in EMBEDDERS {
            let (model, texts) = (model(name, precision), recorded(name).texts);
            let ids: Vec<&[u32]> = texts.iter().map(|text| text.ids.as_slice()).collect();
            let alone: Vec<f32> = ids.iter().flat_map(|ids| embed(&model, &[ids])).collect();
            for size in [2, 5, ids.len()] {
                let batched: Vec<f32> = ids.chunks(size).flat_map(|batch| embed(&model, batch)).collect();
                assert_eq!(bits(&batched), bits(&alone), "{name} in {}, {size}", precision.name());
            }
        }
        for name in CLASSIFIERS {
            let (model, pairs) = (model(name, precision), recorded(name).pairs);
            let pairs: Vec<EncodedPair> =
                pairs.iter().map(|pair| model.tokenizer().encode_pair(&pair.a, &pair.b)).collect();
            let alone: Vec<f32> =
                pairs.iter().flat_map(|pair| classify(&model, std::slice::from_ref(pair))).collect();
            for size in [2, 5, pairs.len()] {
                let batched: Vec<f32> =
                    pairs.chunks(size).flat_map(|batch| classify(&model, batch)).collect();
                assert_eq!(bits(&batched), bits(&alone), "{name} in {}, {size}", precision.name());
            }
        }
    }
}

#[test]
fn heads_are_kept_in_the_cache_of_packed_weights() {
    let cache = tempfile::tempdir().unwrap();
    for (name, precision) in CLASSIFIERS.iter().flat_map(|name| Precision::ALL.map(|p| (*name, p))) {
        let load = |cache| Model::load(&folder(name), precision, Kernels::current(), cache).unwrap();
        let (plain, packed, mapped) = (load(None), load(Some(cache.path())), load(Some(cache.path())));
        let pairs = [plain.tokenizer().encode_pair("what holds back a river", "A weir is a low dam.")];
        let expected = bits(&classify(&plain, &pairs));
        for model in [packed, mapped] {
            assert!(model.cache_error().is_none());
            assert_eq!(bits(&classify(&model, &pairs)), expected, "{name} in {}", precision.name());
        }
    }
}

#[test]
fn unsupported_variants_are_rejected_with_their_key() {
    let pooling = "1_Pooling/config.json";
    let mode = "\"pooling_mode\": \"mean\"";
    let cases = [
        ("config.json", "\"model_type\": \"bert\"", "\"model_type\": \"deberta\"", "model_type is `deberta`"),
        ("config.json", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"", "hidden_act is `relu`"),
        (
            "config.json",
            "\"hidden_act\": \"gelu\"",
            "\"hidden_act\": \"gelu_new\"",
            "hidden_act is `gelu_new`",
        ),
        ("config.json", "\"is_decoder\": false", "\"is_decoder\": true", "is_decoder is `true`"),
        (
            "config.json",
            "\"is_decoder\"",
            "\"position_embedding_type\": \"relative_key\", \"is_decoder\"",
            "position_embedding_type is `relative_key`",
        ),
        (
            "config.json",
            "BertModel",
            "XForSequenceClassification",
            "architectures is `XForSequenceClassification`",
        ),
        (
            "config.json",
            "\"max_position_embeddings\": 64",
            "\"max_position_embeddings\": 4",
            "too small for any text",
        ),
        ("config.json", "8,", "33,", "can't be cut to 33"),
        (pooling, mode, "\"pooling_mode\": \"weightedmean\"", "pooling_mode is `weightedmean`"),
        (pooling, mode, "\"pooling_mode\": [\"mean\", \"cls\"]", "pooling_mode is `mean+cls`"),
        (
            pooling,
            mode,
            "\"pooling_mode_mean_tokens\": true, \"pooling_mode_max_tokens\": true",
            "pooling_mode is `max+mean`",
        ),
        (pooling, "\"include_prompt\": true", "\"include_prompt\": false", "include_prompt is `false`"),
        (
            pooling,
            "\"embedding_dimension\": 32",
            "\"word_embedding_dimension\": 64",
            "is 64, and the network has 32",
        ),
        ("modules.json", "normalize.Normalize", "dense.Dense", "type is `Transformer, Pooling, Dense`"),
        ("modules.json", "\"1_Pooling\"", "\"2_Pooling\"", "path is `2_Pooling`"),
        ("sentence_bert_config.json", "{", "{\"max_seq_length\": 4, ", "`max_seq_length` leaves 4 tokens"),
    ];
    for (file, from, to, expected) in cases {
        let copy = edited("bert", file, from, to);
        let error = load(copy.path(), Precision::F32).err().unwrap_or_else(|| panic!("{to} is accepted"));
        assert!(error.contains(expected), "{file} with {to}: {error}");
    }
    let lower = |name| edited(name, "sentence_bert_config.json", "{", "{\"do_lower_case\": true, ");
    assert!(load(lower("bert").path(), Precision::F32).is_ok());
    let error = load(lower("roberta").path(), Precision::F32).err().unwrap();
    assert!(error.contains("do_lower_case is `true`"), "{error}");
    let odd = edited("roberta-classifier", "config.json", "\"2\": \"neutral\"", "\"3\": \"neutral\"");
    let error = load(odd.path(), Precision::F32).err().unwrap();
    assert!(error.contains("the keys of `id2label` are not 0"), "{error}");
}

#[test]
fn sizes_beyond_the_checkpoint_are_rejected_before_memory_is_allocated() {
    let config = "config.json";
    let cases = [
        (config, "\"intermediate_size\": 24", "\"intermediate_size\": 16777216", "not [16777216, 32]"),
        (
            config,
            "\"num_hidden_layers\": 2",
            "\"num_hidden_layers\": 16777216",
            "encoder.layer.2.attention.self.query.weight` is missing",
        ),
        (config, "\"vocab_size\": 260", "\"vocab_size\": 16777216", "not [16777216, 32]"),
        (config, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 16777217", "a size is 0 or too large"),
        (config, "\"hidden_size\": 32", "\"hidden_size\": 16777216", "a size is 0 or too large"),
        (config, "\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": -1e-12", "`layer_norm_eps` is -1e-12"),
        (config, "\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": 0", "`layer_norm_eps` is 0e0"),
        (config, "\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": 1e-60", "`layer_norm_eps` is 0e0"),
        (config, "\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": 2", "`layer_norm_eps` is 2e0"),
        ("tokenizer.json", "\"[PAD]\":0", "\"[PAD]\":4294967295", "token id 4294967295 is outside"),
    ];
    for (file, from, to, expected) in cases {
        let copy = edited("bert", file, from, to);
        let error = load(copy.path(), Precision::Int8).err().unwrap_or_else(|| panic!("{to} is accepted"));
        assert!(error.contains(expected), "{file} with {to}: {error}");
    }
    for (from, to, expected) in [
        ("\"hidden_size\": 40", "\"hidden_size\": 1152921504606846976", "`hidden_size` is 0 or too large"),
        ("\"pad_token_id\": 1", "\"pad_token_id\": 18446744073709551615", "limit of 0 tokens"),
    ] {
        let copy = edited("roberta", config, from, to);
        let error = ExternalModel::load(copy.path()).err().unwrap_or_else(|| panic!("{to} is accepted"));
        assert!(error.to_string().contains(expected), "{to}: {error}");
    }
}

#[test]
fn a_model_beyond_the_memory_limit_is_rejected_with_the_setting() {
    let load = |bytes_max| {
        Model::load_within(&folder("bert"), Precision::F32, Kernels::current(), None, bytes_max).map(drop)
    };
    for bytes_max in [1_000, 150_000] {
        let error = load(bytes_max).unwrap_err().to_string();
        let words = format!("more than the {bytes_max} of `inference.model_bytes_max`");
        assert!(error.contains(&words), "{error}");
    }
    load(2_000_000).unwrap();
}

#[test]
fn weights_that_are_no_numbers_or_overflow_are_rejected_with_their_tensor() {
    // in bf16: the upper half of a float
    let copy = edited("xlm-roberta", "config.json", "gelu", "gelu");
    let path = copy.path().join("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    for (weight, shown) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "-inf"), (65536.0, "65536")] {
        let start = 8 + u64::from_le_bytes(*whole.first_chunk().unwrap()) as usize;
        let changed = [&whole[..start], &weight.to_le_bytes(), &whole[start + 4..]].concat();
        std::fs::write(&path, changed).unwrap();
        let error =
            load(copy.path(), Precision::Int8).err().unwrap_or_else(|| panic!("{weight} is accepted"));
        assert!(error.contains("tensor `") && error.contains(&format!("the weight {shown};")), "{error}");
    }
}

#[test]
fn tokenizers_that_would_fail_on_texts_of_clients_are_rejected() {
    let rules = |rule: &str| format!("\"normalizer\":{rule},\"unused\"");
    let twice = r#"{"type":"Replace","pattern":{"String":"a"},"content":"aa"}"#;
    let forty = format!(r#"{{"type":"Sequence","normalizers":[{}]}}"#, vec![twice; 40].join(","));
    let charsmap = r#"{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAAA="}"#;
    for (rule, expected) in [(forty.as_str(), "times as long"), (charsmap, "character map is damaged")] {
        let copy = edited("bert", "tokenizer.json", "\"normalizer\"", &rules(rule));
        let error = load(copy.path(), Precision::F32).err().unwrap_or_else(|| panic!("{rule} is accepted"));
        assert!(error.contains("tokenizer.json is damaged") && error.contains(expected), "{error}");
    }
    let copy = edited("bert", "tokenizer.json", "\"ids\":[3]", "\"ids\":[99999]");
    let error = load(copy.path(), Precision::F32).err().expect("an id outside of the vocabulary is accepted");
    assert!(error.contains("token id 99999 is outside"), "{error}");
}

#[test]
fn a_checkpoint_with_a_damaged_header_is_rejected() {
    let copy = edited("bert", "config.json", "260", "260");
    let path = copy.path().join("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    let with_length = |len: u64| [&len.to_le_bytes(), &whole[8..]].concat();
    let damaged = [
        ("a length beyond the file", with_length(u64::MAX)),
        ("a length of another place", with_length(100)),
        ("a byte more", [whole.as_slice(), b"x"].concat()),
        ("a byte less", whole[..whole.len() - 1].to_vec()),
        ("a tensor of another place", {
            let at = whole.windows(3).position(|bytes| bytes == b"[0,").unwrap();
            [&whole[..at + 1], b"9", &whole[at + 2..]].concat()
        }),
    ];
    for (what, bytes) in damaged {
        std::fs::write(&path, bytes).unwrap();
        let error = load(copy.path(), Precision::F32).err().unwrap_or_else(|| panic!("{what} is accepted"));
        assert!(error.contains("model.safetensors is damaged"), "{what}: {error}");
    }
}

#[test]
fn a_prefix_of_tensor_names_makes_no_difference() {
    // checkpoints of classifiers have the prefix, those of embedders do not; here a classifier's checkpoint embeds
    let copy = edited("bert-classifier", "config.json", "BertForSequenceClassification", "BertModel");
    let (plain, with_head) =
        (load(copy.path(), Precision::F32).unwrap(), model("bert-classifier", Precision::F32));
    let ids = plain.tokenizer().encode("A weir is a low dam across a river.").ids;
    assert_eq!((plain.info().labels.len(), with_head.info().labels.len()), (0, 1));
    assert_eq!(bits(&embed(&plain, &[&ids])), bits(&embed(&with_head, &[&ids])));
}

#[test]
fn the_hook_is_called_before_each_sublayer() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    fn count() {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    let model = model("bert", Precision::F32);
    let (mut without, mut with) = (vec![0.0; model.info().dimension], vec![0.0; model.info().dimension]);
    model.embed(&[&[2, 3, 4]], &mut Scratch::new(), &mut without);
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    model.embed(&[&[2, 3, 4]], &mut Scratch::new().before_each_sublayer(count), &mut with);
    assert_eq!(CALLS.load(Ordering::Relaxed), 2 * model.info().layers);
    assert_eq!(with, without);
}
