"""Damaged files through the gateway: no crash, none over its deadline by more than 2 s, memory that stays.

`COPIES` damaged copies (10,000 by default) of a file of each format, and of those in `--folder`, are uploaded by `WORKERS` clients (4). The gateway reads
each in a process of its own with `extract.timeout_ms` of 5 s, which holds for each of up to three attempts. Exits with 1 if a reply is missing, is an
error of the gateway, or is late; if resident memory grows by more than 64 MiB after the first fifth; or if processes or files are left.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import random
import sys
import tempfile
import time
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from known_files import pdf
from service import ADDRESS, rss_mib, start, stop

COPIES = int(os.environ.get("COPIES", "10000"))
WORKERS = int(os.environ.get("WORKERS", "4"))
TIMEOUT_S = 5
ATTEMPTS = 3
GRACE_S = 2
GROWTH_MIB_MAX = 64
SIGNS = b"0123456789/<>[](){}\"=\\ -;:R"


def archive(parts: dict[str, str]) -> bytes:
    """A zip archive of these parts."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return packed.getvalue()


def opc(main: str, kind: str, more: dict[str, str]) -> bytes:
    """An Office file with its main part."""
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    types = f'<Types><Override PartName="/{main}" ContentType="application/vnd.openxmlformats-officedocument.{kind}.main+xml"/></Types>'
    relations = f'<Relationships><Relationship Id="r1" Type="{relation}" Target="{main}"/></Relationships>'
    return archive({"[Content_Types].xml": types, "_rels/.rels": relations, **more})


