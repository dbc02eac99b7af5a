"""A corpus of made-up documents: needs no model and no package. A thousand of them test the harness."""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import asdict
from pathlib import Path
from random import Random

from corpus import DIMENSION, N_VALUES, Corpus, Facts, load

DOCUMENTS = 1_000
QUERIES = 60
WORDS = 4_000
TEXT_WORDS = 60
CLUSTERS = 40


def make(folder: Path, documents: int = DOCUMENTS) -> Corpus:
    """The same files as `corpus.make`, with words whose frequencies follow Zipf's law and vectors in clusters."""
    folder.mkdir(parents=True)
    random = Random(3)
    centres = [[random.gauss(0, 1) for _ in range(DIMENSION)] for _ in range(CLUSTERS)]

    def words(count: int) -> str:
        # exp(uniform * ln n) has a density of 1/x: rank r comes with frequency 1/r
        return " ".join(f"w{int(math.exp(random.random() * math.log(WORDS)))}" for _ in range(count))

    def vector() -> array[float]:
        mixed = [value + random.gauss(0, 1) for value in random.choice(centres)]
        length = math.sqrt(sum(value * value for value in mixed))
        return array("f", (value / length for value in mixed))

    with (folder / "documents.jsonl").open("w") as lines, (folder / "documents.f32").open("wb") as rows:
        for at in range(documents):
            entry = {"id": f"d{at:07}", "title": words(5), "text": words(TEXT_WORDS)}
            lines.write(json.dumps(entry | {"n": random.randrange(N_VALUES), "group": "made"}) + "\n")
            rows.write(vector().tobytes())
    with (folder / "queries.jsonl").open("w") as lines, (folder / "queries.f32").open("wb") as rows:
        for _ in range(QUERIES):
            lines.write(json.dumps(words(random.randint(1, 4))) + "\n")
            rows.write(vector().tobytes())
    facts = Facts(documents, documents, QUERIES, 300.0, {"made": DOCUMENTS}, "made up", "tiny")
    (folder / "corpus.json").write_text(json.dumps(asdict(facts)))
    return load(folder)
