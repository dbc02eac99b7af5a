"""Runs what depends on the instruction set once more by the scalar reference: unit tests of the crates that call kernels, and some of their integration tests.

Cargo is asked for the test programs of the whole workspace, as with `-p` the features of dependencies would differ and all be built again.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

# Crates and those of their unit tests that are run; none named are all. The agreement tests of kernels compare all tables in every run:
# here remain those that use the table of the process.
LIBRARIES = {"kernels": ["pq4::", "weir_isa_selects_the_table"], "ranking": [], "encoder": [], "index": []}
# The same of their integration tests. What the encoder does with words, files and threads does not depend on kernels, nor what the index does with
# words, operations and damaged files.
TESTS = {"encoder": ["embeddings::", "models::"], "index": ["search::", "restart::"]}
# `WEIR_SCALAR=full` (`make scalar`) runs all integration tests of these crates, and those of the encoder with all of their texts.
IS_FULL = os.environ.get("WEIR_SCALAR") == "full"


def programs(cargo: list[str]) -> list[tuple[Path, list[str]]]:
    """The folder of the crate and the program with its filters, of each test to be run."""
    command = [*cargo, "--no-run", "--message-format", "json", "--lib", *(f"--test={name}" for name in TESTS)]
    built = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = []
    for line in built.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["executable"]:
            folder = Path(message["manifest_path"]).parent
            chosen = TESTS if "test" in message["target"]["kind"] else LIBRARIES
            if folder.name in chosen:
                filters = [] if IS_FULL and chosen is TESTS else chosen[folder.name]
                found.append((folder, [message["executable"], *filters]))
    return sorted(found)


def main() -> int:
    found = programs(sys.argv[1:])
    if len(found) != len(LIBRARIES) + len(TESTS):
        print(f"{len(found)} test programs, wanted are {len(LIBRARIES)} and {len(TESTS)}: change LIBRARIES or TESTS in scripts/scalar.py", file=sys.stderr)
        return 1
    environment = {**os.environ, "WEIR_ISA": "scalar"}
    failed = [program for folder, program in found if subprocess.run(program, cwd=folder, env=environment).returncode != 0]
    for program in failed:
        print(f"failed by the scalar reference: {program[0]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
