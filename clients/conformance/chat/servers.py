"""A gateway before a mock of three providers, both of their own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
START_SECONDS_MAX = 60

# Faults that a call may ask the mock for, by these headers.
FAULTS = ("x-mock-drop-midstream", "x-mock-error-midstream")
# What the mock is to reply.
ECHO = "x-mock-echo"

DOCUMENT = {
    "id": "weirs",
    "text": "A weir is a low dam across a river. It raises the water level a little.",
    "metadata": {"url": "https://example.com/weirs"},
}
# Everything that the gateway does with a chat beside passing it on.
GUARDED = """
[[routes]]
model = "guarded"
targets = [{ upstream = "mock" }]
retrieval = { collection = "default", top_k = 1 }
cache = { mode = "exact" }

[[routes]]
model = "listed"
targets = [{ upstream = "mock" }]
retrieval = { collection = "default", top_k = 1, sources_as = "markdown" }

[[routes]]
model = "listed-claude"
targets = [{ upstream = "claude" }]
retrieval = { collection = "default", top_k = 1, sources_as = "markdown" }

[[routes]]
model = "open-webui"
targets = [{ upstream = "mock" }]
retrieval = { collection = "default", top_k = 1, sources_as = "open-webui" }

[[guardrails]]
id = "pii"
detect = ["pii", "secrets"]
restore = true
models = ["guarded"]

[[guardrails]]
id = "injection"
detect = ["injection"]
action = "block"
on = ["input"]
models = ["guarded"]
"""


def binary(name: str, variable: str) -> Path:
    """The program of this name: what the variable names, or what cargo has built last."""
    if os.environ.get(variable):
        return Path(os.environ[variable])
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    built = [path for profile in ("checked", "dist", "release") if (path := target / profile / name).is_file()]
    if not built:
        remedy = f"build it by `cargo build --release -p {name}`, or name one by {variable}"
        raise SystemExit(f"no {name} in {target}; {remedy}")
    return max(built, key=lambda path: path.stat().st_mtime)


def configuration(mock: str) -> str:
    """The tables of three upstreams, each another API of the mock, and a route with guardrails, sources and a cache."""
    upstreams = {"mock": ("openai", f"{mock}/v1"), "claude": ("anthropic", mock), "gemini": ("gemini", mock)}
    headers = json.dumps([*FAULTS, ECHO])
    tables = "".join(
        f'[[upstreams]]\nid = "{name}"\nprovider = "{provider}"\nurl = "{url}"\nheaders = {headers}\n'
        for name, (provider, url) in upstreams.items()
    )
    return tables + GUARDED


def ingest(url: str) -> None:
    """Makes the document searchable."""
    body = json.dumps({"documents": [DOCUMENT]}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/ingest?wait=true", body, headers)
    with urllib.request.urlopen(request, timeout=START_SECONDS_MAX) as reply:
        reply.read()


@contextmanager
def started(command: list[str], log: Path, **variables: str) -> Iterator[str]:
    """The URL of a server that prints a line of JSON with its address. It is stopped at the end."""
    # output goes to a file: a pipe that is not read would block the server
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=output)
    try:
        yield f"http://{address(process, log)}"
    finally:
        process.terminate()
        try:
            process.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def address(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that a server has printed."""
    begun = time.monotonic()
    while time.monotonic() - begun < START_SECONDS_MAX and process.poll() is None:
        for line in log.read_text(encoding="utf-8").splitlines():
            if '"address":' in line and line.endswith("}"):
                return str(json.loads(line)["address"])
        time.sleep(0.02)
    raise SystemExit(f"{process.args!r} did not start:\n{log.read_text(encoding='utf-8')}")


@contextmanager
def gateway() -> Iterator[str]:
    """The URL of a gateway before a mock."""
    with tempfile.TemporaryDirectory(prefix="weir-chat-") as name:
        folder = Path(name)
        mock = [str(binary("weir-mock", "WEIR_MOCK_BINARY")), "--listen", "127.0.0.1:0"]
        with started(mock, folder / "mock.log") as mock_url:
            file = folder / "weir.toml"
            file.write_text(configuration(mock_url), encoding="utf-8")
            weir = [str(binary("weir", "WEIR_BINARY")), "serve", "--listen", "127.0.0.1:0"]
            weir += ["--data-dir", str(folder / "data")]
            with started(weir, folder / "weir.log", WEIR_CONFIG=str(file), WEIR_MODEL="pseudo") as url:
                ingest(url)
                yield url
