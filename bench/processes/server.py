"""Servers of a measurement: each a group of processes that is started together, waited for, called and ended. The standard library alone."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import EngineError
from processes.usage import tree

START_SECONDS_MAX = 180.0
STOP_SECONDS_MAX = 60.0
CALL_SECONDS_MAX = 900.0
POLL_SECONDS = 0.001


@dataclass(frozen=True)
class Command:
    """One process of a server. `{port}` in its arguments is replaced by its own port, `{port0}` by that of the first, and so on."""

    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None


class Server:
    """Its last process is the one that is called. `commands` may be changed until it's started."""

    def __init__(self, name: str, commands: list[Command], log: Path, health: str = "/healthz", fixed_port: int | None = None) -> None:
        self.name = name
        self.commands = commands
        # of the process that is called, where others have to find it again after a start
        self._fixed_port = fixed_port
        self._log = log
        self._health = health
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports: list[int] = []

    @property
    def port(self) -> int:
        """Of the process that is called."""
        return self._ports[-1]

    @property
    def url(self) -> str:
        """Without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pids(self) -> list[int]:
        """Of the processes that were started."""
        return [process.pid for process in self._processes]

    @property
    def all_pids(self) -> list[int]:
        """With the processes that these started."""
        return tree(self.pids)

    def start(self) -> float:
        """The seconds until the last process answered that it's healthy."""
        self._ports = free_ports(len(self.commands))
        if self._fixed_port is not None:
            self._ports[-1] = self._fixed_port
        self._log.parent.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        with self._log.open("wb") as output:
            for command, port in zip(self.commands, self._ports, strict=True):
                ports = {"port": port} | {f"port{at}": value for at, value in enumerate(self._ports)}
                process = subprocess.Popen(
                    [argument.format_map(ports) if "{port" in argument else argument for argument in command.arguments],
                    stdout=output,
                    stderr=output,
                    env=environment(command.environment),
                    cwd=command.folder,
                )
                self._processes.append(process)
        while not self._is_healthy():
            if time.perf_counter() - started > START_SECONDS_MAX or any(one.poll() is not None for one in self._processes):
                self.stop()
                raise EngineError(f"{self.name} did not start:\n" + self._log.read_text(errors="replace")[-1500:])
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - started

    def stop(self) -> None:
        """Ends all processes, the called one first."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(timeout=STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes = []

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """The reply's JSON; an error status is an error."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_SECONDS_MAX)
        content = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, content, {"content-type": "application/json"} | (headers or {}))
            reply = connection.getresponse()
            answer = reply.read()
        except OSError as error:
            raise EngineError(f"{self.name} does not answer {method} {path}: {error}") from error
        finally:
            connection.close()
        if reply.status >= 300:
            raise EngineError(f"{self.name} answered {method} {path} with {reply.status}: {answer[:500]!r}")
        return json.loads(answer) if answer else None

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", self._health)
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def stop_on_sigterm() -> None:
    """Makes a request to end leave through `finally`, so that no server stays behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def environment(more: dict[str, str]) -> dict[str, str]:
    """That of this process without the settings of tests and measurements: the gateway refuses names that it doesn't know."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")} | more


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
