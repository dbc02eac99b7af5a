#!/usr/bin/env python3
"""The documents, vectors and queries of bench/search: real passages, embedded by our own encoder, and blends.

    python bench/search/corpus.py --cache .cache/bench-search --binaries target/release/examples [--data FOLDER]

In the cache folder `corpus/`, each made once and kept; a run that was interrupted goes on where it stopped:

| file | what |
|---|---|
| `documents.jsonl` | a document a line: `id`, `title`, `text`, `n` (0..999, uniform), `group` (the source or `blend`) |
| `documents.f32` | their embeddings, rows of 384 little-endian f32; the real ones come first |
| `queries.jsonl`, `queries.f32` | a query a line as a JSON string, and its embedding |
| `corpus.json` | how many of each, where they are from, and how long embedding took |

A query is one to four content words of the title of a passage that is held out, or the first three to eight words of
its text. A blend is a mix of two real embeddings with noise, and the first half of the sentences of the one passage with
the second half of those of the other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from sources import SENTENCE_END, STOP_WORDS, Passage, every

if TYPE_CHECKING:
    # a tiny run goes without it
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

DIMENSION = 384
REAL_MAX = 220_000
DOCUMENTS = 1_000_000
QUERIES = 2_000
# Tokens that are embedded at most, the model's own limit: with the title before the text, as the gateway embeds a
# document of one chunk, so that a collection that is filled over HTTP has the very same vectors.
TOKENS_MAX = 256
# Passages with the same first characters, this many, are duplicates.
SAME_BEGINNING = 120
# Filters are `n < 1`, `n < 10`, …
N_VALUES = 1000
# The larger weight of the two vectors of a blend, and the length of the noise that is added.
BLEND_WEIGHTS = (0.5, 0.8)
BLEND_NOISE = 0.35
BLOCK_ROWS = 20_000


@dataclass
class Facts:
    """What the corpus is, for the page."""

    documents: int
    real: int
    queries: int
    characters_mean: float
    sources: dict[str, int]
    embedding: str
    # of the texts, the queries and their embeddings: the same on two machines only if they are the same corpus and encoder
    hash: str


@dataclass(frozen=True)
class Corpus:
    """The folder, and what is in it."""

    folder: Path
    facts: Facts

    def documents(self, count: int) -> list[dict[str, Any]]:
        """The first documents."""
        with (self.folder / "documents.jsonl").open(encoding="utf-8") as lines:
            return [json.loads(line) for line, _ in zip(lines, range(count), strict=False)]

    def vectors(self) -> Vectors:
        """All embeddings, mapped."""
        return matrix(self.folder / "documents.f32")

    def queries(self) -> list[str]:
        """The texts of the queries."""
        return [json.loads(line) for line in (self.folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]

    def query_vectors(self) -> Vectors:
        """Their embeddings."""
        return matrix(self.folder / "queries.f32")


def matrix(file: Path) -> Vectors:
    """A file of rows, mapped."""
    import numpy as np

    return np.memmap(file, dtype="<f4", mode="r").reshape(-1, DIMENSION)


def load(folder: Path) -> Corpus:
    """A corpus that was made before."""
    return Corpus(folder, Facts(**json.loads((folder / "corpus.json").read_text(encoding="utf-8"))))


def make(cache: Path, binaries: Path, model: Path, data: Path | None, size: tuple[int, int, int]) -> Corpus:
    """The corpus of (real, all, queries) documents, made as far as it isn't there."""
    real, total, queries = size
    folder = cache / "corpus"
    if (folder / "corpus.json").exists():
        return load(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "queries.jsonl").exists():
        found = distinct(cache, data)
        if len(found) < real + queries:
            print(f"bench/search: {len(found):,} real passages found, {real + queries:,} wanted", file=sys.stderr)
        write_texts(folder, found, min(real, max(len(found) - queries, 0)), total, queries)
    started = time.monotonic()
    embed(binaries, model, folder / "queries.jsonl", folder / "queries.f32")
    said = embed(binaries, model, folder / "real.jsonl", folder / "documents.f32")
    print(f"bench/search: {said} ({time.monotonic() - started:.0f} s)", file=sys.stderr)
    blend_vectors(folder, total)
    facts = describe(folder, said)
    (folder / "corpus.json").write_text(json.dumps(asdict(facts), indent=1) + "\n", encoding="utf-8")
    return load(folder)


def distinct(cache: Path, data: Path | None) -> list[Passage]:
    """All real passages, none twice, in an order that depends on nothing but their texts."""
    found: dict[str, Passage] = {}
    texts: set[str] = set()
    for passage in every(cache, data):
        beginning = re.sub(r"[^a-z]", "", passage.text.lower())[:SAME_BEGINNING]
        if beginning not in found and passage.text not in texts:
            found[beginning] = passage
            texts.add(passage.text)
    return sorted(found.values(), key=lambda passage: digest(passage.text))


