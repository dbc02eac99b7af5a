"""Parts of the pages of all benchmarks: the machine, its cores, tables, figures. The standard library alone."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> str:
    """Processor, cores, system."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    facts = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    flags = facts.get("flags", "").split()
    sets = [name for name, flag in (("AVX2", "avx2"), ("AVX-512", "avx512f"), ("VNNI", "avx512_vnni")) if flag in flags]
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    name = facts.get("model name", platform.machine())
    family = f"family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else ""
    return (
        f"{os.cpu_count()} cores of {name} ({family}; {', '.join(sets)}), {system}, Python {platform.python_version()}"
    )


# Figures on several cores are comparable between machines only if the number is the same; four is what most have.
CORES_MAX = 4


def measured_cores() -> list[int]:
    """The cores to measure on: the last four that this process may use, or all of them if there are fewer."""
    return sorted(os.sched_getaffinity(0))[-CORES_MAX:]


def core_count(count: int) -> str:
    """A number of cores in words."""
    return f"{('one', 'two', 'three', 'four')[count - 1] if count <= CORES_MAX else count} core{'s' * (count > 1)}"


def table(headings: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all columns but the first are figures."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def number(value: float | None) -> str:
    """Three figures."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.{1 if value >= 10 else 2 if value >= 1 else 3}f}"
