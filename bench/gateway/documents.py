"""The documents that every service holds and the searches that it's asked: the evaluation sets, or the sample made longer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
# Whose corpus comes first, because it has enough documents alone.
FIRST_SET = "scifact"
TOP_K = 5
QUERY_WORDS = 10
QUERIES_MAX = 2000

Document = dict[str, Any]


@dataclass(frozen=True)
class Corpus:
    """Documents, queries, and where they are from."""

    documents: list[Document]
    queries: list[str]
    source: str

    @property
    def characters_mean(self) -> float:
        """Of a document's text."""
        return sum(len(document["text"]) for document in self.documents) / len(self.documents)

    def write_bodies(self, file: Path) -> Path:
        """A search on each line."""
        lines = [json.dumps({"query": query, "top_k": TOP_K}) + "\n" for query in self.queries]
        file.write_text("".join(lines), encoding="utf-8")
        return file


def load(data: Path | None, count: int) -> Corpus:
    """The first `count` documents of the evaluation sets in `data`; of the sample, if there is no such folder."""
    return sample(count) if data is None else evaluation_sets(data, count)


def evaluation_sets(data: Path, count: int) -> Corpus:
    """The set with enough documents first, then the others by name."""
    names = sorted(file.parent.name for file in data.glob("*/corpus.jsonl"))
    names.sort(key=lambda name: name != FIRST_SET)
    documents: list[Document] = []
    queries: list[str] = []
    used = []
    for name in names:
        if len(documents) >= count:
            break
        used.append(name)
        entries = read_lines(data / name / "corpus.jsonl")
        documents += [
            {"id": f"{name}-{entry['_id']}", "title": entry.get("title") or "", "text": entry["text"]}
            for entry in entries
            if entry["text"].strip()
        ]
        queries += [entry["text"] for entry in read_lines(data / name / "queries.jsonl")]
    if len(documents) < count:
        raise ValueError(f"{data} has {len(documents)} documents, {count} are wanted: name a folder with more sets by DATA")
    return Corpus(documents[:count], queries[:QUERIES_MAX], " and ".join(used))


def sample(count: int) -> Corpus:
    """Paragraphs of the sample, each followed by the begin of another, so that all are different."""
    entries = read_lines(ROOT / "samples" / "xquad" / "documents" / "xquad.jsonl")
    texts = [entry["text"] for entry in entries]
    documents = []
    for at in range(count):
        first, again = at % len(texts), at // len(texts)
        other = texts[(first + 7 * again) % len(texts)]
        text = texts[first] if again == 0 else f"{texts[first]} {other[: len(other) // 2]}"
        documents.append({"id": f"sample-{at}", "title": entries[first].get("title") or "", "text": text})
    words = [text.split() for text in texts]
    queries = [" ".join(some[len(some) // 2 :][:QUERY_WORDS]) for some in words]
    return Corpus(documents, queries, f"paragraphs of the sample, {len(texts)} and combinations of them")


def read_lines(file: Path) -> list[dict[str, Any]]:
    """JSON lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
