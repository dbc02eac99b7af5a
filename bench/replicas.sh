#!/usr/bin/env bash
# Three gateways over one PostgreSQL: how long a new one takes until it is ready, from the store and from a copy of another's index, and what they keep
# in memory during MINUTES of load, beside one gateway over SQLite. DOCUMENTS (of the start), MINUTES and BINARY change what is measured; PARTS="start"
# or "memory" measures one part.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHONPATH=bench:bench/llm exec .venv/bin/python bench/scale/replicas.py
