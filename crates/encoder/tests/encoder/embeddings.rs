//! Embeddings of the real model, compared with recordings of sentence-transformers.

#![allow(clippy::print_stdout, reason = "prints the differences from the recordings")]

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_encoder::{Model, Precision, Scratch};
use weir_kernels::Kernels;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn model(precision: Precision) -> Model {
    #[allow(clippy::disallowed_methods, reason = "where the tests' model lies; no setting of the product")]
    let folder = std::env::var_os("WEIR_TEST_MODEL").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| repository().join("models/all-MiniLM-L6-v2"));
    Model::load(&folder, precision, Kernels::current(), None).expect("run `make setup` first")
}

/// Whether a test takes fewer and shorter texts: with the scalar reference, which takes a hundred times as long, unless `WEIR_SCALAR` is `full`.
/// What then remains runs every kernel of the encoder; its sums are compared at every length by the tests of the kernels.
fn is_short(model: &Model) -> bool {
    #[allow(clippy::disallowed_methods, reason = "a setting of the tests")]
    let length = std::env::var_os("WEIR_SCALAR");
    model.kernels_name() == "scalar" && length.is_none_or(|length| length != "full")
}

#[derive(Deserialize)]
struct Recorded {
    text: String,
    tokens: usize,
}

/// The recorded texts and their embeddings, 384 floats each.
fn recordings() -> (Vec<Recorded>, Vec<f32>) {
    let folder = repository().join("fixtures/embeddings");
    let lines = std::fs::read_to_string(folder.join("texts.jsonl")).unwrap();
    let bytes = std::fs::read(folder.join("vectors.f32")).unwrap();
    let vectors = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), vectors)
}

fn embed(model: &Model, batch: &[Vec<u32>]) -> Vec<f32> {
    let sequences: Vec<&[u32]> = batch.iter().map(Vec::as_slice).collect();
    let mut out = vec![0.0; batch.len() * model.info().dimension];
    model.embed(&sequences, &mut Scratch::new(), &mut out);
    out
}

/// Smallest and mean cosine between our embeddings of the recorded texts and the recordings.
fn cosines(precision: Precision) -> (f64, f64) {
    let model = model(precision);
    let (texts, expected) = recordings();
    assert!(texts.len() >= 200, "the recordings are incomplete");
    let (step, tokens_max) = if is_short(&model) { (4, 48) } else { (1, usize::MAX) };
    let mut cosines = Vec::new();
    let recordings = texts.iter().zip(expected.chunks_exact(384));
    for (recorded, expected) in recordings.filter(|(text, _)| text.tokens <= tokens_max).step_by(step) {
        let ids = model.tokenizer().encode(&recorded.text).ids;
        assert_eq!(ids.len(), (recorded.tokens + 2).min(256), "{:?}", recorded.text);
        let got = embed(&model, &[ids]);
        let dot =
            |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        cosines.push(dot(&got, expected) / (dot(&got, &got) * dot(expected, expected)).sqrt());
    }
    assert!(cosines.len() >= 10, "only {} texts", cosines.len());
    let least = cosines.iter().copied().fold(1.0, f64::min);
    let mean = cosines.iter().sum::<f64>() / cosines.len() as f64;
    let (precision, kernels) = (precision.name(), model.kernels_name());
    println!(
        "{precision} embeddings: {} texts on {kernels}, cosine mean {mean:.7}, least {least:.7}",
        cosines.len()
    );
    (least, mean)
}

#[test]
fn embeddings_equal_the_recordings() {
    let (least, _) = cosines(Precision::F32);
    assert!(least >= 0.99999, "smallest cosine {least}");
}

#[test]
fn bf16_embeddings_are_almost_equal_to_the_recordings() {
    let (least, mean) = cosines(Precision::Bf16);
    assert!(mean >= 0.999_98 && least >= 0.999_9, "cosine mean {mean}, least {least}");
}

#[test]
fn int8_embeddings_are_near_the_recordings() {
    let (least, mean) = cosines(Precision::Int8);
    // short texts alone are rounded more than the mean of all
    let mean_min = if is_short(&model(Precision::Int8)) { 0.998 } else { 0.9985 };
    assert!(mean >= mean_min && least >= 0.995, "cosine mean {mean}, least {least}");
}

