#!/usr/bin/env bash
# Builds Weir, serves it over the default model, and on the first start ingests the sample. Ctrl-C stops it gracefully.
# WEIR_LISTEN and WEIR_DATA_DIR change where.
set -euo pipefail
cd "$(dirname "$0")/.."

export WEIR_LISTEN=${WEIR_LISTEN:-127.0.0.1:8000}
export WEIR_DATA_DIR=${WEIR_DATA_DIR:-./weir-data}
export WEIR_URL="http://$WEIR_LISTEN"
readonly MODEL=models/all-MiniLM-L6-v2
readonly SAMPLE=samples/xquad/documents
readonly READY_SECONDS_MAX=120
readonly WEIR="${CARGO_TARGET_DIR:-target}/release/weir"
# Says how far the sample of the first start got: `started` or `done`.
readonly SAMPLE_STATE="$WEIR_DATA_DIR/sample-state"

say() { printf '\nweir: %s\n' "$*"; }
die() { printf 'weir: %s\n' "$*" >&2; exit 1; }

port_is_taken() {
    local host=${WEIR_LISTEN%:*}
    host=${host#[}
    (exec 3<>"/dev/tcp/${host%]}/${WEIR_LISTEN##*:}") 2>/dev/null
}

stop_server() {
    trap '' INT TERM HUP
    kill -TERM "$server" 2>/dev/null || true
    wait "$server"
}

# A session of its own, so that Ctrl-C reaches the server once: as the SIGTERM that we send.
start_server() {
    local alone=()
    ! command -v setsid >/dev/null || alone=(setsid)
    "${alone[@]}" "$WEIR" serve --listen "$WEIR_LISTEN" --data-dir "$WEIR_DATA_DIR" --model "$MODEL" &
    server=$!
    trap 'trap - EXIT; stop_server; exit $?' INT TERM HUP
    trap 'stop_server || true' EXIT
}

wait_until_ready() {
    local waited=0
    until curl -fsS -o /dev/null --max-time 2 "$WEIR_URL/readyz" 2>/dev/null; do
        kill -0 "$server" 2>/dev/null || die "the server stopped before it was ready; its message stands above"
        [ $((waited += 1)) -le $((READY_SECONDS_MAX * 5)) ] || die "the server isn't ready after $READY_SECONDS_MAX s"
        sleep 0.2
    done
}

# A data directory with documents of the user's own is left alone, and so is one whose sample was deleted.
ingest_sample_once() {
    local state documents
    state=$(cat "$SAMPLE_STATE" 2>/dev/null || true)
    documents=$(curl -fsS "$WEIR_URL/healthz" | .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["document_count"])')
    [ "$state" = started ] || { [ -z "$state" ] && [ "$documents" -eq 0 ]; } || return 0
    say "first start: ingesting the sample, 240 paragraphs of XQuAD"
    echo started >"$SAMPLE_STATE"
    "$WEIR" ingest "$SAMPLE"
    echo done >"$SAMPLE_STATE"
}

print_three_things_to_try() {
    local url_option=
    [ "$WEIR_URL" = http://127.0.0.1:8000 ] || url_option=" --url $WEIR_URL"
    cat <<TRY

Weir serves on $WEIR_URL, its data is in $WEIR_DATA_DIR. Three things to try:

  1. curl -s $WEIR_URL/v1/search -H 'content-type: application/json' -d '{"query":"who sang the American anthem before the football final","top_k":3}'
  2. $WEIR search "how do spinning blades turn steam into motion"$url_option
  3. open $WEIR_URL in a browser

Ctrl-C stops it.

TRY
}

scripts/setup.sh system
# The model is fetched while the compiler works.
scripts/setup.sh python model &
setup=$!
cargo build --release --locked -p weir --bin weir
wait "$setup"
port_is_taken && die "$WEIR_LISTEN is taken by another program; stop it, or choose another: WEIR_LISTEN=127.0.0.1:8001 make run"
start_server
wait_until_ready
ingest_sample_once
print_three_things_to_try
wait "$server"
