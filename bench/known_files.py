"""Files that are sent again: no chunk is embedded, and they take under a twentieth of the first time.

`FILES` files (5,000 by default), each with a page or two of text, are uploaded by `weir ingest` twice. `KIND=pdf` makes PDF files of them in
place of RTF. Exits with 1 if the second time has a chunk, or takes longer.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from service import ADDRESS, WEIR, WORDS, start, stop

FILES = int(os.environ.get("FILES", "5000"))
KIND = os.environ.get("KIND", "rtf")
WORDS_PER_FILE = 600
SHARE_MAX = float(os.environ.get("SHARE_MAX", "0.05"))


def pdf(text: str) -> bytes:
    """A page with the text in lines of twelve words."""
    words = text.split()
    lines = [" ".join(words[at : at + 12]) for at in range(0, len(words), 12)]
    drawn = "BT /F1 9 Tf 11 TL 40 800 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Count 1 /Kids [4 0 R] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
        f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
    ]
    file, places = "%PDF-1.7\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(file))
        file += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    trailer = f"trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{len(file)}\n%%EOF\n"
    return (file + f"xref\n0 {count}\n0000000000 65535 f \n" + table + trailer).encode()


def write_files(folder: Path) -> None:
    """Files of different words in folders of a hundred."""
    choose = random.Random(0)
    for number in range(FILES):
        text = f"file {number} " + " ".join(choose.choices(WORDS, k=WORDS_PER_FILE))
        inner = folder / f"{number // 100:03}"
        inner.mkdir(parents=True, exist_ok=True)
        content = pdf(text) if KIND == "pdf" else f"{{\\rtf1\\ansi {text}\\par}}".encode()
        (inner / f"{number:05}.{KIND}").write_bytes(content)


def ingest(folder: Path) -> tuple[dict[str, object], float]:
    """The report of `weir ingest`, and its seconds."""
    url = "http://{}:{}".format(*ADDRESS)
    begun = time.perf_counter()
    command = [WEIR, "ingest", folder, "--url", url, "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1])), time.perf_counter() - begun


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder / "files")
        server, _ = start(folder)
        try:
            first, first_seconds = ingest(folder / "files")
            again, again_seconds = ingest(folder / "files")
        finally:
            stop(server)
    share = again_seconds / first_seconds
    print(f"{FILES} files ({KIND}): {first_seconds:.1f} s, {first['new']} new, {first['chunks']} chunks")
    print(f"again: {again_seconds:.1f} s ({100 * share:.1f} %), {again['unchanged']} unchanged, {again['chunks']} chunks")
    is_unchanged = (first["new"], again["unchanged"], again["chunks"]) == (FILES, FILES, 0)
    return int(not is_unchanged or share > SHARE_MAX)


if __name__ == "__main__":
    sys.exit(main())
