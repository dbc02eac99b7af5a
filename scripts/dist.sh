#!/usr/bin/env bash
# Builds the binary for use, dist/weir, and its line numbers, dist/weir.debug.
# Debuggers, perf and the backtraces of panics find the second beside the first, by a link in it; a server runs without it.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --profile dist --locked -p weir --bin weir
built=${CARGO_TARGET_DIR:-target}/dist/weir
mkdir -p dist
objcopy --only-keep-debug --compress-debug-sections "$built" dist/weir.debug
objcopy --strip-debug --add-gnu-debuglink=dist/weir.debug "$built" dist/weir
ls -l dist/weir dist/weir.debug
