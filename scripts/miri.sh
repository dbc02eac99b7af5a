#!/usr/bin/env bash
# Runs the tests of the crates with unsafe code, kernels and mapped, under Miri: the generic algorithms with the scalar
# table and with emulated registers, then the intrinsics of AVX2; half an hour on an idle core. Miri has no intrinsics of NEON
# (`vmaxq_f32` is the first that it refuses) and maps no files: NEON runs in an emulator (`make neon`), mappings in the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "miri: run: rustup toolchain install nightly --profile minimal --component miri --component rust-src" >&2
    exit 1
fi

# Temporary files and `WEIR_ISA` need the host; results are compared bit for bit, to which Miri would add random errors of `exp`.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-deterministic-floats ${MIRIFLAGS:-}"

run() { cargo +nightly miri test --locked --target-dir target/miri --lib --tests "$@"; }

echo "miri: scalar, emulated registers, mapped files"
run -p weir-kernels -p weir-mapped
echo "miri: AVX2"
RUSTFLAGS="-C target-feature=+avx2,+fma,+f16c" run -p weir-kernels --target x86_64-unknown-linux-gnu
