//! A pass that threads work on together gives the embeddings of a pass by one, bit for bit, whoever comes and goes.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_encoder::{Kernels, Model, Precision, Scratch, Split, SplitScratch};

fn model(precision: Precision) -> Arc<Model> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/all-MiniLM-L6-v2");
    Arc::new(Model::load(&folder, precision, Kernels::current(), None).unwrap())
}

fn texts(lengths: &[usize]) -> Vec<Vec<u32>> {
    lengths.iter().map(|&len| (0..len as u32).map(|i| 1000 + i * i * 37 % 20_000).collect()).collect()
}

fn alone(model: &Model, texts: &[Vec<u32>]) -> Vec<f32> {
    let sequences: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let mut out = vec![0.0; texts.len() * model.info().dimension];
    model.embed(&sequences, &mut Scratch::new(), &mut out);
    out
}

fn bits(floats: &[f32]) -> Vec<u32> {
    floats.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn threads_together_give_what_one_gives() {
    for precision in Precision::ALL {
        let model = model(precision);
        for lengths in [&[1][..], &[8], &[16], &[31], &[3, 20, 9]] {
            let texts = texts(lengths);
            let want = bits(&alone(&model, &texts));
            for (helpers, threads) in [(0, 1), (1, 0), (3, 4), (3, 5), (7, 100)] {
                let split = Split::new(model.clone(), texts.clone(), threads).unwrap();
                let got = std::thread::scope(|scope| {
                    for _ in 0..helpers {
                        scope.spawn(|| split.help(&mut SplitScratch::new()));
                    }
                    split.lead(&mut SplitScratch::new())
                });
                assert_eq!(
                    bits(&got),
                    want,
                    "{} {lengths:?} with {helpers} helpers of {threads}",
                    precision.name()
                );
            }
        }
    }
}

#[test]
fn helpers_that_come_late_leave_early_and_come_again_change_nothing() {
    let model = model(Precision::Int8);
    let texts = texts(&[24]);
    let want = bits(&alone(&model, &texts));
    for round in 0..40 {
        let split = Split::new(model.clone(), texts.clone(), 4).unwrap();
        let got = std::thread::scope(|scope| {
            for helper in 0..6u64 {
                let split = &split;
                scope.spawn(move || {
                    let mut scratch = SplitScratch::new();
                    for visit in 0..4 {
                        std::thread::sleep(Duration::from_micros(
                            (round * 37 + helper * 101 + visit * 53) % 400,
                        ));
                        split.help(&mut scratch);
                    }
                });
            }
            split.lead(&mut SplitScratch::new())
        });
        assert_eq!(bits(&got), want, "round {round}");
    }
}

#[test]
fn a_pass_that_is_over_takes_no_help() {
    let model = model(Precision::Int8);
    let split = Split::new(model, texts(&[5]), 2).unwrap();
    let first = split.lead(&mut SplitScratch::new());
    split.help(&mut SplitScratch::new());
    assert_eq!(bits(&split.lead(&mut SplitScratch::new())), bits(&first));
}