def originals() -> dict[str, bytes]:
    """A small file of each format, by its name."""
    words = "a weir is a low dam across a river " * 20
    word = f"<w:document><w:body><w:p><w:r><w:t>{words}</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:body></w:document>"
    sheet = '<worksheet><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>weir</t></is></c><c r="B1"><v>4.2</v></c></row></sheetData></worksheet>'
    book = '<workbook xmlns:r="r"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>'
    of_book = '<Relationships><Relationship Id="rId1" Type="x/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
    odt = f"<office:document-content><office:body><office:text><text:h>weirs</text:h><text:p>{words}</text:p></office:text></office:body></office:document-content>"
    package = '<package><manifest><item id="a" href="a.xhtml"/></manifest><spine><itemref idref="a"/></spine></package>'
    container = '<container><rootfiles><rootfile full-path="o.opf"/></rootfiles></container>'
    mail = (
        "From: a@example.org\r\nTo: b@example.org\r\nSubject: weirs\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
        f"--x\r\nContent-Type: text/html; charset=koi8-r\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p>{words}\r\n"
        "--x\r\nContent-Disposition: attachment; filename=a.txt\r\nContent-Transfer-Encoding: base64\r\n\r\nSGVsbG8=\r\n--x--\r\n"
    )
    return {
        "a.pdf": pdf(words),
        "a.docx": opc("word/document.xml", "wordprocessingml.document", {"word/document.xml": word}),
        "a.xlsx": opc(
            "xl/workbook.xml",
            "spreadsheetml.sheet",
            {"xl/workbook.xml": book, "xl/_rels/workbook.xml.rels": of_book, "xl/worksheets/sheet1.xml": sheet},
        ),
        "a.odt": archive({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": odt}),
        "a.epub": archive(
            {
                "mimetype": "application/epub+zip",
                "META-INF/container.xml": container,
                "o.opf": package,
                "a.xhtml": f"<html><body><h1>weirs</h1><p>{words}</p></body></html>",
            }
        ),
        "a.rtf": f"{{\\rtf1\\ansi{{\\fonttbl{{\\f1 A;}}}}\\b weirs\\b0\\par {words}\\par}}".encode(),
        "a.eml": mail.encode(),
        "a.mbox": f"From a\n{mail}\n\nFrom b\n{mail}".encode(),
        "a.html": f"<title>weirs</title><table><tr><td>x<td>y</table><p>{words}".encode(),
        "a.zip": archive({"a.txt": words, "b/c.html": "<p>mill"}),
    }


def damaged(original: bytes, choose: random.Random) -> bytes:
    """A copy that is cut, or has other bytes, a repeated block or other signs."""
    copy = bytearray(original)
    kind = choose.randrange(4)
    if kind == 0:
        del copy[choose.randrange(len(copy)) :]
    elif kind == 1:
        for _ in range(choose.randrange(len(copy) // 200 + 2) + 1):
            copy[choose.randrange(len(copy))] = choose.randrange(256)
    elif kind == 2:
        at, begun = choose.randrange(len(copy)), choose.randrange(len(copy))
        copy[at:at] = copy[begun : begun + choose.randrange(1, 4096)]
    else:
        for _ in range(20):
            at = choose.randrange(len(copy))
            if copy[at] in SIGNS:
                copy[at] = choose.choice(SIGNS)
    return bytes(copy)


def put(number: int, name: str, content: bytes) -> tuple[int, str, float]:
    """The status, the code and the seconds of an upload. The documents of 100 uploads replace each other."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(*ADDRESS, timeout=120)
    path = f"/v1/collections/damaged/documents/{number % 100}?filename={name}"
    connection.request("PUT", path, content, {"content-type": "application/octet-stream"})
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    code = "" if reply.status == 202 else str(json.loads(body).get("code"))
    return reply.status, code, time.perf_counter() - begun


def children(pid: int) -> int:
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged files through the gateway.")
    parser.add_argument("--folder", type=Path, help="files whose copies are damaged too")
    options = parser.parse_args()
    files = originals()
    files |= {path.name: path.read_bytes() for path in sorted(options.folder.iterdir()) if path.is_file()} if options.folder else {}
    names = list(files)
    os.environ |= {"WEIR_EXTRACT_TIMEOUT_MS": str(TIMEOUT_S * 1000), "WEIR_EXTRACT_ARCHIVES": "true", "WEIR_LOG_LEVEL": "error"}
    with tempfile.TemporaryDirectory() as folder:
        server, _ = start(Path(folder))
        try:
            connection = http.client.HTTPConnection(*ADDRESS)
            connection.request("PUT", "/v1/collections/damaged", '{"embedding": "none"}', {"content-type": "application/json"})
            connection.getresponse().read()
            for number, name in enumerate(names):
                status, code, _ = put(number, name, files[name])
                if status != 202:
                    raise SystemExit(f"{name} itself is refused: {status} {code}")
            choose = random.Random(59)
            counts: Counter[str] = Counter()
            slowest, early_mib, begun = (0.0, ""), 0.0, time.perf_counter()
            with ThreadPoolExecutor(WORKERS) as pool:
                for first in range(0, COPIES, 200):
                    work = [(number, names[number % len(names)]) for number in range(first, min(first + 200, COPIES))]
                    copies = [(number, name, damaged(files[name], choose)) for number, name in work]
                    for (number, name), (status, code, seconds) in zip(work, pool.map(lambda one: put(*one), copies), strict=True):
                        counts[code or "stored"] += 1
                        slowest = max(slowest, (seconds, f"{name}, copy {number}"))
                        if status >= 500 and code not in ("extraction_timeout", "extraction_memory", "extraction_crashed"):
                            raise SystemExit(f"{name}, copy {number}: {status} {code}")
                    if not early_mib and first + 200 >= COPIES / 5:
                        early_mib = rss_mib(server.pid)
            seconds = time.perf_counter() - begun
            grown, left = rss_mib(server.pid) - early_mib, children(server.pid)
            is_alive = server.poll() is None
        finally:
            stop(server)
    print(f"{COPIES} damaged copies of {len(files)} files in {seconds:.0f} s ({COPIES / seconds:.0f}/s): {dict(counts.most_common())}")
    print(f"slowest {slowest[0]:.1f} s ({slowest[1]}), at most {TIMEOUT_S * ATTEMPTS + GRACE_S}; RSS {early_mib:.0f} + {grown:.0f} MiB; {left} processes left")
    is_late = slowest[0] > TIMEOUT_S * ATTEMPTS + GRACE_S
    return int(not is_alive or is_late or grown > GROWTH_MIB_MAX or left > 0)


if __name__ == "__main__":
    sys.exit(main())
