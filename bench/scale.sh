#!/usr/bin/env bash
# One gateway over SQLite beside one over PostgreSQL, without Redis and with it, in one run: ingest of text, searches, searches of a key with limits,
# memory. ROUNDS, DOCUMENTS (of one ingest), SECONDS_PER_TURN, BINARY and LOAD_BINARY change what is measured.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHONPATH=bench:bench/llm exec .venv/bin/python bench/scale/measure.py
