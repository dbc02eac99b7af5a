#!/usr/bin/env python3
"""Writes the bill of materials of the binary: CycloneDX 1.5 JSON, from `cargo metadata` and Cargo.lock.

Listed are the crates that are compiled into the binary or run while it is built, for one target; crates that only tests use are
not. The output depends on the sources alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BINARY = "weir"


def cargo_metadata(target: str) -> dict[str, Any]:
    """What cargo knows of the workspace and of its dependencies for `target`."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def checksums(lock: str) -> dict[tuple[str, str], str]:
    """The SHA-256 of each crate's archive in a Cargo.lock, by name and version."""
    packages = tomllib.loads(lock)["package"]
    return {(p["name"], p["version"]): p["checksum"] for p in packages if "checksum" in p}


def dependencies(metadata: dict[str, Any]) -> dict[str, list[str]]:
    """The package ids that each package is built from, without those of tests."""

    def is_used(dependency: dict[str, Any]) -> bool:
        return any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])

    nodes = metadata["resolve"]["nodes"]
    return {node["id"]: sorted(d["pkg"] for d in node["deps"] if is_used(d)) for node in nodes}


def reachable(root: str, graph: dict[str, list[str]]) -> list[str]:
    """`root` and everything that it is built from, sorted."""
    found, waiting = set[str](), [root]
    while waiting:
        package = waiting.pop()
        if package not in found:
            found.add(package)
            waiting += graph[package]
    return sorted(found)


def purl(package: dict[str, Any]) -> str:
    """The package URL, by which vulnerability databases name a crate."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict[str, Any], hashes: dict[tuple[str, str], str]) -> dict[str, Any]:
    """The entry of one crate."""
    shown: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    }
    if checksum := hashes.get((package["name"], package["version"])):
        shown["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if licence := package.get("license"):
        # older crates write `MIT/Apache-2.0`
        shown["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    if repository := package.get("repository"):
        shown["externalReferences"] = [{"type": "vcs", "url": repository}]
    return shown


def bill_of_materials(metadata: dict[str, Any], lock: str) -> dict[str, Any]:
    """The CycloneDX document of the binary."""
    packages = {package["id"]: package for package in metadata["packages"]}
    root = next(p for p in metadata["packages"] if p["name"] == BINARY and p["source"] is None)
    graph, hashes = dependencies(metadata), checksums(lock)
    used = reachable(root["id"], graph)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(root, hashes), "type": "application"}},
        "components": [component(packages[id], hashes) for id in used if id != root["id"]],
        "dependencies": [
            {"ref": purl(packages[id]), "dependsOn": [purl(packages[used_by]) for used_by in graph[id]]} for id in used
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", default="x86_64-unknown-linux-gnu")
    target = parser.parse_args().target
    document = bill_of_materials(cargo_metadata(target), (ROOT / "Cargo.lock").read_text())
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
