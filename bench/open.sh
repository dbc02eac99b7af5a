#!/usr/bin/env bash
# Restart of an index: from opening its folder to the answer of the first hybrid search, each time in a new process with the files in the
# page cache, with and without the stored codes. SIZES=0,2000,60000 and RUNS=7 change what is measured; FOLDER keeps the indexes (3 GB with
# 1,000,000 chunks, which take about two minutes to build).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked -p weir-index --example bench_open
arguments=(--sizes "${SIZES:-0,2000,60000,1000000}" --runs "${RUNS:-7}")
[ -z "${FOLDER:-}" ] || arguments+=(--folder "$FOLDER")
"${CARGO_TARGET_DIR:-target}/release/examples/bench_open" "${arguments[@]}"
