#!/usr/bin/env bash
# Minutes of chat traffic with the reply cache at its limit: bench/llm/cache_soak.py says what, and which difference fails. MINUTES, and
# RELEASE, the folder with the binaries weir and weir-mock; arguments go to cache_soak.py.
set -euo pipefail
cd "$(dirname "$0")/.."
release=${RELEASE:-target/release}
seconds=$(awk -v minutes="${MINUTES:-10}" 'BEGIN { print 60 * minutes }')
PYTHONPATH=bench .venv/bin/python bench/llm/cache_soak.py --seconds "$seconds" --weir "$release/weir" --mock "$release/weir-mock" "$@"
