"""A PostgreSQL server of our own: on loopback, a free port, a folder of the cache, as long as a process needs it."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

START_SECONDS_MAX = 60.0
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "2GB",
    "maintenance_work_mem": "512MB",
    "work_mem": "64MB",
    "max_wal_size": "4GB",
    "max_parallel_workers_per_gather": "0",
    "fsync": "on",
}


def binaries() -> Path | None:
    """The folder of the newest server that is installed (`apt install postgresql`)."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent if found else None


def installed_version() -> str:
    """Of the newest server."""
    programs = binaries()
    if programs is None:
        return "none"
    said = subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    return said.split()[2]


class Server:
    """Started by the first connection, stopped with this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        # the server refuses to run as root: there the account that its package made runs it
        self._user = "postgres" if os.geteuid() == 0 else None

    @property
    def pid(self) -> int:
        """Of the postmaster; sessions are its children."""
        assert self._process is not None, "the server runs"
        return self._process.pid

    def connect(self) -> Any:
        """A connection that commits each statement."""
        import psycopg

        if self._process is None:
            self._start()
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                address = f"host=127.0.0.1 port={self._port} user=bench dbname=postgres"
                return psycopg.connect(address, autocommit=True)
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        """A fast shutdown: everything is on disk, and who is connected is not waited for."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=START_SECONDS_MAX)
            self._process = None

    def _start(self) -> None:
        programs = binaries()
        if programs is None:
            raise FileNotFoundError("no PostgreSQL server is installed: `apt install postgresql`")
        data = self._folder / "data"
        if not data.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._user is not None:
                shutil.chown(self._folder, self._user)
            command = [
                str(programs / "initdb"),
                "--username=bench",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
            ]
            subprocess.run([*command, "-D", str(data)], check=True, stdout=subprocess.DEVNULL, **self._as_user())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        settings = SETTINGS | {"port": str(self._port), "unix_socket_directories": ""}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = (self._folder / "server.log").open("ab")
        command = [str(programs / "postgres"), "-D", str(data), *options]
        self._process = subprocess.Popen(command, stderr=log, stdout=log, **self._as_user())
        atexit.register(self.stop)

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        entry = pwd.getpwnam(self._user)
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "env": environment, "cwd": "/"}
