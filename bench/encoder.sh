#!/usr/bin/env bash
# The encoder beside ONNX Runtime, OpenVINO and sentence-transformers in one run: docs/benchmarks/encoder.md, its plot and its figures.
# The peers install themselves into .cache/bench-encoder (several GB the first time; TORCH_INDEX=URL names an index with PyTorch's smaller CPU
# wheels). MINUTES is how long to measure (7.5), OUT another folder for the result.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=.cache/bench-encoder
python=$cache/venv/bin/python
model=${WEIR_TEST_MODEL:-models/all-MiniLM-L6-v2}

if ! cmp -s bench/encoder/requirements.txt "$cache/installed.txt"; then
    echo "bench/encoder: installing the peers into $cache/venv"
    [ -x "$python" ] || python3 -m venv "$cache/venv"
    [ -z "${TORCH_INDEX:-}" ] ||
        "$python" -m pip install --quiet --index-url "$TORCH_INDEX" "$(grep '^torch==' bench/encoder/requirements.txt)"
    "$python" -m pip install --quiet --requirement bench/encoder/requirements.txt
    cp bench/encoder/requirements.txt "$cache/installed.txt"
fi

cargo build --release --locked -p weir-encoder --example bench_encoder -p weir-kernels --example peak
# ONNX Runtime from Rust is a workspace of its own. Without it, ONNX Runtime is measured from Python alone, and the page has no such rows.
CARGO_TARGET_DIR=$cache/ort-target cargo build --release --locked --manifest-path bench/encoder/ort/Cargo.toml ||
    { echo "bench/encoder: ONNX Runtime from Rust did not build, left out" >&2; rm -f "$cache/ort-target/release/bench-ort"; }

"$python" bench/encoder/export.py --model "$model" --out "$cache/models"
PYTHONPATH=bench "$python" bench/encoder/measure.py --binaries "${CARGO_TARGET_DIR:-target}/release/examples" --model "$model" --cache "$cache" \
    --minutes "${MINUTES:-7.5}" --out "${OUT:-docs/benchmarks}"
