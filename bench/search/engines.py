"""The engines of the comparison: how each is built and started, the process that it lives in, and what that uses."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import EngineError, LineProcess

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OURS = "Weir"
OURS_HTTP = "Weir over HTTP"
TEXT_ONLY = "Weir, text only"
# The largest size of an engine: Chroma's million takes over an hour to build, Qdrant Edge's wasn't done after 26 minutes.
DOCUMENTS_MAX = {"Chroma": 200_000, "Qdrant Edge": 200_000, "OpenSearch": 200_000, "OpenSearch, three nodes": 200_000, OURS_HTTP: 50_000, TEXT_ONLY: 50_000}
# Of a durable batch where indexing speed is a target; elsewhere it's 1,000.
BULK_DOCUMENTS = 10_000
# They read what another has built.
BUILT_BY = {"LanceDB, by hand": "LanceDB"}
MODES = ("hybrid", "lexical", "dense")


@dataclass(frozen=True)
class Setup:
    """Where things are."""

    binaries: Path
    cache: Path
    corpus: Path
    # of the corpus: an index belongs to one
    hash: str


@dataclass(frozen=True)
class Engine:
    """One way to search: a program, what it can do, and its settings in a sentence."""

    name: str
    setup: str
    modes: tuple[str, ...] = MODES
    # settings of the approximate search, the cheapest first
    efforts: tuple[int, ...] = ()
    filters: bool = True

    @property
    def is_ours(self) -> bool:
        """Whether it's the project's own."""
        return self.name.startswith(OURS)

    def takes(self, documents: int) -> bool:
        """Whether it is measured at a size."""
        return documents <= DOCUMENTS_MAX.get(self.name, documents)

    def command(self, setup: Setup, action: str, index: Path) -> list[str]:
        """The program that builds or serves."""
        places = ["--corpus", str(setup.corpus), "--index", str(index)]
        if self.name in (OURS, TEXT_ONLY):
            only = ["--text-only"] if self.name == TEXT_ONLY else []
            bulk = ["--batch", str(BULK_DOCUMENTS)] if self.name == TEXT_ONLY and action == "build" else []
            return [str(setup.binaries / "bench_search"), action, *places, *only, *bulk]
        return [sys.executable, str(HERE / "worker.py"), action, self.name, *places]


def ours() -> list[Engine]:
    """The index in process, and the same without vectors."""
    setup = (
        "in process, from Rust: `crates/index/examples/bench_search`; each retriever contributes 100 to the fusion (convex), 10 hits "
        "with texts"
    )
    return [Engine(OURS, setup), Engine(TEXT_ONLY, "the same without vectors", modes=("lexical",))]


def through_python() -> list[Engine]:
    """Our gateway over HTTP, and the peers whose packages are there."""
    try:
        import peers
        from weir_http import WeirHttp
    except ImportError:
        return []
    found = [Engine(WeirHttp.name, WeirHttp.setup, WeirHttp.modes)]
    for name, kind in peers.PEERS.items():
        if peers.is_installed(name):
            made: Any = kind
            found.append(Engine(name, made.setup, made.modes, made.efforts, made.filters))
    return found


@dataclass
class Built:
    """What filling an engine took."""

    seconds: float
    settle_seconds: float
    disk_bytes: int

    @property
    def total_seconds(self) -> float:
        """Until everything is merged."""
        return self.seconds + self.settle_seconds


def build(setup: Setup, engine: Engine, documents: int, cores: Iterable[int]) -> tuple[Path, Built]:
    """The engine's folder, filled now or by an earlier run with the same program text, settings and corpus."""
    name = BUILT_BY.get(engine.name, engine.name)
    folder = setup.cache / "indexes" / f"{name.replace(' ', '-').replace(',', '')}-{documents}"
    note = folder.with_name(folder.name + ".json")
    key = build_key(setup, engine)
    if note.exists():
        facts = json.loads(note.read_text(encoding="utf-8"))
        if facts.pop("key") == key:
            return folder, Built(**facts)
    if name != engine.name:
        raise EngineError(f"{engine.name} reads what {name} has built, which is not there")
    shutil.rmtree(folder, ignore_errors=True)
    command = [*engine.command(setup, "build", folder), "--documents", str(documents)]
    done = subprocess.run(
        pinned(command, cores), capture_output=True, text=True, cwd=ROOT, check=False, env=environment(setup)
    )
    if done.returncode != 0:
        raise EngineError(f"{engine.name} could not be built:\n{done.stderr[-1500:]}")
    facts = json.loads(done.stdout.splitlines()[-1])
    note.write_text(json.dumps(facts | {"key": key}) + "\n", encoding="utf-8")
    return folder, Built(**facts)


