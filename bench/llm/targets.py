"""What is compared: the mock alone, two plain proxies, gateways; how each is installed, started and called."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from processes import EngineError
from processes.server import Command, Server, environment

ROOT = Path(__file__).resolve().parents[2]
DIRECT, FLOOR, GO = "direct", "Rust floor", "Go ReverseProxy"
LITELLM, LITELLM_4, LITELLM_RS, PORTKEY = "LiteLLM, 1 worker", "LiteLLM, 4 workers", "litellm-rs", "Portkey"
WEIR, WEIR_L2, WEIR_PG, WEIR_EMBEDDING = "Weir L1", "Weir L2", "Weir L3", "Weir L1 with a model"
# As PEERS names them, in the order of tables.
NAMES = {
    "floor": FLOOR,
    "go": GO,
    "weir": WEIR,
    "weir-guard": WEIR_L2,
    "weir-pg": WEIR_PG,
    "weir-embedding": WEIR_EMBEDDING,
    "portkey": PORTKEY,
    "litellm": LITELLM,
    "litellm-4": LITELLM_4,
    "litellm-rs": LITELLM_RS,
}
MODEL = "gpt-mock"
EMBEDDER = "embedder"
CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
# More than any run sends: the limit is checked and never reached.
REQUESTS_PER_MINUTE = 1_000_000_000
TOKENS_PER_MINUTE = 4_000_000_000
# Of callers, and of requests to the upstream: for ten thousand streams, which the defaults do not allow.
CONNECTIONS_MAX = 20_000
# Everything that is detected without words of one's own.
GUARDRAILS = """[[guardrails]]
id = "all"
detect = ["pii", "secrets"]
action = "redact"
stream = "window"
[[guardrails]]
id = "injection"
detect = ["injection"]
action = "flag"
"""


@dataclass(frozen=True)
class Paths:
    """What was installed and built, and where data is kept."""

    weir: Path
    load: Path
    mock: Path
    floor: Path
    cache: Path
    data: Path
    # an embedding model, and the measurement of crates/guardrails
    model: Path
    guardrails: Path

    @property
    def go(self) -> Path:
        """The Go proxy's binary."""
        return self.cache / "go_proxy"

    @property
    def litellm(self) -> Path:
        """LiteLLM's command."""
        return self.cache / "litellm" / "bin" / "litellm"

    @property
    def litellm_rs(self) -> Path:
        """litellm-rs' binary."""
        return self.cache / "litellm-rs" / "bin" / "gateway"

    @property
    def portkey(self) -> Path:
        """Portkey's script."""
        return self.cache / "portkey" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"


@dataclass
class Target:
    """One row."""

    name: str
    detail: str
    server: Server
    headers: list[str] = field(default_factory=list)
    # whether it can only run with what was installed before
    needs: Path | None = None

    @property
    def is_ours(self) -> bool:
        """Ours must run."""
        return self.name.startswith("Weir")


def mock(paths: Paths, port: int, flags: tuple[str, ...]) -> Server:
    """The backend, at the port that all gateways know."""
    arguments = [str(paths.mock), "--listen", "127.0.0.1:{port}", "--last-max", "1", *flags]
    return Server("weir-mock", [Command(arguments)], paths.data / "mock.log", "/mock/stats", port)


def floor(paths: Paths, mock_port: int) -> Target:
    """hyper's server and client."""
    command = Command([str(paths.floor), "127.0.0.1:{port}", f"127.0.0.1:{mock_port}"])
    detail = "hyper server and hyper-util client, headers copied, body streamed, no other work (bench/peers/floor)"
    return Target(FLOOR, detail, Server(FLOOR, [command], paths.data / "floor.log"), needs=paths.floor)


def go(paths: Paths, mock_port: int) -> Target:
    """Go's standard library."""
    command = Command([str(paths.go), "-listen", "127.0.0.1:{port}", "-upstream", f"http://127.0.0.1:{mock_port}"])
    detail = "net/http/httputil.ReverseProxy, idle connections not limited (bench/peers/go_proxy)"
    return Target(GO, detail, Server(GO, [command], paths.data / "go.log"), needs=paths.go)


