"""An engine in a process of its own, which answers a line of JSON to each that it's sent. The standard library alone."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any


class EngineError(Exception):
    """An engine's process did not answer; the message ends with what it wrote."""


class LineProcess:
    """Alive until it's closed."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], folder: Path) -> None:
        self._name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            cwd=folder,
            text=True,
        )

    def call(self, **request: Any) -> dict[str, Any]:
        """The reply to a request."""
        assert self._process.stdin is not None, "it was opened as a pipe"
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the reply tells why
        return self._read()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                pipe.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "it was opened as a pipe"
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            wrote = self._log.read()[-1500:].decode(errors="replace")
            raise EngineError(f"{self._name} stopped:\n{wrote}")
        return dict(json.loads(line))
