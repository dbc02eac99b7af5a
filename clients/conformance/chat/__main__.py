"""Runs every client of language models through a gateway before `weir-mock`; exits with 1 if anything deviates."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from ..runs import other_rows_of, rows_of
from ..table import Row, plain, replaced, write
from .servers import gateway

# In the order of the table.
CLIENTS = {
    "openai (Python)": "openai_python",
    "openai (Node)": "openai_node",
    "anthropic": "anthropic_python",
    "langchain-openai": "langchain_openai_chat",
    "langchain-anthropic": "langchain_anthropic_chat",
    "llama-index-llms-openai-like": "llama_index_chat",
    "ollama": "ollama_chat",
}
# Those that are run with version 2 of `openai` too, or alone; requirements_older.txt lists it.
OLDER_TOO = ("openai (Python)",)
OLDER_ALONE = ("llama-index-llms-openai-like",)


def results(clients: list[str], url: str) -> list[Row]:
    """The rows of these clients."""
    rows = []
    for client in clients:
        if client not in OLDER_ALONE:
            rows += rows_of(client, f"{__package__}.{CLIENTS[client]}", url)
        if client in OLDER_TOO + OLDER_ALONE:
            rows += other_rows_of(__package__, client, "older", url)
    return rows


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="conformance.chat", description=__doc__)
    parser.add_argument("--url", help="base URL of a gateway that is configured so; without it one is started")
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this one; can be repeated")
    page = parser.add_mutually_exclusive_group()
    page.add_argument("--markdown", type=Path, metavar="FILE", help="write the table between the markers of this page")
    page.add_argument("--compare", type=Path, metavar="FILE", help="fail if the table of this page is another one")
    page.add_argument("--json", action="store_true", help="print the results as JSON, with the releases of this path")
    return parser.parse_args()


def main() -> int:
    """Runs the clients that are named, or all."""
    chosen = arguments()
    clients = chosen.client or list(CLIENTS)
    with nullcontext(chosen.url.rstrip("/")) if chosen.url else gateway() as url:
        if chosen.json:
            rows = [row for client in clients for row in rows_of(client, f"{__package__}.{CLIENTS[client]}", url)]
            print(json.dumps([asdict(row) for row in rows]))
            return int(not all(row.passed for row in rows))
        rows = results(clients, url)
    deviating = sum(not row.passed for row in rows)
    print(plain(rows))
    if chosen.markdown:
        write(chosen.markdown, "chat", rows)
    print(f"{len(rows) - deviating} passed, {deviating} failed")
    if chosen.compare and not deviating:
        text = chosen.compare.read_text(encoding="utf-8")
        if replaced(text, "chat", rows) != text:
            print(f"{chosen.compare} is not fresh; run this with `--markdown {chosen.compare}`", file=sys.stderr)
            return 1
    return int(deviating > 0)


if __name__ == "__main__":
    sys.exit(main())
