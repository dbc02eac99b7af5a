"""The bill of materials of a small workspace."""

import unittest

import sbom

LOCK = '[[package]]\nname = "used"\nversion = "1.2.3"\nchecksum = "abc"\n'


def package(name: str, version: str, **more: object) -> dict[str, object]:
    return {"id": name, "name": name, "version": version, "source": "registry", "license": None, "repository": None, **more}


def metadata() -> dict[str, object]:
    def uses(name: str, *kinds: str | None) -> dict[str, object]:
        return {"pkg": name, "dep_kinds": [{"kind": kind} for kind in kinds]}

    nodes = [
        {"id": "weir", "deps": [uses("used", None, "dev"), uses("tester", "dev"), uses("builder", "build")]},
        {"id": "used", "deps": [uses("builder", None)]},
        {"id": "tester", "deps": []},
        {"id": "builder", "deps": []},
    ]
    packages = [
        package("weir", "0.1.0", source=None, license="Apache-2.0"),
        package("used", "1.2.3", license="MIT/Apache-2.0", repository="https://example.org/used"),
        package("tester", "1.0.0"),
        package("builder", "2.0.0"),
    ]
    return {"packages": packages, "resolve": {"nodes": nodes}}


class BillOfMaterials(unittest.TestCase):
    def test_it_lists_what_is_built_in_and_not_what_tests_use(self) -> None:
        bill = sbom.bill_of_materials(metadata(), LOCK)
        self.assertEqual([c["purl"] for c in bill["components"]], ["pkg:cargo/builder@2.0.0", "pkg:cargo/used@1.2.3"])
        self.assertEqual(bill["metadata"]["component"]["purl"], "pkg:cargo/weir@0.1.0")
        edges = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
        self.assertEqual(edges["pkg:cargo/weir@0.1.0"], ["pkg:cargo/builder@2.0.0", "pkg:cargo/used@1.2.3"])

    def test_a_crate_has_its_checksum_licence_and_repository(self) -> None:
        used = sbom.bill_of_materials(metadata(), LOCK)["components"][1]
        self.assertEqual(used["hashes"], [{"alg": "SHA-256", "content": "abc"}])
        self.assertEqual(used["licenses"], [{"expression": "MIT OR Apache-2.0"}])
        self.assertEqual(used["externalReferences"], [{"type": "vcs", "url": "https://example.org/used"}])


if __name__ == "__main__":
    unittest.main()
