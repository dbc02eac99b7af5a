#!/usr/bin/env python3
"""Checks that every relative link and anchor in the repository's Markdown leads somewhere.

Links to the web are left alone: a check that needs the network fails for other people's reasons.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?\s*$")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")
FENCE = re.compile(r"^\s{0,3}(```+|~~~+)")
HTML_ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
WEB = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def prose_lines(text: str) -> list[tuple[int, str]]:
    """(number, line) of every line outside fenced code."""
    lines: list[tuple[int, str]] = []
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        mark = FENCE.match(line)
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark.group(1)
        elif not fence:
            lines.append((number, line))
    return lines


def anchors(text: str) -> set[str]:
    """The anchors of a page, made of its headings as GitHub makes them, and its own `<a id>`."""
    found: set[str] = set()
    times: dict[str, int] = {}
    for _, line in prose_lines(text):
        found.update(HTML_ANCHOR.findall(line))
        heading = HEADING.match(line)
        if heading:
            title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))
            slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            count = times.get(slug, 0)
            times[slug] = count + 1
            found.add(f"{slug}-{count}" if count else slug)
    return found


def links(text: str) -> list[tuple[int, str]]:
    """(line, target) of every link outside code."""
    found: list[tuple[int, str]] = []
    for number, line in prose_lines(text):
        prose = re.sub(r"(`+).*?\1", lambda code: "`" * len(code.group(0)), line)
        found.extend((number, match.group(1)) for match in LINK.finditer(prose))
        reference = REFERENCE.match(prose)
        if reference:
            found.append((number, reference.group(1)))
    return found


def dead_links(page: Path, root: Path) -> list[str]:
    """What is wrong with the links of one page, a line each."""
    text = page.read_text(encoding="utf-8")
    dead: list[str] = []
    for number, target in links(text):
        if WEB.match(target):
            continue
        path, _, anchor = target.partition("#")
        aim = page if not path else root / path[1:] if path.startswith("/") else page.parent / unquote(path)
        where = f"{page.relative_to(root)}:{number}: `{target}`"
        if not aim.exists():
            dead.append(f"{where}: there is no {path}")
        elif anchor and aim.suffix == ".md" and anchor not in anchors(aim.read_text(encoding="utf-8")):
            dead.append(f"{where}: {aim.name} has no heading for #{anchor}")
    return dead


def pages(root: Path) -> list[Path]:
    """Every Markdown page that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.md"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return [root / name for name in names if name and (root / name).is_file()]


def main() -> int:
    """Prints every dead link; 1 when there is one."""
    found = pages(ROOT)
    dead = [line for page in found for line in dead_links(page, ROOT)]
    print("\n".join(dead) if dead else f"links: {len(found)} pages, no dead link")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
