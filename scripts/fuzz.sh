#!/usr/bin/env bash
# Fuzzes every target of fuzz/ for the minutes in MINUTES, all of them together, as many at once as there are cores. TARGETS="sse query" names some.
# Inputs that reach new code are kept in fuzz/target/corpus/<target>; fuzz/corpus/<target> has those that every run starts with, and is not changed.
# With `--keep`, the smallest set of both that reaches the same code replaces fuzz/corpus/<target>.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz: run: rustup toolchain install nightly --profile minimal && cargo install cargo-fuzz --locked" >&2
    exit 1
fi

readonly JOBS=${JOBS:-$(nproc)}
read -ra targets <<<"${TARGETS:-$(cargo +nightly fuzz list | tr '\n' ' ')}"
cargo +nightly fuzz build

keep() {
    local found=fuzz/target/corpus/$1 kept=fuzz/corpus/$1 merged
    merged=$(mktemp -d)
    # inputs of at most 4 KiB; those of a model folder are written in full, so that a slow one is left out after 10 s
    cargo +nightly fuzz run "$1" "$merged" "$kept" "$found" -- -merge=1 -max_len=4096 -timeout=10 >"fuzz/target/log/$1-keep" 2>&1
    rm -rf "$kept"
    mkdir -p "$kept"
    find "$merged" -type f -printf '%s %p\n' | sort -n | head -n 200 | cut -d' ' -f2 | xargs -r cp -t "$kept"
    rm -rf "$merged"
    echo "fuzz: $1: $(find "$kept" -type f | wc -l) inputs, $(du -bs "$kept" | cut -f1) bytes"
}

run() {
    local found=fuzz/target/corpus/$1 kept=fuzz/corpus/$1
    mkdir -p "$found" "$kept"
    if cargo +nightly fuzz run "$1" "$found" "$kept" -- -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 >"fuzz/target/log/$1" 2>&1; then
        echo "fuzz: $1: clean, $(grep -o '^Done [0-9]* runs' "fuzz/target/log/$1" | cut -d' ' -f2) runs in $2 s"
    else
        echo "fuzz: $1: failed; the input is in fuzz/artifacts/$1:"
        tail -n 30 "fuzz/target/log/$1"
        return 1
    fi
}

mkdir -p fuzz/target/log
for target in "${targets[@]}"; do mkdir -p "fuzz/target/corpus/$target" "fuzz/corpus/$target"; done
export -f run keep
if [ "${1:-}" = --keep ]; then
    printf '%s\n' "${targets[@]}" | xargs -P "$JOBS" -I{} bash -ceu 'keep "$1"' keep {}
else
    turns=$(((${#targets[@]} + JOBS - 1) / JOBS))
    seconds=$((60 * ${MINUTES:-60} / turns))
    echo "fuzz: ${#targets[@]} targets, $seconds s each, $JOBS at once"
    printf '%s\n' "${targets[@]}" | xargs -P "$JOBS" -I{} bash -ceu 'run "$1" "$2"' run {} "$seconds"
fi
