"""The wheel: what it has, and that it is imported without the sources."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from servers import ROOT

import weir

PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


class PackageTest(unittest.TestCase):
    def test_the_version_is_that_of_the_gateway(self) -> None:
        found = re.search(r'^version = "(.*)"', ROOT.joinpath("Cargo.toml").read_text(), re.MULTILINE)
        assert found
        self.assertEqual(weir.__version__, found[1])

    def test_every_public_name_is_exported_in_order(self) -> None:
        self.assertEqual(weir.__all__, sorted(weir.__all__))
        public = {name for name, value in vars(weir).items() if not name.startswith("_") and hasattr(value, "__mro__")}
        self.assertLessEqual(public, set(weir.__all__))

    def test_a_wheel_is_built_and_imported(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            options = ["--no-deps", "--no-build-isolation", "--wheel-dir", name]
            subprocess.run([*PIP, "wheel", *options, str(ROOT / "clients/python")], check=True)
            [wheel] = folder.glob("*.whl")
            self.assertEqual(wheel.name, f"weir_client-{weir.__version__}-py3-none-any.whl")
            with zipfile.ZipFile(wheel) as archive:
                self.assertIn("weir/py.typed", archive.namelist())
                tops = {entry.split("/")[0] for entry in archive.namelist()}
            self.assertEqual(tops, {"weir", f"weir_client-{weir.__version__}.dist-info"})
            target = folder / "installed"
            subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", target, wheel], check=True)
            script = f"import sys; sys.path.insert(0, {str(target)!r}); import weir; print(weir.__file__)"
            printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
            self.assertEqual(printed.strip(), str(target / "weir/__init__.py"))


if __name__ == "__main__":
    unittest.main()
