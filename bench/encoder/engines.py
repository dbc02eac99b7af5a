"""The engines of the comparison: how each is started, and the process that it lives in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases import ROOT, Case
from processes import EngineError, LineProcess

HERE = Path(__file__).resolve().parent
PRECISIONS = ("int8", "bf16", "f32")


@dataclass(frozen=True)
class Setup:
    """Where things are."""

    binaries: Path
    model: Path
    cache: Path

    @property
    def exported(self) -> Path:
        """The peers' models."""
        return self.cache / "models"

    @property
    def ort_binary(self) -> Path:
        """ONNX Runtime from Rust, if it was built."""
        return self.cache / "ort-target" / "release" / "bench-ort"


@dataclass(frozen=True)
class Engine:
    """One configuration: a command, what it's compared as, and the cases that it makes sense for."""

    name: str
    # "weir int8", "ort int8", "ort f32", "openvino int8", "st ids", "st texts"
    kind: str
    command: list[str]
    cores: int
    # one session over all cores; else a session of one thread for each core, which is of no use to a lone text
    is_one_session: bool = True
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether it's the encoder and not a peer."""
        return self.kind.startswith("weir")

    @property
    def type(self) -> str:
        """Number format of the products."""
        return next((name for name in ("int8", "bf16") if self.kind.endswith(name)), "f32")

    def takes(self, case: Case) -> bool:
        """Whether the case is measured with this engine."""
        return self.cores == case.cores and (self.is_one_session or not case.is_lone)


def ours(setup: Setup, cores: int) -> list[Engine]:
    """The encoder in every precision."""
    binary = str(setup.binaries / "bench_encoder")
    fixed = ["--model", str(setup.model), "--threads", str(cores), "--cache", str(setup.cache / "packed")]
    return [
        Engine(f"weir {precision}", f"weir {precision}", [binary, "--precision", precision, *fixed], cores)
        for precision in PRECISIONS
    ]


def peers(setup: Setup, cores: int) -> list[Engine]:
    """The peers, each in one session over all cores and, where there are several, in a session for each."""
    found: list[Engine] = []
    worker = [sys.executable, str(HERE / "worker.py")]
    shapes = [(cores, 1)] if cores == 1 else [(cores, 1), (1, cores)]
    for threads, sessions in shapes:
        sizes = ["--threads", str(threads), "--sessions", str(sessions)]
        shape = "" if cores == 1 else f", {threads} thread{'s' * (threads > 1)} × {sessions}"
        one = sessions == 1
        for kind, file in (("int8", "int8.onnx"), ("f32", "fused.onnx")):
            model = ["--model", str(setup.exported / file)]
            name = f"ONNX Runtime {kind}"
            found.append(Engine(name + shape, f"ort {kind}", [*worker, "onnxruntime", *model, *sizes], cores, one))
            if setup.ort_binary.exists():
                command = [str(setup.ort_binary), *model, *sizes]
                found.append(Engine(f"{name} from Rust{shape}", f"ort {kind}", command, cores, one, ort_environment()))
        model = ["--model", str(setup.exported / "openvino-int8.xml")]
        found.append(
            Engine("OpenVINO int8" + shape, "openvino int8", [*worker, "openvino", *model, *sizes], cores, one)
        )
    for kind, label in (("ids", "sentence-transformers, from ids"), ("texts", "sentence-transformers, `encode`")):
        command = [*worker, f"st-{kind}", "--model", str(setup.model), "--threads", str(cores)]
        found.append(Engine(label, f"st {kind}", command, cores))
    return found


def ort_environment() -> dict[str, str]:
    """Where the shared library of ONNX Runtime is: in the Python package, so that both languages run the same code."""
    folders = Path(sys.prefix).glob("lib/python*/site-packages/onnxruntime/capi")
    libraries = [file for folder in folders for file in sorted(folder.glob("libonnxruntime.so*"))]
    return {"ORT_DYLIB_PATH": str(libraries[0])} if libraries else {}


class Process(LineProcess):
    """An engine's process, alive until it's closed and bound to its cores."""

    def __init__(self, engine: Engine, cores: Iterable[int]) -> None:
        self.engine = engine
        command = ["taskset", "--cpu-list", ",".join(map(str, cores)), *engine.command]
        super().__init__(engine.name, command, os.environ | engine.environment, ROOT)
        try:
            ready = self._read()
        except EngineError:
            self.close()
            raise
        self.detail = str(ready["detail"])
        self.load_ms = ready["load_ns"] / 1e6

    def load(self, case: Case) -> None:
        """Hands a case over; it is not measured yet."""
        self.call(command="load", case=case.name, texts=case.texts, sequences=case.sequences)

    def run(self, case: Case, warmup: int, repetitions: int) -> dict[str, list[int]]:
        """Wall and CPU time of each call in nanoseconds."""
        return self.call(command="run", case=case.name, warmup=warmup, repetitions=repetitions)

    def embed(self, sequences: list[list[int]]) -> list[list[float]]:
        """The vector of each sequence, computed alone."""
        return list(self.call(command="embed", sequences=sequences)["vectors"])

    def tokenize(self, texts: list[str]) -> list[list[int]]:
        """Token ids; only the encoder answers this."""
        return list(self.call(command="tokenize", texts=texts)["sequences"])

    def rss_bytes(self) -> int:
        """Resident memory now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
