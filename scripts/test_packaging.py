"""Tests of packaging/: compose.yaml, and the chart as scripts/helm.sh rendered it.

Neither needs Docker, Helm or a cluster: what those would do is not tested here, and docs/containers.md says so.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
CHART = PACKAGING / "helm" / "weir"
RENDERED = PACKAGING / "helm" / "rendered"
GATEWAYS = ("gateway-1", "gateway-2", "gateway-3")
SECRET = "s3cret"
# Of gateways that share a database and Redis; a name goes from here when docs/configuration.md has it.
AWAITED = {"WEIR_REDIS_URL", "WEIR_REDIS_PREFIX", "WEIR_REDIS_GATEWAYS_MIN", "WEIR_SERVER_DRAIN_MS", "WEIR_SERVER_STREAM_DRAIN_MS"}


def documented_variables() -> set[str]:
    """The variables of all settings."""
    return set(re.findall(r"`(WEIR_[A-Z0-9_]+)`", (ROOT / "docs/configuration.md").read_text())) | AWAITED


def chart_hash() -> str:
    """As scripts/helm.sh computes it."""
    files = sorted(path.relative_to(CHART).as_posix() for path in CHART.rglob("*") if path.is_file())
    lines = [f"{hashlib.sha256((CHART / name).read_bytes()).hexdigest()}  ./{name}\n" for name in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def objects(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of a rendering, by kind and name."""
    found = [entry for entry in yaml.safe_load_all((RENDERED / name).read_text()) if entry]
    return {(entry["kind"], entry["metadata"]["name"]): entry for entry in found}


class Rendering(unittest.TestCase):
    def test_the_rendering_is_that_of_the_chart(self) -> None:
        stale = "the chart has changed: run scripts/helm.sh (it needs Helm)"
        self.assertEqual((RENDERED / "chart.sha256").read_text().strip(), chart_hash(), stale)

    def test_helm_renders_the_same(self) -> None:
        if shutil.which(os.environ.get("HELM", "helm")) is None:
            self.skipTest("Helm is not installed; the rendering in the repository is tested")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "scripts/helm.sh", folder], check=True)
            for path in RENDERED.iterdir():
                self.assertEqual((Path(folder) / path.name).read_text(), path.read_text(), path.name)

    def test_every_value_is_in_the_schema_and_in_a_template(self) -> None:
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        schema = yaml.safe_load((CHART / "values.schema.json").read_text())["properties"]
        templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
        self.assertEqual(set(values), set(schema) - {"global"})
        for name, value in values.items():
            self.assertIn(f".Values.{name}", templates)
            properties = schema[name].get("properties")
            if isinstance(value, dict) and properties is not None:
                self.assertEqual(set(value), set(properties), name)
                for inner in value:
                    self.assertIn(f".Values.{name}.{inner}", templates)


class Chart(unittest.TestCase):
    def setUp(self) -> None:
        self.default = objects("default.yaml")
        self.everything = objects("everything.yaml")

    def pod(self, rendering: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
        return rendering["StatefulSet", "demo-weir"]["spec"]["template"]["spec"]

    def container(self, rendering: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
        (container,) = self.pod(rendering)["containers"]
        return container

    def test_gateways_are_replaced_one_by_one_and_drained(self) -> None:
        spec = self.default["StatefulSet", "demo-weir"]["spec"]
        self.assertEqual((spec["replicas"], spec["updateStrategy"]["type"]), (3, "RollingUpdate"))
        variables = {entry["name"]: entry["value"] for entry in self.container(self.default)["env"]}
        drains = int(variables["WEIR_SERVER_DRAIN_MS"]) + int(variables["WEIR_SERVER_STREAM_DRAIN_MS"])
        self.assertGreater(self.pod(self.default)["terminationGracePeriodSeconds"] * 1_000, drains)
        budget = self.default["PodDisruptionBudget", "demo-weir"]["spec"]
        self.assertEqual(budget["maxUnavailable"], 1)

    def test_a_gateway_is_asked_when_it_is_ready_and_killed_only_when_it_does_not_live(self) -> None:
        container = self.container(self.default)
        paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "readiness", "startup")}
        self.assertEqual(paths, {"liveness": "/livez", "readiness": "/readyz", "startup": "/livez"})
        startup = container["startupProbe"]
        self.assertEqual(startup["periodSeconds"] * startup["failureThreshold"], 600)

    def test_all_selectors_find_the_pods(self) -> None:
        for rendering in (self.default, self.everything):
            labels = rendering["StatefulSet", "demo-weir"]["spec"]["template"]["metadata"]["labels"]
            selectors = [entry["spec"]["selector"] for (kind, _), entry in rendering.items() if kind == "Service"]
            selectors += [entry["spec"]["selector"]["matchLabels"] for (kind, _), entry in rendering.items() if kind in ("PodDisruptionBudget", "StatefulSet")]
            selectors += [rendering["NetworkPolicy", "demo-weir"]["spec"]["podSelector"]["matchLabels"]]
            for selector in selectors:
                self.assertLessEqual(selector.items(), labels.items())

    def test_prometheus_asks_each_gateway_with_a_key(self) -> None:
        monitor = self.everything["ServiceMonitor", "demo-weir"]["spec"]
        wanted = monitor["selector"]["matchLabels"].items()
        found = [name for (kind, name), entry in self.everything.items() if kind == "Service" and wanted <= entry["metadata"]["labels"].items()]
        self.assertEqual(found, ["demo-weir-pods"])
        (endpoint,) = monitor["endpoints"]
        self.assertEqual((endpoint["path"], endpoint["authorization"]["credentials"]), ("/metrics", {"name": "weir-metrics", "key": "key"}))
        self.assertNotIn(("ServiceMonitor", "demo-weir"), self.default)

    def test_secrets_are_in_the_secret_alone(self) -> None:
        for (kind, _), entry in self.everything.items():
            self.assertEqual(SECRET in yaml.safe_dump(entry), kind == "Secret", kind)
        self.assertNotIn("Secret", {kind for kind, _ in self.default})
        self.assertEqual(self.container(self.default)["envFrom"], [{"secretRef": {"name": "weir"}}])
        self.assertEqual(self.container(self.everything)["envFrom"], [{"secretRef": {"name": "demo-weir"}}])

    def test_a_gateway_has_no_more_rights_than_it_needs(self) -> None:
        for rendering in (self.default, self.everything):
            pod, container = self.pod(rendering), self.container(rendering)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertFalse(pod["automountServiceAccountToken"])
            self.assertFalse(pod["enableServiceLinks"])
            self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
            self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
        self.assertNotIn("--insecure-no-auth", self.container(self.default)["args"])

    def test_the_network_is_closed_but_for_callers_and_what_gateways_call(self) -> None:
        policy = self.default["NetworkPolicy", "demo-weir"]["spec"]
        (ingress,) = policy["ingress"]
        self.assertEqual(ingress["from"], [{"podSelector": {"matchLabels": {"weir-client": "true"}}}])
        ports = [port["port"] for entry in policy["egress"] for port in entry["ports"]]
        self.assertEqual(ports, [53, 53, 5432, 6379, 443])

    def test_volumes_of_mounts_exist(self) -> None:
        for rendering in (self.default, self.everything):
            claims = rendering["StatefulSet", "demo-weir"]["spec"].get("volumeClaimTemplates", [])
            volumes = {entry["name"] for entry in self.pod(rendering)["volumes"]} | {entry["metadata"]["name"] for entry in claims}
            self.assertEqual({entry["name"] for entry in self.container(rendering)["volumeMounts"]}, volumes)

    def test_variables_are_settings(self) -> None:
        for rendering in (self.default, self.everything):
            names = {entry["name"] for entry in self.container(rendering)["env"]}
            self.assertEqual(names - documented_variables(), set())


