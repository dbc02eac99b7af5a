#!/usr/bin/env python3
"""Exact names and misspelt words, on the descriptions of Debian's packages.

    python bench/names.py [--packages 4700] [--binary target/release/weir]

The packages are drawn, with a fixed seed, from those that `apt-cache dumpavail` lists (`apt-get update` fetches the list), so that
figures differ a little between releases of Debian. The title of a document is the package's name, its text the description.

1. The exact names of 50 packages, drawn from the names without digits, are searched: how many find their package first.
2. 222 words of the descriptions, of five letters or more, are searched with one letter left out, doubled, replaced, inserted or
   swapped with the next, such that the result is no word of any description: how many find, among the first ten hits, one of
   the ten that the word itself finds.

Both are asked in lexical and in hybrid mode through HTTP, and told per kind of mistake.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from quality import serving  # noqa: E402

NAMES, TYPOS, SEED, BATCH, TOP = 50, 222, 20, 200, 10
NAMES_MIN, TYPOS_MIN = 47, 215
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def packages(count: int) -> list[dict[str, str]]:
    """Documents of so many packages."""
    listed = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    found: dict[str, str] = {}
    for entry in listed.split("\n\n"):
        name = re.search(r"^Package: (.+)$", entry, re.MULTILINE)
        about = re.search(r"^Description(?:-en)?: (.+(?:\n .+)*)", entry, re.MULTILINE)
        if name and about:
            found[name[1]] = re.sub(r"\n \.?", "\n", about[1])
    drawn = random.Random(SEED).sample(sorted(found), min(count, len(found)))
    return [{"id": f"package-{number}", "title": name, "text": found[name]} for number, name in enumerate(drawn)]


def misspelt(word: str, kind: str, rng: random.Random) -> str:
    """The word with one mistake."""
    at = rng.randrange(len(word) - 1)
    letter = rng.choice(LETTERS)
    return {
        "omitted": word[:at] + word[at + 1 :],
        "doubled": word[: at + 1] + word[at:],
        "replaced": word[:at] + letter + word[at + 1 :],
        "inserted": word[:at] + letter + word[at:],
        "swapped": word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    }[kind]


def typos(documents: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    """Word, its misspelling and the kind of mistake."""
    words = Counter(
        word for one in documents for word in set(re.findall(r"[a-z]+", f"{one['title']} {one['text']}".lower()))
    )
    rng = random.Random(SEED)
    meant = [word for word in sorted(words) if len(word) >= 5 and words[word] >= 3]
    kinds = ["omitted", "doubled", "replaced", "inserted", "swapped"]
    found: list[tuple[str, str, str]] = []
    while len(found) < TYPOS:
        word, kind = rng.choice(meant), kinds[len(found) % len(kinds)]
        typo = misspelt(word, kind, rng)
        if typo not in words:
            found.append((word, typo, kind))
    return found


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """The reply to a call."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


def check_names(url: str, documents: list[dict[str, str]], mode: str) -> int:
    """How many names find their package first."""
    plain = [one for one in documents if re.fullmatch(r"[a-z-]+", one["title"])]
    missed = []
    for one in random.Random(SEED).sample(plain, NAMES):
        results = post(f"{url}/v1/search", {"query": one["title"], "mode": mode, "top_k": 1})["results"]
        if not results or results[0]["id"] != one["id"]:
            missed.append(f"{one['title']} ({results[0]['title'] if results else 'nothing'} instead)")
    print(f"{mode:8} {NAMES - len(missed)} of {NAMES} names first", *(f"  missed: {miss}" for miss in missed), sep="\n")
    return NAMES - len(missed)


def check_typos(url: str, documents: list[dict[str, str]], mode: str) -> int:
    """How many misspelt words find what the word that was meant finds."""
    def search(query: str) -> tuple[set[str], list[str]]:
        reply = post(f"{url}/v1/search", {"query": query, "mode": mode, "top_k": TOP})
        corrections = reply.get("corrections") or [{"instead": []}]
        return {result["id"] for result in reply["results"]}, corrections[0]["instead"]

    found, missed = Counter[str](), []
    for word, typo, kind in typos(documents):
        hits, instead = search(typo)
        if hits & search(word)[0]:
            found[kind] += 1
        else:
            missed.append(f"{typo} for {word} ({', '.join(instead) or 'nothing'} instead)")
    print(f"{mode:8} {found.total()} of {TYPOS} misspelt words found: {dict(found)}")
    print(*(f"  missed: {miss}" for miss in missed), sep="\n")
    return found.total()


def main() -> int:
    """1 when too few are found."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description="Exact names and misspelt words, on Debian's packages.")
    parser.add_argument("--packages", type=int, default=4700)
    parser.add_argument("--binary", type=Path, default=target / "release" / "weir")
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "all-MiniLM-L6-v2")
    options = parser.parse_args()
    try:
        documents = packages(options.packages)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"names: SKIPPED, apt-cache lists no packages: {error}")
        return 0
    if len(documents) < options.packages:
        print(f"names: SKIPPED, apt-cache lists {len(documents)} packages; run apt-get update first")
        return 0
    with serving(options.binary, options.model) as url:
        for first in range(0, len(documents), BATCH):
            post(f"{url}/v1/ingest?wait=true", {"documents": documents[first : first + BATCH]})
        names = [check_names(url, documents, mode) for mode in ("lexical", "hybrid")]
        found = [check_typos(url, documents, mode) for mode in ("lexical", "hybrid")]
    return 0 if min(names) >= NAMES_MIN and min(found) >= TYPOS_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