#[test]
fn an_embedding_is_the_same_alone_and_in_any_batch_bit_for_bit() {
    for precision in Precision::ALL {
        let model = model(precision);
        let (texts, _) = recordings();
        let is_short = is_short(&model);
        let (step, tokens_short, tokens_max) = if is_short { (2, 16, 64) } else { (2, 64, usize::MAX) };
        let all = texts.iter().map(|recorded| model.tokenizer().encode(&recorded.text).ids);
        let all = all.filter(|ids| ids.len() <= tokens_max);
        let (short, long): (Vec<Vec<u32>>, Vec<Vec<u32>>) = all.partition(|ids| ids.len() <= tokens_short);
        // one text of full length among short ones: five passes over long texts would take minutes
        let count = if is_short { 11 } else { usize::MAX };
        let mut ids: Vec<Vec<u32>> = short.into_iter().step_by(step).take(count).collect();
        ids.insert(ids.len() / 2, long.into_iter().max_by_key(Vec::len).unwrap());
        let alone: Vec<f32> = ids.iter().flat_map(|ids| embed(&model, std::slice::from_ref(ids))).collect();
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let sizes: &[usize] = if is_short { &[3, 16] } else { &[2, 3, 7, 16] };
        for &size in sizes {
            let batched: Vec<f32> = ids.chunks(size).flat_map(|batch| embed(&model, batch)).collect();
            assert!(bits(&batched) == bits(&alone), "batches of {size} differ from single texts");
        }
        let reversed: Vec<Vec<u32>> = ids.iter().rev().cloned().collect();
        let reversed = embed(&model, &reversed[..9]);
        let from_end = alone.chunks_exact(384).rev().take(9).flatten().copied().collect::<Vec<_>>();
        assert!(bits(&reversed) == bits(&from_end), "the order in a batch matters");
    }
}

#[test]
fn working_memory_is_at_most_the_estimate_of_the_model() {
    for precision in Precision::ALL {
        let model = model(precision);
        let longest = if is_short(&model) { 64 } else { 256 };
        let many = longest / 4;
        for lengths in
            [vec![longest], vec![1], vec![longest / 2; 2], vec![2; many], vec![100 * longest / 256, 3, 25]]
        {
            let batch: Vec<Vec<u32>> = lengths.iter().map(|length| vec![2_000; *length]).collect();
            let sequences: Vec<&[u32]> = batch.iter().map(Vec::as_slice).collect();
            let mut scratch = Scratch::new();
            // batches of growing size, as memory grows in use
            for count in [1, 2, 3, 8, 31, 64].into_iter().filter(|count| *count <= sequences.len()) {
                model.embed(
                    &sequences[..count],
                    &mut scratch,
                    &mut vec![0.0; count * model.info().dimension],
                );
            }
            let (used, estimate) = (scratch.memory_bytes(), model.working_bytes(lengths.iter().sum()));
            assert!(used <= estimate, "{precision:?} {lengths:?}: {used} bytes, estimated {estimate}");
        }
        let mut scratch = Scratch::new();
        model.embed(&[&vec![2_000; longest]], &mut scratch, &mut vec![0.0; model.info().dimension]);
        let (used, estimate) = (scratch.memory_bytes(), model.working_bytes(longest));
        assert!(estimate <= used + used / 10, "{precision:?}: {used} bytes, estimated {estimate}");
    }
}

#[test]
fn a_missing_or_damaged_file_is_named() {
    let source = repository().join("models/all-MiniLM-L6-v2");
    let folder = tempfile::tempdir().unwrap();
    let load = || {
        Model::load(folder.path(), Precision::F32, Kernels::current(), None)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let copy = |name: &str, edit: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let to = folder.path().join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, edit(std::fs::read(source.join(name)).unwrap())).unwrap();
    };
    let whole = |bytes: Vec<u8>| bytes;
    let half = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
    assert!(load().contains("config.json is missing"), "{}", load());
    copy("config.json", &half);
    assert!(load().contains("config.json is damaged"), "{}", load());
    copy("config.json", &|b| String::from_utf8(b).unwrap().replace("\"bert\"", "\"gpt2\"").into_bytes());
    assert!(load().contains("model_type is `gpt2`, but Weir supports `bert`"), "{}", load());
    copy("config.json", &whole);
    assert!(load().contains("tokenizer.json is missing"), "{}", load());
    copy("tokenizer.json", &half);
    assert!(load().contains("tokenizer.json is damaged"), "{}", load());
    copy("tokenizer.json", &whole);
    assert!(load().contains("model.safetensors is missing"), "{}", load());
    copy("model.safetensors", &half);
    assert!(load().contains("model.safetensors is damaged"), "{}", load());
    let weighted = |b| {
        String::from_utf8(b).unwrap().replace("mode_mean_tokens", "mode_weightedmean_tokens").into_bytes()
    };
    copy("1_Pooling/config.json", &weighted);
    assert!(load().contains("pooling_mode is `weightedmean`, but Weir supports one of `mean`"), "{}", load());
}
