#!/usr/bin/env bash
# The LLM gateway beside plain proxies, LiteLLM, litellm-rs and Portkey in one run against one mock: docs/benchmarks/llm.md, its plots and its
# figures; about 20 minutes on four cores after the peers are installed, most of them into .cache/bench-peers (1 GB the first time).
# PEERS chooses among floor, go, weir, weir-guard, weir-pg, weir-embedding, portkey, litellm, litellm-4 and litellm-rs; RATES are requests/s; SCENARIOS
# are measured instead of all (SCENARIOS=chaos: faults of the only target), into OUT; SECONDS_PER_TURN and ROUNDS change how long is measured, OUT is another folder for the result; arguments go to bench/llm/measure.py. WEIR_BINARY, LOAD_BINARY, MOCK_BINARY, FLOOR_BINARY
# and GUARDRAILS_BINARY name binaries that are built already. `bench/llm.sh --install` installs the peers and measures nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=.cache/bench-peers
target=${CARGO_TARGET_DIR:-target}
peers=${PEERS:-floor go weir weir-guard weir-pg weir-embedding portkey litellm litellm-4 litellm-rs}
mkdir -p "$cache"

wants() { [[ " ${peers//,/ } " == *" $1 "* ]]; }

install_python() { # a folder of bench/peers with requirements.txt
    local venv=$cache/$1 wanted=bench/peers/$1/requirements.txt
    cmp -s "$wanted" "$venv/installed.txt" && return
    echo "bench/llm: installing bench/peers/$1 into $venv"
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --requirement "$wanted" && cp "$wanted" "$venv/installed.txt"
}

install_portkey() {
    local wanted=bench/peers/portkey/package.json
    cmp -s "$wanted" "$cache/portkey/installed.json" && return
    command -v npm >/dev/null || { echo "bench/llm: npm is not installed (apt install npm)" >&2; return 1; }
    echo "bench/llm: installing bench/peers/portkey into $cache/portkey"
    mkdir -p "$cache/portkey"
    cp "$wanted" "$cache/portkey/package.json"
    (cd "$cache/portkey" && npm install --ignore-scripts --no-audit --no-fund --silent) && cp "$wanted" "$cache/portkey/installed.json"
}

install_litellm_rs() { # nothing to do where this version is installed; its gateway is not built without a database
    cargo install --quiet litellm-rs --version 0.9.0 --locked --bin gateway --features sqlite --root "$cache/litellm-rs"
}

build_go() {
    local go
    go=$(command -v go || ls /usr/local/go/bin/go /usr/lib/go-*/bin/go 2>/dev/null | tail -n 1)
    [ -n "$go" ] || { echo "bench/llm: Go is not installed (apt install golang-go)" >&2; return 1; }
    local binary
    binary=$(realpath "$cache")/go_proxy
    (cd bench/peers/go_proxy && CGO_ENABLED=0 "$go" build -trimpath -ldflags='-s -w' -o "$binary" .)
}

# A peer that cannot be installed is left out of the measurement, which says so.
install_python harness
! wants litellm && ! wants litellm-4 || install_python litellm || echo "bench/llm: LiteLLM is left out" >&2
! wants litellm-rs || install_litellm_rs || echo "bench/llm: litellm-rs is left out" >&2
! wants portkey || install_portkey || echo "bench/llm: Portkey is left out" >&2
! wants go || build_go || echo "bench/llm: Go is left out" >&2
[ "${1:-}" != --install ] || exit 0
[ -n "${FLOOR_BINARY:-}" ] || ! wants floor ||
    cargo build --release --locked --manifest-path bench/peers/floor/Cargo.toml --target-dir "$target/floor"
if [ -z "${LOAD_BINARY:-}" ] || [ -z "${MOCK_BINARY:-}" ]; then
    cargo build --release --locked -p weir-loadgen -p weir-mock
fi
if wants weir || wants weir-guard || wants weir-pg || wants weir-embedding; then
    WEIR_BINARY=${WEIR_BINARY:-$(scripts/pgo.sh)} # as it is released
    [ -n "${GUARDRAILS_BINARY:-}" ] || cargo build --release --locked -p weir-guardrails --example bench_guardrails
fi

# Thousands of streams take two files each in a gateway.
ulimit -n "$(ulimit -Hn)"
arguments=(${WEIR_BINARY:+--weir "$WEIR_BINARY"} --load "${LOAD_BINARY:-$target/release/weir-bench}")
arguments+=(--mock "${MOCK_BINARY:-$target/release/weir-mock}" --floor "${FLOOR_BINARY:-$target/floor/release/floor}")
arguments+=(--guardrails "${GUARDRAILS_BINARY:-$target/release/examples/bench_guardrails}")
[ -z "${OUT:-}" ] || arguments+=(--out "$OUT")
arguments+=(--seconds "${SECONDS_PER_TURN:-3}" --rounds "${ROUNDS:-2}" --peers "$peers")
[ -z "${RATES:-}" ] || arguments+=(--rates "$RATES")
[ -z "${SCENARIOS:-}" ] || arguments+=(--scenarios "$SCENARIOS")
PYTHONPATH=bench "$cache/harness/bin/python" bench/llm/measure.py "${arguments[@]}" "$@"
