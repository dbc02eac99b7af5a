#!/usr/bin/env bash
# Vectors on the wire, from FastAPI with JSON to raw bytes and a Rust client, in one run: docs/benchmarks/wire.md, its plot and its figures;
# about half an hour on four cores, most of it FastAPI with JSON.
# The Python server and client install themselves into .cache/bench-peers/vectors (250 MB). OUT is another folder for the result;
# arguments go to bench/wire/measure.py.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.cache/bench-peers/vectors
target=${CARGO_TARGET_DIR:-target}/release

if ! cmp -s bench/peers/vectors/requirements.txt "$venv/installed.txt"; then
    echo "bench/wire: installing bench/peers/vectors into $venv"
    mkdir -p "$venv"
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --requirement bench/peers/vectors/requirements.txt
    cp bench/peers/vectors/requirements.txt "$venv/installed.txt"
fi

[ -n "${WEIR_BINARY:-}" ] || cargo build --release --locked -p weir
cargo build --release --locked -p weir-client --example bench_wire
PYTHONPATH=bench "$venv/bin/python" bench/wire/measure.py --weir "${WEIR_BINARY:-$target/weir}" --rust "$target/examples/bench_wire" \
    --python "$venv/bin/python" --out "${OUT:-docs/benchmarks}" "$@"
