"""A PostgreSQL server for one run: on loopback, in a folder of its own, as another user than root, which it refuses."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from processes import EngineError
from processes.server import free_ports
from processes.usage import cpu_seconds, tree

# The first that exists is who runs the server if this is root.
USERS = ("postgres", "nobody")
# Where packages put the programs, below /usr.
INSTALLED = ("lib*/postgresql/*/bin/initdb", "pgsql-*/bin/initdb")
ROLE, DATABASE = "weir", "postgres"
START_SECONDS_MAX = 60.0
# Rows are written in batches: how long the count may take to stand still.
SETTLE_SECONDS, SETTLE_SECONDS_MAX = 1.0, 60.0
TABLES = "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')"
# A partitioned table counts the rows of its parts.
PARTS = "select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relispartition"


class Postgres:
    """Started by `start`, with fsync as it comes; `stop` removes its folder."""

    def __init__(self) -> None:
        self._bin = binaries()
        self._folder = Path(tempfile.mkdtemp(prefix="bench-llm-postgres-"))
        self._port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._as_user: list[str] = []
        if os.getuid() == 0:
            user = server_user()
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]

    @property
    def url(self) -> str:
        """For clients."""
        return f"postgres://{ROLE}@127.0.0.1:{self._port}/{DATABASE}"

    def start(self) -> None:
        """Creates the data and waits for the server."""
        data = self._folder / "data"
        self._run([self._bin / "initdb", "-D", data, "-U", ROLE, "--auth=trust", "--encoding=UTF8", "--no-locale"])
        command = [str(self._bin / "postgres"), "-D", str(data), "-p", str(self._port), "-c", "listen_addresses=127.0.0.1"]
        command += ["-c", f"unix_socket_directories={self._folder}"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen([*self._as_user, *command], stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + START_SECONDS_MAX
        while subprocess.run([self._bin / "pg_isready", "-q", "-d", self.url], check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = (self._folder / "log").read_text(errors="replace")[-1500:]
                self.stop()
                raise EngineError(f"PostgreSQL did not start:\n{text}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends the server at once; nobody needs its data."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def cpu_seconds(self) -> float:
        """Of all its living processes."""
        return cpu_seconds(tree([self._process.pid])) if self._process is not None else 0.0

    def version(self) -> str:
        """Such as `15.18`."""
        return self.query("show server_version").split()[0]

    def rows(self) -> int:
        """The rows of the table of requests, once their number stands still."""
        parts = set(self.query(PARTS).splitlines())
        tables = [table for table in self.query(TABLES).splitlines() if "request" in table and table not in parts]
        if len(tables) != 1:
            raise EngineError(f"one table of requests was expected, there is {', '.join(tables) or 'none'}")
        return settled(lambda: int(self.query(f"select count(*) from {tables[0]}")))

    def query(self, text: str) -> str:
        """The output of psql, a line for each row."""
        return self._run([self._bin / "psql", "-X", "-A", "-t", "-d", self.url, "-c", text]).strip()

    def _run(self, command: list[str | Path]) -> str:
        arguments = [*self._as_user, *map(str, command)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=self._folder)
        if done.returncode != 0:
            raise EngineError(f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


def settled(count: Callable[[], int]) -> int:
    """Counts until two counts are the same."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    last = count()
    while time.monotonic() < deadline:
        time.sleep(SETTLE_SECONDS)
        now = count()
        if now == last:
            return now
        last = now
    return last


def binaries() -> Path:
    """The folder with the server's programs, which Debian keeps out of the path; the newest."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = [path.parent for path in Path("/usr").glob("lib*/postgresql/*/bin/initdb")] + [
        path.parent for path in Path("/usr").glob("pgsql-*/bin/initdb")
    ]
    if not folders:
        raise EngineError("PostgreSQL is not installed (apt install postgresql)")
    return max(folders, key=lambda folder: int("".join(filter(str.isdigit, folder.parent.name)) or 0))


def server_user() -> pwd.struct_passwd:
    """Who runs the server."""
    for name in USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise EngineError(f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}")
