//! Speed of the int8 scan and the PQ4 scan at several sizes, with each instruction set of this machine.
//! `cargo run --release -p weir-kernels --example scan`

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::time::Instant;

use weir_kernels::{Kernels, PQ4_BLOCK_ROWS, PQ4_CENTROIDS, Pq4Query, pq4_block_bytes};

/// Values per row, as in embeddings of all-MiniLM-L6-v2.
const DIMENSION: usize = 384;
/// PQ4 codes per row, as in the index for [`DIMENSION`] values.
const GROUPS: usize = 64;

fn main() {
    for rows in [1_000, 5_000, 20_000, 50_000, 200_000] {
        let data: Vec<i8> =
            (0..rows * DIMENSION).map(|i| (i * 7919 % 255) as u8 as i8).map(|x| x.max(-127)).collect();
        let query: Vec<i8> =
            (0..DIMENSION).map(|i| (i * 31 % 255) as u8 as i8).map(|x| x.max(-127)).collect();
        let mut out = vec![0; 256];
        let blocks: Vec<u8> =
            (0..rows / PQ4_BLOCK_ROWS * pq4_block_bytes(GROUPS)).map(|i| (i * 7919 % 251) as u8).collect();
        let products: Vec<[f32; PQ4_CENTROIDS]> =
            query[..GROUPS].iter().map(|&x| std::array::from_fn(|code| f32::from(x) * code as f32)).collect();
        let mut scores = [0.0; PQ4_BLOCK_ROWS];
        for kernels in Kernels::available() {
            let name = kernels.isa.name();
            report(&format!("{rows:7} rows, {name:7} int8 "), data.len(), || {
                for block in data.chunks(256 * DIMENSION) {
                    (kernels.dot_i8_rows)(&query, block, &mut out[..block.len() / DIMENSION]);
                }
            });
            report(&format!("{rows:7} rows, {name:7} pq4  "), blocks.len(), || {
                let query = Pq4Query::new(&products);
                for block in blocks.chunks(pq4_block_bytes(GROUPS)) {
                    query.scan(kernels, block, &[1.0; PQ4_BLOCK_ROWS], 1e9, &mut scores);
                }
            });
        }
    }
}

fn report(what: &str, bytes: usize, mut run: impl FnMut()) {
    let mut times: Vec<f64> = (0..40)
        .map(|_| {
            let started = Instant::now();
            run();
            started.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (least, median) = (times[0], times[times.len() / 2]);
    let speed = bytes as f64 / 1e9 / least;
    println!("{what}: median {:8.1} us, least {:8.1} us, {speed:5.1} GB/s", median * 1e6, least * 1e6);
}
