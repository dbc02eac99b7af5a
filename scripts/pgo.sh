#!/usr/bin/env bash
# Builds `weir` as it is released, and prints where it is: optimised across crates, and by a profile of what runs
# (https://doc.rust-lang.org/rustc/profile-guided-optimization.html). An instrumented build serves the requests of
# bench/pgo/workload.py and counts; the second build lays out and inlines by these counts. Its RUSTFLAGS are in
# target/pgo/rustflags. MOCK_BINARY and LOAD_BINARY name binaries that are built already.
# Half an hour on two cores; the profile is made again when the instrumented build has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'pgo: %s\n' "$*" >&2; }
die() { printf 'pgo: %s\n' "$*" >&2; exit 1; }

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
host=$(rustc -vV | sed -n 's/^host: //p')
tool=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
readonly target host tool folder=$target/pgo
readonly instrumented=$folder/$host/dist/weir newest=$folder/newest.profdata

[ -x "$tool" ] || rustup component add llvm-tools >&2 ||
    die "llvm-profdata is missing: install it by 'rustup component add llvm-tools', or build without a profile: cargo build --profile dist"

# Functions with the same code are kept once, where Rust's own linker can do that.
linking=
[[ $host != x86_64-*-linux-gnu ]] || linking=-Clink-arg=-Wl,--icf=all

# Code that the profile has hardly seen running is compiled for size, and not inlined: 0.3 MB, without a measurable loss of speed.
readonly small="-Cllvm-args=-pgso-lwss-only=false -Cllvm-args=-inlinecold-threshold=10 -Cllvm-args=-inline-cold-callsite-threshold=10"

# With --target, RUSTFLAGS do not apply to build scripts and macros, which are not to be counted.
build() {
    RUSTFLAGS=$1 cargo build --profile dist --locked -p weir --bin weir --target "$host" --target-dir "$2" >&2
}

make_profile() {
    rm -rf "$folder/raw" "$folder"/*.profdata
    PYTHONPATH=bench:bench/llm python3 bench/pgo/workload.py --weir "$instrumented" \
        --load "${LOAD_BINARY:-$target/release/weir-bench}" --mock "${MOCK_BINARY:-$target/release/weir-mock}" >&2
    # Of the kernels, those of this machine would be counted, and those of all others be taken for unused.
    "$tool" merge --no-function=weir_kernels --output "$newest" "$folder"/raw/*.profraw >&2
}

say "the instrumented build"
build "-Cprofile-generate=$folder/raw $linking" "$folder"
if [ -z "${LOAD_BINARY:-}" ] || [ -z "${MOCK_BINARY:-}" ]; then
    cargo build --release --locked -p weir-loadgen -p weir-mock --target-dir "$target" >&2
fi
if [ ! "$newest" -nt "$instrumented" ]; then
    say "the profile"
    make_profile
fi
# The name tells cargo when all has to be compiled again.
profile=$folder/$(sha256sum "$newest" | cut -c 1-16).profdata
[ -e "$profile" ] || cp "$newest" "$profile" # a newer file would be compiled for again
say "the build by the profile"
echo "-Cprofile-use=$profile $small $linking" >"$folder/rustflags"
build "$(<"$folder/rustflags")" "$target"
echo "$target/$host/dist/weir"
