"""Security advisories from a local clone of a database that has one of our crates."""

import os
import subprocess
import tempfile
import textwrap
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).parent.parent
CRATE = "serde"


def version() -> str:
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return next(package["version"] for package in packages if package["name"] == CRATE)


def check(folder: Path, patched: str) -> subprocess.CompletedProcess[str]:
    """The check with a database of one advisory, which these versions do not have."""
    crate = folder / "crates" / CRATE
    crate.mkdir(parents=True)
    advisory = f"""\
        ```toml
        [advisory]
        id = "RUSTSEC-2099-0001"
        package = "{CRATE}"
        date = "2099-01-01"
        url = "https://example.org/"

        [versions]
        patched = ["{patched}"]
        ```

        # A weakness of the tests

        It does not exist.
        """
    (crate / "RUSTSEC-2099-0001.md").write_text(textwrap.dedent(advisory))
    user = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "--quiet"], ["add", "."], [*user, "commit", "--quiet", "--message", "advisories"]):
        subprocess.run(["git", "-C", folder, *command], check=True)
    environment = {**os.environ, "WEIR_ADVISORIES": str(folder)}
    script = ROOT / "scripts" / "deny.sh"
    return subprocess.run([script, "advisories"], capture_output=True, text=True, env=environment, check=False)


class Advisories(unittest.TestCase):
    def test_a_crate_with_an_advisory_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = check(Path(folder), "> 1000.0.0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("RUSTSEC-2099-0001", done.stderr)

    def test_a_version_with_the_mend_is_accepted(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = check(Path(folder), f">= {version()}")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
