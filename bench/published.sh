#!/usr/bin/env bash
# The rows of four published experiments, measured here and laid beside what was published: docs/benchmarks/published, and the table at the top of
# docs/benchmarks.md. Two hours on two cores, most of them waiting for loads of a fixed length; the first run also installs the peers of
# bench/search.sh, bench/gateway.sh, bench/llm.sh and bench/wire.sh.
# ONLY="engine llm" measures some of engine, search, gateway, llm and wire; the figures of the others stay. OUT is another folder for what is
# measured (.cache/bench-published/figures). A part that fails is named at the end; its rows keep the figures that they had.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-.cache/bench-published/figures}
only=${ONLY:-engine search gateway llm wire}
target=${CARGO_TARGET_DIR:-target}/release
steps="500 1000 2000 5000 8000 10000 12000"
mkdir -p "$out"
failed=()

part() { # its name, and a command
    local name=$1 began=$SECONDS
    shift
    [[ " $only " == *" $name "* ]] || return 0
    echo "bench/published: $name"
    "$@" || failed+=("$name")
    echo "bench/published: $name took $(((SECONDS - began) / 60)) minutes"
}

measure_engine() {
    cargo build --release --locked -p weir-index --example bench_search &&
        PYTHONPATH=bench:bench/search .venv/bin/python bench/published/engine.py --binaries "$target/examples" --out "$out"
}

part engine measure_engine
part search env OUT="$out" SECONDS_PER_SIZE=60 bash bench/search.sh --cache .cache/bench-published/search --made 50000 --sizes 10000 50000 --engines Weir "Weir, text only" LanceDB "Qdrant Edge" OpenSearch "OpenSearch, three nodes"
part gateway env OUT="$out" SECONDS_PER_TURN=5 ROUNDS=2 bash bench/gateway.sh
part llm env OUT="$out" SECONDS_PER_TURN=20 ROUNDS=1 RATES="$steps" bash bench/llm.sh --published
part wire env OUT="$out" bash bench/wire.sh

PYTHONPATH=bench .venv/bin/python bench/published/side_by_side.py --collect docs/benchmarks "$out"
[ ${#failed[@]} -eq 0 ] || { echo "bench/published: failed: ${failed[*]}" >&2; exit 1; }