def litellm(paths: Paths, mock_port: int, workers: int) -> Target:
    """A proxy with a key, no database."""
    name = LITELLM if workers == 1 else LITELLM_4
    config = paths.data / f"litellm-{workers}.yaml"
    # JSON is YAML.
    model = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{mock_port}/v1", "api_key": "sk-mock"}
    content = {
        "model_list": [{"model_name": MODEL, "litellm_params": model}],
        "general_settings": {"master_key": "sk-bench"},
        "litellm_settings": {"telemetry": False},
    }
    config.write_text(json.dumps(content), encoding="utf-8")
    arguments = [str(paths.litellm), "--config", str(config), "--host", "127.0.0.1", "--port", "{port}", "--num_workers", str(workers)]
    settings = {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONUNBUFFERED": "1"}
    log = paths.data / f"litellm-{workers}.log"
    server = Server(name, [Command(arguments, settings)], log, "/health/liveliness")
    detail = f"litellm[proxy] {version(paths.cache / 'litellm')} from PyPI, {workers} worker{'s' * (workers > 1)}, master key, no database"
    return Target(name, detail, server, ["authorization: Bearer sk-bench"], paths.litellm)


def litellm_rs(paths: Paths, mock_port: int) -> Target:
    """A port of LiteLLM to Rust. Its keys are rows of a database, which is in memory here and has none: every caller is let in."""
    config, prices = paths.data / "litellm-rs.yaml", paths.data / "litellm-rs-prices.json"
    # A model without a price is refused, or logged as two errors for each request.
    price = {"litellm_provider": "mock", "mode": "chat", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    prices.write_text(json.dumps({MODEL: price}), encoding="utf-8")
    provider = {
        "name": "mock",
        # The type openai runs OpenAI's tokenizer on each prompt, this one estimates its tokens.
        "provider_type": "openai_compatible",
        "base_url": f"http://127.0.0.1:{mock_port}/v1",
        # Loopback addresses are refused otherwise.
        "endpoint_access": "private_network",
        "api_key": "sk-mock",
        "models": [MODEL],
        # None of these can be switched off.
        "rpm": REQUESTS_PER_MINUTE,
        "tpm": TOKENS_PER_MINUTE,
        "max_concurrent_requests": CONNECTIONS_MAX,
    }
    # JSON is YAML. Tables without a default are given, also if they are empty.
    content = {
        "server": {},
        # By default five failures within a minute take a target out for a minute, also the only one.
        "router": {"circuit_breaker": {"failure_threshold": REQUESTS_PER_MINUTE}},
        "monitoring": {},
        "storage": {"database": {"url": "", "enabled": False}, "redis": {"url": "", "enabled": False}},
        "auth": {"enable_api_key": False, "allow_anonymous": True},
        # On by default: patterns of prompt injection in prompts and answers.
        "guardrails": {"enabled": False},
        "pricing": {"source": str(prices)},
        "providers": [provider],
    }
    config.write_text(json.dumps(content), encoding="utf-8")
    arguments = [str(paths.litellm_rs), "--config", str(config), "--host", "127.0.0.1", "--port", "{port}", "--log-level", "error"]
    server = Server(LITELLM_RS, [Command(arguments)], paths.data / "litellm-rs.log", "/health")
    detail = "litellm-rs 0.9.0 from crates.io, no keys, limits of provider and circuit breaker raised, a price for the model, guardrails off, "
    detail += "database in memory"
    return Target(LITELLM_RS, detail, server, needs=paths.litellm_rs)


def portkey(paths: Paths, mock_port: int) -> Target:
    """Portkey's open source gateway; provider and key are headers of each request."""
    command = Command(["node", str(paths.portkey), "--headless", "--port={port}"], {"NODE_ENV": "production"})
    headers = ["authorization: Bearer sk-mock", "x-portkey-provider: openai", f"x-portkey-custom-host: http://127.0.0.1:{mock_port}/v1"]
    detail = "@portkey-ai/gateway 1.15.2 from npm with @hono/node-server pinned to 1.3.3, no keys, no limits (it has none)"
    return Target(PORTKEY, detail, Server(PORTKEY, [command], paths.data / "portkey.log", "/"), headers, paths.portkey)


def weir(paths: Paths, mock_port: int, name: str = WEIR, telemetry_url: str | None = None, more: str = "", scopes: str = "chat") -> Target:
    """The gateway with a key, its limit and a route; L2 with guardrails, L3 with a row per request in PostgreSQL; `more` are further tables."""
    folder = paths.data / name.replace(" ", "-").lower()
    folder.mkdir(parents=True)
    config = folder / "weir.toml"
    tables = more + (GUARDRAILS if name == WEIR_L2 else "")
    model = paths.model if name == WEIR_EMBEDDING else None
    config.write_text(weir_config(folder / "data", mock_port, telemetry_url, tables, model), encoding="utf-8")
    key = weir_key(paths, folder / "data", scopes if model is None else f"{scopes},embed")
    settings = {"WEIR_LOG_LEVEL": "warn"} | ({"WEIR_TELEMETRY_URL": telemetry_url} if telemetry_url else {})
    command = Command([str(paths.weir), "serve", "--config", str(config), "--listen", "127.0.0.1:{port}"], settings)
    detail = "API key with a request limit, route to one upstream, retries as they come (2), connections_max raised, "
    if name == WEIR_L2:
        detail += "guardrails of all built-in kinds on prompts and answers (personal data and secrets redacted, injection flagged), streams by window, "
    if model is not None:
        detail += f"{model.name} with its cache off, "
    detail += "a row per request in PostgreSQL (fsync on)" if telemetry_url else "telemetry none"
    return Target(name, detail, Server(name, [command], folder / "weir.log"), [f"authorization: Bearer {key}"], paths.weir)


def weir_config(data: Path, mock_port: int, telemetry_url: str | None, more: str = "", model: Path | None = None) -> str:
    """weir.toml, with more tables at its end; without a model's folder it has a model that computes nothing."""
    models = f'[[models]]\nid = "{EMBEDDER}"\n' + ('kind = "pseudo"' if model is None else f'folder = "{model}"\n[inference]\ncache_bytes_max = 0')
    telemetry = 'requests = "postgres"\npostgres_url = "env:WEIR_TELEMETRY_URL"' if telemetry_url else 'requests = "none"'
    return f"""[server]
data_dir = "{data}"
[limits]
connections_max = {CONNECTIONS_MAX}
[telemetry]
{telemetry}
{models}
{upstream(mock_port)}[[routes]]
model = "{MODEL}"
targets = [{{ upstream = "mock" }}]
{more}"""


def upstream(mock_port: int) -> str:
    """The table of the mock."""
    return f"""[[upstreams]]
id = "mock"
provider = "openai"
url = "http://127.0.0.1:{mock_port}/v1"
concurrent_requests_max = {CONNECTIONS_MAX}
"""


def weir_key(paths: Paths, data: Path, scopes: str = "chat") -> str:
    """A key with the scopes and a limit, written before the first start."""
    command = [str(paths.weir), "keys", "create", "bench", "--scopes", scopes, "--data-dir", str(data)]
    command += ["--requests-per-minute", str(REQUESTS_PER_MINUTE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment({}))
    if done.returncode != 0:
        raise EngineError(f"weir keys create failed:\n{done.stdout}{done.stderr}")
    return key_in(done.stdout)


def key_in(text: str) -> str:
    """The key in what `weir keys create` prints."""
    found = next((word for word in text.split() if word.startswith("weir_")), None)
    if found is None:
        raise EngineError(f"weir keys create printed no key:\n{text}")
    return found


def version(environment_folder: Path) -> str:
    """Of LiteLLM in its virtual environment."""
    found = sorted(environment_folder.glob("lib/python*/site-packages/litellm-*.dist-info"))
    return found[-1].name.removeprefix("litellm-").removesuffix(".dist-info") if found else "not installed"
