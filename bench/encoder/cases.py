"""What is measured: token ids of real texts, cut to the lengths of the cases. The standard library alone."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent.parent
FIXTURES = ROOT / "fixtures" / "embeddings"
DIMENSION = 384
TOKENS_MAX = 256
SPECIAL_TOKENS = 2
BATCH_TEXTS = 32
MIXED_TEXTS = 64
LONE_TOKENS = (8, 16, 32, 128, 256)
LONE_TOKENS_SPLIT = (8, 16)
BATCH_TOKENS = (128, 256)

Tokenize = Callable[[list[str]], list[list[int]]]


@dataclass(frozen=True)
class Case:
    """Texts, their ids with the special tokens, and how they are measured."""

    name: str
    cores: int
    texts: list[str]
    sequences: list[list[int]]
    warmup: int
    repetitions: int

    @property
    def tokens(self) -> int:
        """All real tokens; padding never counts."""
        return sum(len(ids) for ids in self.sequences)

    @property
    def is_lone(self) -> bool:
        """Whether it's one text."""
        return len(self.sequences) == 1


def fixture_texts() -> list[str]:
    """The texts with recorded embeddings."""
    lines = (FIXTURES / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def fixture_vectors() -> list[list[float]]:
    """What sentence-transformers made of them in f32, each text alone."""
    values = array("f", (FIXTURES / "vectors.f32").read_bytes())
    return [list(values[at : at + DIMENSION]) for at in range(0, len(values), DIMENSION)]


def runs_of(tokens: int, count: int, tokenize: Tokenize) -> tuple[list[str], list[list[int]]]:
    """`count` texts of exactly `tokens` tokens, the special ones included: runs of words of the fixtures.

    A text can then be handed to an engine that tokenises as well as to one that takes ids, and neither pads or cuts.
    """
    words = [word for text in fixture_texts() for word in text.split()]
    lengths = [len(ids) - SPECIAL_TOKENS for ids in tokenize(words)]
    texts: list[str] = []
    start = 0
    while len(texts) < count:
        end, total = start, SPECIAL_TOKENS
        while total < tokens:
            if end == len(words):
                raise ValueError(f"the fixtures give only {len(texts)} texts of {tokens} tokens, not {count}")
            total += lengths[end]
            end += 1
        if total == tokens:
            texts.append(" ".join(words[start:end]))
            start = end
        else:
            start += 1
    sequences = tokenize(texts)
    if any(len(ids) != tokens for ids in sequences):
        raise ValueError("a run of words has another length than its words together")
    return texts, sequences


def lone_case(tokens: int, cores: int, tokenize: Tokenize) -> Case:
    """One text at a time. Short calls are cheap, so that they are repeated more often."""
    texts, sequences = runs_of(tokens, 1, tokenize)
    repetitions = {8: 6, 16: 6, 32: 4, 128: 2}.get(tokens, 1)
    return Case(f"{tokens} tokens", cores, texts, sequences, warmup=2 if tokens <= 32 else 1, repetitions=repetitions)


def batch_case(tokens: int, cores: int, tokenize: Tokenize) -> Case:
    """32 texts of one length."""
    texts, sequences = runs_of(tokens, BATCH_TEXTS, tokenize)
    return Case(f"{BATCH_TEXTS}×{tokens} tokens", cores, texts, sequences, warmup=0, repetitions=1)


def mixed_case(cores: int, tokenize: Tokenize) -> Case:
    """Texts of 3 to 256 tokens, evenly spread, in a mixed order."""
    texts = fixture_texts()
    step = len(texts) // MIXED_TEXTS
    chosen = texts[::step][:MIXED_TEXTS]
    Random(1).shuffle(chosen)
    return Case("mixed lengths", cores, chosen, tokenize(chosen), warmup=0, repetitions=1)


def all_cases(cores: int, tokenize: Tokenize) -> list[Case]:
    """All cases at real size: lone texts on one core and, if there are more, on all; batches on all."""
    split = LONE_TOKENS_SPLIT if cores > 1 else ()
    return [
        *(lone_case(tokens, 1, tokenize) for tokens in LONE_TOKENS),
        *(lone_case(tokens, cores, tokenize) for tokens in split),
        *(batch_case(tokens, cores, tokenize) for tokens in BATCH_TOKENS),
        mixed_case(cores, tokenize),
    ]