def build_key(setup: Setup, engine: Engine) -> str:
    """Changes when the index would."""
    hashed = hashlib.blake2b(digest_size=8)
    if engine.name in (OURS, TEXT_ONLY):
        hashed.update((setup.binaries / "bench_search").read_bytes())
    elif engine.name == OURS_HTTP:
        hashed.update((setup.binaries.parent / "weir").read_bytes())
    else:
        import peers

        name = BUILT_BY.get(engine.name, engine.name)
        hashed.update(f"{peers.detail(name)} {peers.PEERS[name].setup}".encode())
    return f"{setup.hash} {hashed.hexdigest()}"


def environment(setup: Setup) -> dict[str, str]:
    """One thread for the products of numpy: more of them wait for each other on a busy machine."""
    return os.environ | {"OPENBLAS_NUM_THREADS": "1", "BENCH_GATEWAY": str(setup.binaries.parent / "weir")}


def pinned(command: list[str], cores: Iterable[int]) -> list[str]:
    """The command, bound to cores."""
    return ["taskset", "--cpu-list", ",".join(map(str, cores)), *command]


@dataclass
class Memory:
    """Resident bytes."""

    anonymous: int = 0
    files: int = 0

    @property
    def total(self) -> int:
        """Both kinds."""
        return self.anonymous + self.files

    def __sub__(self, other: Memory) -> Memory:
        return Memory(max(self.anonymous - other.anonymous, 0), max(self.files - other.files, 0))


@dataclass
class Opened:
    """What opening took, and memory before and after."""

    seconds: float
    before: Memory
    after: Memory
    facts: dict[str, Any] = field(default_factory=dict)


class Process(LineProcess):
    """An engine's process, alive until it's closed."""

    def __init__(self, setup: Setup, engine: Engine, index: Path, cores: Iterable[int]) -> None:
        self.engine = engine
        command = pinned(engine.command(setup, "serve", index), cores)
        super().__init__(engine.name, command, environment(setup), ROOT)
        # whose memory counts, beside the worker's own children: the worker, or the server that it asks
        self._pid = self._process.pid
        try:
            self.detail = str(self._read()["detail"])
            before = self.memory()
            reply = self.call(command="open")
            self._pid = reply.pop("pid", self._pid)
            if self._pid != self._process.pid:
                before = Memory()  # a server starts empty
            self.opened = Opened(reply.pop("seconds"), before, self.memory(), reply)
        except EngineError:
            self.close()
            raise

    def memory(self) -> Memory:
        """Resident memory now, that of all children of a server included; shared pages once."""
        found = Memory()
        for pid in [self._pid, *children(self._pid)] if self._pid != self._process.pid else [self._pid]:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
            sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss")}
            found.anonymous += sizes["RssAnon"]
            # shared memory of a server is mapped by its children too
            found.files = max(found.files, sizes["RssFile"] + sizes["RssShmem"])
        return found

    def bind(self, cores: Iterable[int]) -> None:
        """Moves all threads of the process and of its children to cores."""
        chosen = set(cores)
        for pid in [self._process.pid, *children(self._process.pid)]:
            for task in Path(f"/proc/{pid}/task").iterdir():
                try:
                    os.sched_setaffinity(int(task.name), chosen)
                except ProcessLookupError:
                    continue

    def close(self) -> None:
        """Ends the process: the end of its requests ends it in peace."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            pass  # it's killed
        super().close()


def children(pid: int) -> list[int]:
    """All processes below one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        except OSError:
            continue  # it ended
        parents.setdefault(int(after_name.split()[1]), []).append(int(entry.parent.name))
    found, open_ = [], [pid]
    while open_:
        below = parents.get(open_.pop(), [])
        found += below
        open_ += below
    return found
