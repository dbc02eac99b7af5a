//! SentenceTransformers similarity on the STS-B development set: the Spearman correlation of cosines with human scores.
//!
//! The set is for measurement only and not in the project: `WEIR_EVAL_DATA` names the folder that has `sts/stsb_dev.tsv`.

use std::path::{Path, PathBuf};

use weir_encoder::{Kernels, Model, Precision, Scratch};

/// The correlation of sentence-transformers with the same model.
const SPEARMAN: f64 = 0.8672;

#[test]
fn similarities_order_sentence_pairs_as_sentence_transformers_does() {
    #[allow(
        clippy::disallowed_methods,
        reason = "where the measurement data lies; no setting of the product"
    )]
    let folder = std::env::var_os("WEIR_EVAL_DATA").filter(|name| !name.is_empty()).map(PathBuf::from);
    let Some(folder) = folder else {
        println!("NOT MEASURED: set WEIR_EVAL_DATA to the folder that has sts/stsb_dev.tsv");
        return;
    };
    let text = std::fs::read_to_string(folder.join("sts/stsb_dev.tsv")).unwrap();
    let rows: Vec<(f64, &str, &str)> = text.lines().filter_map(row).collect();
    assert!(rows.len() >= 1500, "only {} pairs could be read", rows.len());
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/all-MiniLM-L6-v2");
    let model =
        Model::load(&model, Precision::F32, Kernels::current(), None).expect("run `make setup` first");
    let cosines: Vec<f64> = rows.iter().map(|(_, a, b)| cosine(&model, a, b)).collect();
    let human: Vec<f64> = rows.iter().map(|row| row.0).collect();
    let spearman = correlation(&ranks(&human), &ranks(&cosines));
    println!("STS-B dev: {} pairs, Spearman {spearman:.4} (sentence-transformers: {SPEARMAN})", rows.len());
    assert!((spearman - 0.867).abs() <= 0.001, "Spearman {spearman}");
}

fn row(line: &str) -> Option<(f64, &str, &str)> {
    let mut fields = line.split('\t');
    Some((fields.next()?.parse().ok()?, fields.next()?, fields.next()?))
}

fn cosine(model: &Model, a: &str, b: &str) -> f64 {
    let ids = [a, b].map(|text| model.tokenizer().encode(text).ids);
    let mut out = vec![0.0; 2 * model.info().dimension];
    model.embed(&[&ids[0], &ids[1]], &mut Scratch::new(), &mut out);
    let (a, b) = out.split_at(model.info().dimension);
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

/// Ranks from 1; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let first = order.iter().position(|i| i == &group[0]).unwrap();
        let mean = first as f64 + (group.len() as f64 + 1.0) / 2.0;
        group.iter().for_each(|i| ranks[*i] = mean);
    }
    ranks
}

/// Pearson's correlation.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}
