"""Calls of a client and the table of their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Call:
    """What is called, in a user's words, and the function that does it, compares, and returns the result in words."""

    name: str
    run: Callable[[], str]


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    client: str
    version: str
    call: str
    result: str
    passed: bool


def plain(rows: list[Row]) -> str:
    """The table for a terminal."""
    cells = [["client", "version", "call", "result"]]
    cells += [
        [row.client, row.version, row.call, row.result if row.passed else f"DEVIATES: {row.result}"] for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(line.rstrip() for line in lines)


def markdown(rows: list[Row]) -> str:
    """The table for a page."""
    lines = ["| client | version | call | result |", "|---|---|---|---|"]
    for row in rows:
        result = row.result if row.passed else f"**deviates**: {row.result}"
        cells = [row.client, row.version, f"`{row.call}`", " ".join(result.split())]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def replaced(text: str, name: str, rows: list[Row]) -> str:
    """The text of a page with another table between its markers of this name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"the page lacks the lines `{begin}` and `{end}`, between which the table is written")
    return f"{before}{begin}\n{markdown(rows)}\n{end}{after}"


def write(page: Path, name: str, rows: list[Row]) -> None:
    """Replaces the table between the markers of a page."""
    page.write_text(replaced(page.read_text(encoding="utf-8"), name, rows), encoding="utf-8")
