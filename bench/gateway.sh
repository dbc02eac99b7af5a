#!/usr/bin/env bash
# Weir as a monolith, split, thin and with an ONNX model beside a Python service and a Go gateway in one run: docs/benchmarks/gateway.md,
# its plots and its figures; about half an hour on four cores, most of it the settings of the Python service.
# The peers install themselves into .cache/bench-peers (6 GB the first time; TORCH_INDEX=URL names an index with PyTorch's smaller CPU
# wheels). DATA is a folder with evaluation sets, whose documents are used; without it they are made of the sample. SECONDS_PER_TURN and
# ROUNDS change how long is measured, OUT is another folder for the result; arguments go to bench/gateway/measure.py.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=.cache/bench-peers
target=${CARGO_TARGET_DIR:-target}/release
model=${WEIR_TEST_MODEL:-models/all-MiniLM-L6-v2}

install_peer() { # a folder of bench/peers with requirements.txt
    local venv=$cache/$1 wanted=bench/peers/$1/requirements.txt
    cmp -s "$wanted" "$venv/installed.txt" && return
    echo "bench/gateway: installing bench/peers/$1 into $venv"
    mkdir -p "$cache"
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    if [ -n "${TORCH_INDEX:-}" ] && grep -q '^torch==' "$wanted"; then
        "$venv/bin/python" -m pip install --quiet --index-url "$TORCH_INDEX" "$(grep '^torch==' "$wanted")"
    fi
    "$venv/bin/python" -m pip install --quiet --requirement "$wanted"
    cp "$wanted" "$venv/installed.txt"
}

find_go() {
    command -v go || ls /usr/local/go/bin/go /usr/lib/go-*/bin/go 2>/dev/null | tail -n 1
}

install_peer python_monolith
install_peer harness
if [ -z "$(find_go)" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "bench/gateway: installing Go"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends golang-go
fi
go=$(find_go)
if [ -n "$go" ]; then
    binary=$(realpath "$cache")/go_thin
    (cd bench/peers/go_thin && CGO_ENABLED=0 "$go" build -trimpath -ldflags='-s -w' -o "$binary" .)
else
    echo "bench/gateway: Go is not installed, its gateway is left out (apt install golang-go)" >&2
fi
[ -e "$cache/onnx-int8/model.onnx" ] ||
    "$cache/python_monolith/bin/python" bench/peers/python_monolith/export.py --model "$model" --out "$cache/onnx-int8"

[ -n "${LOAD_BINARY:-}" ] || cargo build --release --locked -p weir-loadgen
WEIR_BINARY=${WEIR_BINARY:-$(scripts/pgo.sh)} # as it is released
arguments=(--weir "$WEIR_BINARY" --load "${LOAD_BINARY:-$target/weir-bench}" --model "$model" --out "${OUT:-docs/benchmarks}")
arguments+=(--seconds "${SECONDS_PER_TURN:-8}" --rounds "${ROUNDS:-3}")
[ -z "${DATA:-}" ] || arguments+=(--data "$DATA")
PYTHONPATH=bench "$cache/harness/bin/python" bench/gateway/measure.py "${arguments[@]}" "$@"
