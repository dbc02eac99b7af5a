#!/usr/bin/env python3
"""Text of real PDF files beside that of poppler's `pdftotext`.

    python bench/documents.py                      fetch Debian's documentation packages, and measure
    python bench/documents.py FOLDER               measure the PDF files of a folder, at any depth
    python bench/documents.py --only kept          the files that were not looked at while thresholds were chosen

Each page is compared after NFKC and the joining of divided words: *words* is the share of words that both have, as bags; *order* is 1 less
the edit distance of the words over the longer of both. Both are means over pages with 20 words or more, then over files; of the packages,
files with fewer than 10 pages are left out, most of which are single pages of manuals. Running heads,
which the gateway leaves out and `pdftotext` prints, and the marks of headings and lists are not counted. Exits with 1 if the mean order
is below 0.93.

Needs `pdftotext` (poppler-utils), and `apt-get` and `dpkg-deb` to fetch; files that are there are not fetched again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
ORDER_MIN, WORDS_MIN, FILE_PAGES_MIN, FILE_BYTES_MAX, PAGES_MAX = 0.93, 20, 10, 20 << 20, 400
# Packages with PDF files. Those of the second list are kept apart: no threshold was chosen with them in view.
SEEN = [
    "debian-faq",
    "debian-policy",
    "developers-reference",
    "developers-reference-ja",
    "gnuplot-doc",
    "graphviz-doc",
    "libfftw3-doc",
    "libtasn1-doc",
    "shared-mime-info",
]
KEPT = [
    "asymptote-doc",
    "debian-reference-en",
    "debian-reference-ja",
    "developers-reference-ru",
    "octave-doc",
    "pari-doc",
    "plplot-doc",
    "r-doc-pdf",
    "xfig-doc",
    "zsh-doc",
]


def fetch(packages: list[str], folder: Path) -> list[Path]:
    """The PDF files of packages, without installing them."""
    files: list[Path] = []
    for package in packages:
        place = folder / package
        if not place.exists():
            packed = folder / "packed"
            packed.mkdir(parents=True, exist_ok=True)
            got = subprocess.run(["apt-get", "download", package], cwd=packed, capture_output=True, text=True, check=False)
            archives = sorted(packed.glob(f"{package}_*.deb"))
            if got.returncode or not archives:
                print(f"{package}: not available", file=sys.stderr)
                continue
            subprocess.run(["dpkg-deb", "--extract", str(archives[-1]), str(place)], check=True)
            archives[-1].unlink()
        for packed_file in place.rglob("*.pdf.gz"):
            # links to files of other packages lead nowhere here
            if packed_file.is_file() and not packed_file.is_symlink():
                subprocess.run(["gzip", "--decompress", "--force", str(packed_file)], check=True)
        files += find(place)
    return files


def find(folder: Path) -> list[Path]:
    """The PDF files below a folder that are not too large."""
    return sorted(path for path in folder.rglob("*.pdf") if path.is_file() and not path.is_symlink() and path.stat().st_size <= FILE_BYTES_MAX)


def cpu_seconds(command: list[str]) -> tuple[str, float]:
    """The output of a program, and the CPU time that it used."""
    before = os.times()
    output = subprocess.run(command, capture_output=True, check=False).stdout
    after = os.times()
    return output.decode("utf-8", "replace"), after.children_user + after.children_system - before.children_user - before.children_system


def words(text: str) -> list[str]:
    """The words of a page, in order."""
    text = unicodedata.normalize("NFKC", text)
    text = re.sub(r"^(#{1,6}|-|[•▪◦–]) ", "", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=\w)[-\u2010\u00ad]\s*\n\s*(?=[^\W\d_])", "", text)
    # leaders, and hyphens that one of both has joined
    text = re.sub(r"(\. ?){4,}", " ", text)
    return re.findall(r"\w+", text)


def without_heads(pages: list[list[str]], others: list[list[str]]) -> list[list[str]]:
    """Pages without the words at their ends that the other program leaves out on all pages."""
    bags = [Counter(page) for page in others]
    kept = []
    for page, bag in zip(pages, bags, strict=True):
        start, end = 0, len(page)
        while start < min(12, end) and not bag[page[start]]:
            start += 1
        while end > max(start, len(page) - 12) and not bag[page[end - 1]]:
            end -= 1
        kept.append(page[start:end])
    return kept


def distance(a: list[str], b: list[str]) -> int:
    """The edit distance, by the bits of whole numbers (Myers 1999, in the form of Hyyrö 2003)."""
    if not a or not b:
        return max(len(a), len(b))
    places: dict[str, int] = {}
    for at, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << at
    mask, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    up, down, score = mask, 0, len(a)
    for word in b:
        equal = places.get(word, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        plus, minus = down | ~(diagonal | up) & mask, up & diagonal
        score += bool(plus & last) - bool(minus & last)
        plus, minus = plus << 1 | 1, minus << 1
        up, down = (minus | ~(diagonal | plus)) & mask, plus & diagonal & mask
    return score


def compare(ours: list[str], theirs: list[str]) -> tuple[float, float] | None:
    """Shares of words and of order, over the pages of a file."""
    mine, other = [words(page) for page in ours], [words(page) for page in theirs]
    other = without_heads(other, mine)
    shares, orders = [], []
    for a, b in zip(mine, other, strict=True):
        longer = max(len(a), len(b))
        if longer >= WORDS_MIN:
            shares.append((Counter(a) & Counter(b)).total() / longer)
            orders.append(1 - distance(a, b) / longer)
    return (fmean(shares), fmean(orders)) if shares else None


def main() -> int:
    """1 when the order is below the limit."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description="Text of real PDF files beside that of pdftotext.")
    parser.add_argument("folder", type=Path, nargs="?", help="PDF files; without it, those of Debian's packages")
    parser.add_argument("--only", choices=("seen", "kept"), help="one of the two lists of packages")
    parser.add_argument("--cache", type=Path, default=Path("/var/tmp/weir-documents"), help="where packages are kept")
    parser.add_argument("--binary", type=Path, default=target / "release" / "examples" / "pages", help="the example `pages` of weir-documents")
    options = parser.parse_args()
    packages = {"seen": SEEN, "kept": KEPT, None: SEEN + KEPT}[options.only]
    files = find(options.folder) if options.folder else fetch(packages, options.cache)
    if not files:
        print("documents: there is no PDF file: name a folder with some", file=sys.stderr)
        return 1
    if not options.binary.exists():
        print("documents: run `cargo build --release -p weir-documents --example pages` first", file=sys.stderr)
        return 1
    results, pages, our_cpu, their_cpu = [], 0, 0.0, 0.0
    for path in files:
        our_text, our_seconds = cpu_seconds([str(options.binary), str(path)])
        their_text, their_seconds = cpu_seconds(["pdftotext", str(path), "-"])
        ours, theirs = our_text.split("\f")[:-1], their_text.split("\f")[:-1]
        if len(theirs) < FILE_PAGES_MIN and not options.folder:
            continue
        if not theirs or len(ours) != len(theirs):
            print(f"{path.name}: {len(ours)} pages, pdftotext {len(theirs)}")
            continue
        our_cpu, their_cpu, pages = our_cpu + our_seconds, their_cpu + their_seconds, pages + len(ours)
        result = compare(ours[:PAGES_MAX], theirs[:PAGES_MAX])
        if result:
            results.append(result)
            print(f"{path.name}: {len(ours)} pages, words {result[0]:.3f}, order {result[1]:.3f}", flush=True)
    if not results:
        print("documents: no file could be compared", file=sys.stderr)
        return 1
    share, order = fmean(result[0] for result in results), fmean(result[1] for result in results)
    print(f"{len(results)} files, {pages} pages: words {share:.3f}, order {order:.3f} (at least {ORDER_MIN})")
    print(f"pages per CPU second: {pages / our_cpu:.0f}, pdftotext {pages / their_cpu:.0f}")
    return int(order < ORDER_MIN)


if __name__ == "__main__":
    sys.exit(main())
