#!/usr/bin/env bash
# Searches, a sentence in another collection, and embedding requests while one document of 5 MB is embedded.
# DOCUMENT_BYTES, SECONDS_PER_PART, BUSY (processes that take the cores) and BINARY change what is measured.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHONPATH=bench exec .venv/bin/python bench/fairness/measure.py
