#!/usr/bin/env bash
# Hybrid search with a ready query vector over 50,000 documents of real size, in one thread on one core, beside the lexical leg
# alone and the scan alone; recall of the dense leg against exact f32; resident bytes per document.
# DOCUMENTS, QUERIES and CORPUS (a folder with corpus.jsonl whose sentences are recombined) change what is measured.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked -p weir-index --example bench_hybrid
corpus=()
[ -z "${CORPUS:-}" ] || corpus=(--corpus "$CORPUS")
pin=()
! command -v taskset >/dev/null || pin=(taskset -c "$(($(nproc) - 1))")
"${pin[@]}" "${CARGO_TARGET_DIR:-target}/release/examples/bench_hybrid" \
    --documents "${DOCUMENTS:-50000}" --queries "${QUERIES:-2000}" "${corpus[@]}"
