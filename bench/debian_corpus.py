#!/usr/bin/env python3
"""Makes an evaluation set of package descriptions, man pages and Python pages on any Debian machine.

    python bench/debian_corpus.py FOLDER [--suite bookworm]

Reads the package lists of the suite with `apt-get update` into FOLDER (nothing on the machine is changed), downloads the packages
of `MAN_PAGES` and the Python documentation, and writes `corpus.jsonl`, `queries.jsonl` and `qrels.tsv` as `weir eval` reads them.
Queries and their answers are those of `bench/debian_queries.jsonl`. Every answer is in the corpus; the other documents are drawn by
a hash of their names, so that each machine draws the same ones from the same release.

Needs `apt-get`, `dpkg-deb`, and `man` (package `man-db`).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

QUERIES = Path(__file__).with_name("debian_queries.jsonl")
ARCHIVE = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The packages whose man pages are taken.
MAN_PAGES = (
    "apt bash bsdextrautils bsdutils coreutils cron curl dpkg e2fsprogs fdisk findutils gawk gdb git-man gnupg-utils gpg gpg-agent grep gzip"
    " iproute2 iptables jq less login lsof make manpages manpages-dev mount nftables openssh-client openssh-server openssl"
    " passwd procps psmisc rsync sed sqlite3 strace sudo systemd tar tmux util-linux wget xz-utils zip unzip"
).split()
PYTHON_DOC = "python3.11-doc"
# Documents per source, the answers among them, and the characters that are kept of each.
PACKAGES, PAGES, MODULES, CHARACTERS_MAX = 1300, 850, 350, 1500

Document = dict[str, Any]


class Apt:
    """The package lists of one suite in a folder of their own."""

    def __init__(self, folder: Path, suite: str) -> None:
        self._debs = folder / "debs"
        for name in ("lists/partial", "cache/archives/partial", "debs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        sources = folder / "sources.list"
        sources.write_text(f"deb [signed-by={KEYRING}] {ARCHIVE} {suite} main\n", encoding="utf-8")
        settings = {
            "APT::Sandbox::User": "root",
            "APT::Architecture": "amd64",
            "Acquire::Languages": "en",
            "Dir::Cache": folder / "cache",
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": folder / "lists",
        }
        self._options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]

    def run(self, command: str, *arguments: str, cwd: Path | None = None) -> str:
        """The output of an apt command."""
        program = [command, *self._options, *arguments]
        return subprocess.run(program, check=True, capture_output=True, text=True, cwd=cwd).stdout

    def files(self, package: str) -> Path:
        """The unpacked files of a package."""
        unpacked = self._debs / package
        if not unpacked.is_dir():
            self.run("apt-get", "download", package, cwd=self._debs)
            deb = max(self._debs.glob(f"{package}_*.deb"), key=lambda path: path.stat().st_mtime)
            subprocess.run(["dpkg-deb", "-x", str(deb), str(unpacked)], check=True)
        return unpacked


def packages(apt: Apt, answers: set[str]) -> Iterator[Document]:
    """A document for each drawn package: its name, and its description."""
    names = {f"package/{name}": name for name in re.findall(r"^Package: (.+)$", apt.run("apt-cache", "dumpavail"), re.M)}
    wanted = [names[one] for one in drawn(names, answers, PACKAGES)]
    for entry in apt.run("apt-cache", "show", "--no-all-versions", *wanted).split("\n\n"):
        name = re.search(r"^Package: (.+)$", entry, re.MULTILINE)
        about = re.search(r"^Description(?:-en)?: (.+(?:\n .+)*)", entry, re.MULTILINE)
        if name and about:
            yield {"_id": f"package/{name[1]}", "title": name[1], "text": re.sub(r"\n \.?", "\n", about[1])}


def man_pages(apt: Apt, answers: set[str]) -> Iterator[Document]:
    """A document for each man page that is no alias of another: its name and section, and what `man` shows."""
    found: dict[str, Path] = {}
    for package in MAN_PAGES:
        for path in sorted(apt.files(package).glob("usr/share/man/man*/*.gz")):
            matched = re.fullmatch(r"(.+)\.(\d[a-z]*)\.gz", path.name)
            if matched and not path.is_symlink() and not gzip.decompress(path.read_bytes()).startswith(b".so "):
                found.setdefault(f"man/{matched[1]}.{matched[2]}", path)
    for document in drawn(found, answers, PAGES):
        name, section = document.removeprefix("man/").rsplit(".", 1)
        yield {"_id": document, "title": f"{name}({section})", "text": str(found[document])}


def rendered(page: Document) -> Document:
    """A man page as text."""
    environment = {**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
    shown = subprocess.run(
        ["man", "--warnings=", "-l", page["text"]], check=True, capture_output=True, text=True, env=environment
    ).stdout
    lines = shown.strip().splitlines()[1:-1]  # between the headers at the top and at the bottom
    return {**page, "text": re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines))}


def python_pages(apt: Apt) -> Iterator[Document]:
    """A document for each page of the library reference, the how-tos, the tutorial and the language reference."""
    root = apt.files(PYTHON_DOC) / "usr/share/doc/python3.11/html"
    for part in ("library", "howto", "tutorial", "reference", "using", "faq"):
        for path in sorted((root / part).glob("*.html")):
            page = path.read_text(encoding="utf-8")
            title = re.search(r"<title>(.*?)( &#8212; Python .*?)?</title>", page, re.DOTALL)
            body = re.search(r'<div class="body" role="main">(.*?)<div class="clearer">', page, re.DOTALL)
            if title and body:
                text = re.sub(r"<(script|style)\b.*?</\1>", "", body[1], flags=re.DOTALL)
                text = re.sub(r"</(p|h\d|li|dt|dd|tr|pre|div)>", "\n", text)
                text = html.unescape(re.sub(r"<[^>]*>", "", text)).replace("¶", "")
                text = re.sub(r"\n\s*\n+", "\n\n", text).strip()
                yield {"_id": f"python/{part}/{path.stem}", "title": html.unescape(title[1]), "text": text}


def queries() -> list[dict[str, Any]]:
    """The queries: kind, text and answers."""
    return [json.loads(line) for line in QUERIES.read_text(encoding="utf-8").splitlines()]


def drawn(ids: dict[str, Any], answers: set[str], count: int) -> list[str]:
    """So many ids: the answers, and those with the smallest hashes."""
    order = sorted(ids, key=lambda one: (one not in answers, hashlib.sha256(one.encode()).digest()))
    return sorted(order[:count])


def corpus(apt: Apt, answers: set[str]) -> Iterator[Document]:
    """All documents."""
    yield from packages(apt, answers)
    with ThreadPoolExecutor() as pool:
        yield from pool.map(rendered, man_pages(apt, answers))
    pages = {one["_id"]: one for one in python_pages(apt)}
    yield from (pages[one] for one in drawn(pages, answers, MODULES))


def main() -> int:
    """1 when an answer isn't in the corpus."""
    parser = argparse.ArgumentParser(description="Makes an evaluation set from Debian's packages.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--suite", default="bookworm")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    apt = Apt(folder, options.suite)
    apt.run("apt-get", "update")
    asked = queries()
    documents = list(corpus(apt, {document for query in asked for document in query["answers"]}))
    missing = {answer for query in asked for answer in query["answers"]} - {one["_id"] for one in documents}
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as out:
        for one in documents:
            out.write(json.dumps({**one, "text": one["text"][:CHARACTERS_MAX]}, ensure_ascii=False) + "\n")
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as out:
        for at, query in enumerate(asked):
            out.write(json.dumps({"_id": f"{query['kind']}-{at}", "text": query["query"]}) + "\n")
    with (folder / "qrels.tsv").open("w", encoding="utf-8") as out:
        out.write("query-id\tcorpus-id\tscore\n")
        for at, query in enumerate(asked):
            out.writelines(f"{query['kind']}-{at}\t{answer}\t1\n" for answer in query["answers"])
    print(f"{len(documents)} documents, {len(asked)} queries in {folder}")
    if missing:
        print("answers that are not in the release:", *sorted(missing), sep="\n  ")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
