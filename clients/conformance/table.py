"""Calls of a client and the table of their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"


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


def write(page: Path, rows: list[Row]) -> None:
    """Replaces the table between the markers of a page."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page} lacks the lines `{BEGIN}` and `{END}`, between which the table is written")
    page.write_text(f"{before}{BEGIN}\n{markdown(rows)}\n{END}{after}", encoding="utf-8")
