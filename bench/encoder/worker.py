"""One peer in a process of its own: reads a request a line, writes a reply a line, as the encoder's `bench_encoder`.

    python bench/encoder/worker.py onnxruntime --model int8.onnx --threads 1 --sessions 4

See the table of requests at the top of `crates/encoder/examples/bench_encoder.rs`; a peer does not tokenise for others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def load_peer(engine: str, model: Path, threads: int, sessions: int) -> Any:
    """The named peer. Imports only what it needs, so that its memory is its own."""
    import peers

    match engine:
        case "onnxruntime":
            return peers.onnx_runtime(model, threads, sessions)
        case "openvino":
            return peers.openvino(model, threads, sessions)
        case "st-ids" | "st-texts":
            return peers.SentenceTransformers(model, threads, takes_texts=engine == "st-texts")
    raise ValueError(f"no peer is called `{engine}`")


def timed(call: Callable[[], Any], warmup: int, repetitions: int) -> dict[str, list[int]]:
    """Wall and CPU time of each call, after those that don't count."""
    for _ in range(warmup):
        call()
    wall_ns: list[int] = []
    cpu_ns: list[int] = []
    for _ in range(repetitions):
        cpu_started, started = time.process_time_ns(), time.perf_counter_ns()
        call()
        wall_ns.append(time.perf_counter_ns() - started)
        cpu_ns.append(time.process_time_ns() - cpu_started)
    return {"wall_ns": wall_ns, "cpu_ns": cpu_ns}


def serve(peer: Any, load_ns: int, replies: Any) -> None:
    """Answers until the requests end."""

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    calls: dict[str, Callable[[], Any]] = {}
    reply({"detail": peer.detail, "load_ns": load_ns})
    for line in sys.stdin:
        request = json.loads(line)
        match request["command"]:
            case "load":
                calls[request["case"]] = peer.prepare(request["texts"], request["sequences"])
                reply({"loaded": len(request["sequences"])})
            case "run":
                reply(timed(calls[request["case"]], request["warmup"], request["repetitions"]))
            case "embed":
                vectors = [peer.prepare([], [ids])()[0].tolist() for ids in request["sequences"]]
                reply({"vectors": vectors})
            case other:
                raise ValueError(f"no command is called `{other}`")


def main() -> None:
    """Reads the command line. What the peers print goes to standard error: standard output is for replies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("onnxruntime", "openvino", "st-ids", "st-texts"))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=1)
    options = parser.parse_args()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    started = time.perf_counter_ns()
    peer = load_peer(options.engine, options.model, options.threads, options.sessions)
    serve(peer, time.perf_counter_ns() - started, replies)


if __name__ == "__main__":
    main()