def digest(text: str) -> bytes:
    """Sixteen bytes that stand for a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def write_texts(folder: Path, found: list[Passage], real: int, total: int, queries: int) -> None:
    """Documents, what is embedded of them, and queries; the queries last, since they say that all is there."""
    chosen = found[:real]
    random = Random(1)
    with (
        (folder / "documents.jsonl").open("w", encoding="utf-8") as documents,
        (folder / "real.jsonl").open("w", encoding="utf-8") as embedded,
    ):
        for at in range(total):
            if at < real:
                passage = chosen[at]
                embedded.write(json.dumps(f"{passage.title} {passage.text}") + "\n")
            else:
                one, other, _ = parents(at, real)
                passage = blend_texts(chosen[one], chosen[other])
            entry = {"id": f"d{at:07}", "title": passage.title, "text": passage.text}
            documents.write(json.dumps(entry | {"n": random.randrange(N_VALUES), "group": passage.source}) + "\n")
    held_out = found[real:]
    asked = list(dict.fromkeys(filter(None, map(query_of, held_out))))[:queries]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in asked), encoding="utf-8")


def parents(at: int, real: int) -> tuple[int, int, float]:
    """The two real documents that a blend is made of, and the weight of the first."""
    random = Random(at)
    return random.randrange(real), random.randrange(real), random.uniform(*BLEND_WEIGHTS)


def blend_texts(one: Passage, other: Passage) -> Passage:
    """The first sentences of the one, the last of the other."""
    head, tail = SENTENCE_END.split(one.text), SENTENCE_END.split(other.text)
    text = " ".join(head[: (len(head) + 1) // 2] + tail[len(tail) // 2 :])
    return Passage("blend", one.title, text)


def query_of(passage: Passage) -> str:
    """What somebody may ask who looks for the passage; empty where its title has no words."""
    random = Random(digest(passage.text))
    if random.random() < 0.5:
        return " ".join(re.findall(r"[\w'-]+", passage.text)[: random.randint(3, 8)])
    words = [word for word in re.findall(r"[A-Za-z]{3,}", passage.title) if word.lower() not in STOP_WORDS]
    length = min(random.randint(1, 4), len(words))
    start = random.randrange(len(words) - length + 1)
    return " ".join(words[start : start + length])


def embed(binaries: Path, model: Path, texts: Path, out: Path) -> str:
    """Embeds the lines of a file; says how long it took."""
    command = [str(binaries / "embed_lines"), "--texts", str(texts), "--out", str(out), "--model", str(model)]
    lines = []
    with subprocess.Popen([*command, "--tokens", str(TOKENS_MAX)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "it was opened as a pipe"
        for line in process.stdout:
            lines.append(line.strip())
            if sys.stderr.isatty():
                print(f"\r\x1b[K{lines[-1]}", end="", file=sys.stderr, flush=True)
    if process.returncode != 0:
        raise ValueError(f"embed_lines ended with {process.returncode}")
    return lines[-1]


def blend_vectors(folder: Path, total: int) -> None:
    """Appends the embeddings of the blends to those of the real documents."""
    import numpy as np

    file = folder / "documents.f32"
    real = sum(1 for _ in (folder / "real.jsonl").open("rb"))
    done = file.stat().st_size // (DIMENSION * 4)
    with file.open("r+b") as out:
        out.truncate(done * DIMENSION * 4)
    vectors = np.array(matrix(file)[:real])
    for start in range(done, total, BLOCK_ROWS):
        made = [parents(at, real) for at in range(start, min(start + BLOCK_ROWS, total))]
        first, second = vectors[[one for one, _, _ in made]], vectors[[other for _, other, _ in made]]
        weights = np.array([weight for _, _, weight in made], dtype=np.float32)[:, None]
        noise = np.random.default_rng(start).standard_normal(first.shape, dtype=np.float32)
        mixed = weights * first + (1 - weights) * second + noise * np.float32(BLEND_NOISE / DIMENSION**0.5)
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        with file.open("ab") as out:
            out.write(mixed.astype("<f4").tobytes())


def describe(folder: Path, said: str) -> Facts:
    """Counts the corpus."""
    groups: Counter[str] = Counter()
    characters, hashed = 0, hashlib.blake2b(digest_size=8)
    with (folder / "documents.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            groups[entry["group"]] += 1
            characters += len(entry["text"])
            hashed.update(line.encode())
    queries = (folder / "queries.jsonl").read_bytes()
    hashed.update(queries)
    hashed.update((folder / "queries.f32").read_bytes())
    documents, blends = groups.total(), groups.pop("blend", 0)
    mean = round(characters / max(documents, 1), 1)
    return Facts(documents, documents - blends, queries.count(b"\n"), mean, dict(groups), said, hashed.hexdigest())


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    root = Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=root / ".cache" / "bench-search")
    parser.add_argument("--binaries", type=Path, default=root / "target" / "release" / "examples")
    parser.add_argument("--model", type=Path, default=root / "models" / "all-MiniLM-L6-v2")
    parser.add_argument("--data", type=Path, help="a folder with evaluation sets, as DATA of `make quality`")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Makes the corpus."""
    given = parse_arguments(arguments)
    made = make(given.cache.resolve(), given.binaries, given.model, given.data, (REAL_MAX, DOCUMENTS, QUERIES))
    print(json.dumps(asdict(made.facts), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
