"""The client against a gateway with TLS."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import unittest
from pathlib import Path

import servers

import weir
from weir import AsyncWeir, Weir


class Tls(unittest.TestCase):
    """Certificates of a file are trusted, others are not."""

    def test_the_certificates_of_a_file_are_trusted(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
            issue = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
            names = ["-subj", "/CN=weir", "-addext", "subjectAltName=IP:127.0.0.1"]
            files = ["-keyout", str(key), "-out", str(certificate)]
            subprocess.run([*issue, *names, *files], check=True, capture_output=True)
            settings = {"WEIR_SERVER_TLS_CERTIFICATE": str(certificate), "WEIR_SERVER_TLS_KEY": str(key)}
            with servers.gateway(**settings) as url:
                url = url.replace("http:", "https:")
                with Weir(url, ca_file=str(certificate)) as client:
                    self.assertTrue(client.readiness().ready)
                self.assertTrue(asyncio.run(self.readiness(url, str(certificate))))
                with Weir(url, retries=0) as client, self.assertRaises(weir.WeirConnectionError):
                    client.readiness()

    async def readiness(self, url: str, ca_file: str) -> bool:
        async with AsyncWeir(url, ca_file=ca_file) as client:
            return (await client.readiness()).ready


if __name__ == "__main__":
    unittest.main()
