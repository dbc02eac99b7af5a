#!/usr/bin/env bash
# Collections in a Qdrant cluster beside embedded ones: nDCG@10 of the development sets (DATA, the folder of the sets), and what the gateway adds
# to a bare client of the same nodes. The nodes are those of the tests: in memory, exact, in a process of their own.
# SETS names some of the sets; SECONDS_PER_TURN and ROUNDS are those of the load.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked -p weir -p weir-loadgen
cargo build --release --locked -p weir-qdrant-mock --example bench_nodes
PYTHONPATH=bench python3 bench/qdrant.py
