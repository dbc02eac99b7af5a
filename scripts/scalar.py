"""Runs the tests of the crates that call kernels once more by the scalar reference: their unit tests, and the tests named here.

Cargo is asked for the test programs of the whole workspace, as with `-p` the features of dependencies would differ and all be built again.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

CRATES = ("weir-kernels", "weir-ranking", "weir-encoder", "weir-index")
# Programs of integration tests, and which of their tests: those of files and threads do the same by any kernels.
TESTS = {"encoder": ["embeddings::", "models::", "wordpiece::"], "index": []}


def programs(cargo: list[str]) -> list[tuple[Path, list[str]]]:
    """The folder of the crate and the program with its filters, of each test to be run."""
    command = [*cargo, "--no-run", "--message-format", "json", "--lib", *(f"--test={name}" for name in TESTS)]
    built = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = []
    for line in built.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["executable"]:
            manifest = Path(message["manifest_path"])
            if f"weir-{manifest.parent.name}" in CRATES:
                target = message["target"]
                found.append((manifest.parent, [message["executable"], *(TESTS[target["name"]] if "test" in target["kind"] else [])]))
    return sorted(found)


def main() -> int:
    found = programs(sys.argv[1:])
    if len(found) != len(CRATES) + len(TESTS):
        print(f"{len(found)} test programs, wanted are {len(CRATES)} and {len(TESTS)}: change CRATES or TESTS in scripts/scalar.py", file=sys.stderr)
        return 1
    environment = {**os.environ, "WEIR_ISA": "scalar"}
    failed = [program for folder, program in found if subprocess.run(program, cwd=folder, env=environment).returncode != 0]
    for program in failed:
        print(f"failed by the scalar reference: {program[0]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
