//! A parallel pass gives the embeddings of a pass on one thread, bit for bit, whichever threads assist and when.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_encoder::{Kernels, Model, ParallelPass, ParallelScratch, Precision, Scratch};

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
fn several_threads_give_the_result_of_one() {
    for precision in Precision::ALL {
        let model = model(precision);
        for lengths in [&[1][..], &[8], &[16], &[31], &[3, 20, 9]] {
            let texts = texts(lengths);
            let want = bits(&alone(&model, &texts));
            for (helpers, threads) in [(0, 1), (1, 0), (3, 4), (3, 5), (7, 100)] {
                let pass = ParallelPass::new(model.clone(), texts.clone(), threads).unwrap();
                let got = std::thread::scope(|scope| {
                    for _ in 0..helpers {
                        scope.spawn(|| pass.assist(&mut ParallelScratch::new()));
                    }
                    pass.run(&mut ParallelScratch::new())
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
fn helpers_that_join_late_or_repeatedly_change_nothing() {
    let model = model(Precision::Int8);
    let texts = texts(&[24]);
    let want = bits(&alone(&model, &texts));
    for round in 0..40 {
        let pass = ParallelPass::new(model.clone(), texts.clone(), 4).unwrap();
        let got = std::thread::scope(|scope| {
            for helper in 0..6u64 {
                let pass = &pass;
                scope.spawn(move || {
                    let mut scratch = ParallelScratch::new();
                    for call in 0..4 {
                        std::thread::sleep(Duration::from_micros(
                            (round * 37 + helper * 101 + call * 53) % 400,
                        ));
                        pass.assist(&mut scratch);
                    }
                });
            }
            pass.run(&mut ParallelScratch::new())
        });
        assert_eq!(bits(&got), want, "round {round}");
    }
}

#[test]
fn a_complete_pass_ignores_helpers() {
    let model = model(Precision::Int8);
    let pass = ParallelPass::new(model, texts(&[5]), 2).unwrap();
    let first = pass.run(&mut ParallelScratch::new());
    pass.assist(&mut ParallelScratch::new());
    assert_eq!(bits(&pass.run(&mut ParallelScratch::new())), bits(&first));
}