class Compose(unittest.TestCase):
    def setUp(self) -> None:
        self.compose = yaml.safe_load((PACKAGING / "compose.yaml").read_text())
        self.services = self.compose["services"]

    def test_three_gateways_differ_in_their_volume_alone(self) -> None:
        first, *others = (dict(self.services[name]) for name in GATEWAYS)
        volumes = [service.pop("volumes") for service in (first, *others)]
        self.assertEqual(len({volume for (volume,) in volumes}), 3)
        self.assertEqual(others, [first, first])
        for (volume,) in volumes:
            self.assertIn(volume.split(":")[0], self.compose["volumes"])

    def test_only_the_balancer_is_published_and_only_on_this_machine(self) -> None:
        published = {name: service["ports"] for name, service in self.services.items() if "ports" in service}
        self.assertEqual(published, {"balancer": ["127.0.0.1:8000:8000"]})

    def test_the_balancer_knows_the_gateways_and_repeats_searches_alone(self) -> None:
        text = (PACKAGING / "cluster/nginx.conf").read_text()
        self.assertEqual(re.findall(r"server (gateway-\d):8000", text), list(GATEWAYS))
        self.assertEqual(set(self.services["balancer"]["depends_on"]), set(GATEWAYS))
        (again,) = [block for block in re.findall(r"location ([^{]+)\{([^}]+)\}", text) if "non_idempotent" in block[1]]
        self.assertIn("search", again[0])
        self.assertEqual(text.count("{"), text.count("}"))

    def test_the_host_that_the_balancer_names_is_allowed(self) -> None:
        (host,) = re.findall(r"proxy_set_header Host (\S+);", (PACKAGING / "cluster/nginx.conf").read_text())
        self.assertIn(host, self.services["gateway-1"]["environment"]["WEIR_SERVER_ALLOWED_HOSTS"].split(","))

    def test_a_gateway_has_the_time_to_drain(self) -> None:
        gateway = self.services["gateway-1"]
        drains = sum(int(gateway["environment"][f"WEIR_SERVER_{name}_MS"]) for name in ("DRAIN", "STREAM_DRAIN"))
        self.assertGreater(int(gateway["stop_grace_period"].removesuffix("s")) * 1_000, drains)
        self.assertEqual(int(gateway["environment"]["WEIR_REDIS_GATEWAYS_MIN"]), len(GATEWAYS))

    def test_what_a_service_waits_for_has_a_health_check(self) -> None:
        for service in self.services.values():
            for name, condition in service.get("depends_on", {}).items():
                self.assertEqual(condition, {"condition": "service_healthy"})
                self.assertIn("healthcheck", self.services[name])

    def test_there_is_no_password_by_default(self) -> None:
        self.assertIn("POSTGRES_PASSWORD=\n", (PACKAGING / "cluster/example.env").read_text())
        self.assertIn("${POSTGRES_PASSWORD:?", self.services["postgres"]["environment"]["POSTGRES_PASSWORD"])

    def test_variables_are_settings(self) -> None:
        environment = self.services["gateway-1"]["environment"]
        named = {name for name in environment if name.startswith("WEIR_")}
        self.assertEqual(named - documented_variables(), set())
        for value in environment.values():
            if value.startswith("env:"):
                self.assertIn(value.removeprefix("env:"), environment)

    def test_docker_reads_it(self) -> None:
        docker = shutil.which("docker")
        if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("Docker with its plugin compose is not installed; the file is read as YAML")
        environment = os.environ | {"POSTGRES_PASSWORD": "x"}
        subprocess.run([docker, "compose", "--file", PACKAGING / "compose.yaml", "config", "--quiet"], env=environment, check=True)


if __name__ == "__main__":
    unittest.main()
