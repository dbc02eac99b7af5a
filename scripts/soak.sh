#!/usr/bin/env bash
# Minutes of mixed chat traffic on one gateway: bench/llm/soak.py says what, and which slopes fail. MINUTES, and RELEASE, the folder
# with the binaries weir, weir-bench and weir-mock; arguments go to soak.py.
set -euo pipefail
cd "$(dirname "$0")/.."
release=${RELEASE:-target/release}
PYTHONPATH=bench .venv/bin/python bench/llm/soak.py --minutes "${MINUTES:-10}" \
    --weir "$release/weir" --load "$release/weir-bench" --mock "$release/weir-mock" "$@"
