"""More embedding requests than a gateway can do, while something else of it is measured."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from costs import Case, ask
from processes import EngineError
from targets import EMBEDDER, EMBEDDINGS, Paths, Target

# Longer than any scenario; the generator is stopped at its end.
DURATION, TIMEOUT = "600s", "60s"
CONNECTIONS, TEXTS = 64, 32
# The length of a paragraph: 66 words.
TEXT = "The river rose in the night and took the old mill with its stone bridge down to the town by the lake. " * 3
SETTLE_SECONDS = 2.0


@contextmanager
def embeddings(paths: Paths, target: Target) -> Iterator[None]:
    """Fills the queue of the target's model until the block ends: 64 requests of 32 texts at any time."""
    request = {"model": EMBEDDER, "input": [f"{number} {TEXT}" for number in range(TEXTS)]}
    # errors are part of an overload, but not where they are all that there is
    ask(target.server, target.headers[0].removeprefix("authorization: Bearer "), Case("embeddings", EMBEDDINGS, request))
    body = json.dumps(request)
    command = [str(paths.load), "load", "--url", f"{target.server.url}{EMBEDDINGS}", "--concurrency", str(CONNECTIONS), "--threads", "1"]
    command += ["--duration", DURATION, "--timeout", TIMEOUT, "--body", body, "--allow-errors"]
    command += [part for header in target.headers for part in ("--header", header)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as generator:
        try:
            time.sleep(SETTLE_SECONDS)
            yield
        finally:
            is_running = generator.poll() is None
            generator.kill()
            _, errors = generator.communicate()
        if not is_running:
            raise EngineError(f"{target.name}: the embedding load ended early:\n{errors}")
