#!/usr/bin/env bash
# Search beside LanceDB, Qdrant Edge, Chroma, bm25s and PostgreSQL in one run: docs/benchmarks/search.md, its plots and its figures.
# Everything lies in .cache/bench-search: the peers (1 GB), the corpus of 1,000,000 documents (2 GB; embedding the 220,000 real ones takes
# half an hour on two cores and goes on where it was interrupted), and an index of each engine at each size (20 GB, an hour).
# DATA is a folder with evaluation sets, more real passages; SIZES="10000 50000" and SECONDS_PER_SIZE change what is measured, OUT is
# another folder for the result; arguments go to bench/search/measure.py.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=.cache/bench-search
python=$cache/venv/bin/python
target=${CARGO_TARGET_DIR:-target}/release

if ! cmp -s bench/search/requirements.txt "$cache/installed.txt"; then
    echo "bench/search: installing the peers into $cache/venv"
    mkdir -p "$cache"
    [ -x "$python" ] || python3 -m venv "$cache/venv"
    "$python" -m pip install --quiet --requirement bench/search/requirements.txt
    cp bench/search/requirements.txt "$cache/installed.txt"
fi
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ||
    echo "bench/search: no PostgreSQL server is installed, it is left out (apt install postgresql)" >&2

cargo build --release --locked -p weir -p weir-loadgen
cargo build --release --locked -p weir-index --example bench_search
cargo build --release --locked -p weir-encoder --example embed_lines

arguments=(--binaries "$target/examples" --out "${OUT:-docs/benchmarks}" --seconds "${SECONDS_PER_SIZE:-120}")
[ -z "${DATA:-}" ] || arguments+=(--data "$DATA")
[ -z "${SIZES:-}" ] || read -ra sizes <<<"$SIZES"
[ -z "${SIZES:-}" ] || arguments+=(--sizes "${sizes[@]}")
PYTHONPATH=bench "$python" bench/search/measure.py "${arguments[@]}" "$@"
