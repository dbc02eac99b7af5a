"""Real prose that a machine has anyway or gets through its package registries, as passages of 200 to 600 characters.

| source | what | licence |
|---|---|---|
| debian | long descriptions of all packages, by `apt-get update` into the cache | those of the packages, all free |
| crates | doc comments of the crates that cargo has unpacked to build this | those of the crates, see `deny.toml` |
| manuals | manual pages of the system | those of the packages |
| python | docstrings of the standard library and of the peers' environment | PSF, and those of the packages |
| go | comments of Go's standard library, where Go is installed | BSD |
| notes | READMEs and the like under `/usr/share/doc` | those of the packages |
| sets | the corpora of the evaluation sets, when `DATA` names their folder | see their READMEs |

None of it becomes part of the project: passages stay in `.cache/bench-search`, and only figures leave it.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

PASSAGE_CHARACTERS_MIN = 200
PASSAGE_CHARACTERS_MAX = 600
TITLE_CHARACTERS_MAX = 80
FILE_BYTES_MAX = 2_000_000
# Of a passage's characters: letters, spaces and the marks of sentences. Below it's a table or a program.
PROSE_SHARE_MIN = 0.93
STOP_WORDS_MIN = 4
STOP_WORDS = frozenset(
    "a an and are as at be been but by can for from has have if in into is it its may must no not of on only or should "
    "so such than that the their then there these they this to was when where which will with you your".split()
)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
LETTERS = re.compile(r"[A-Za-z ,.;:'\"()!?-]")
LINKS = re.compile(r"\[([^\]]*)\]\([^)]*\)|\[`?([^\]`]*)`?\]")


class Passage(NamedTuple):
    """A piece of prose: where it's from, what it's called, what it says."""

    source: str
    title: str
    text: str


def every(cache: Path, data: Path | None) -> Iterator[Passage]:
    """All passages of all sources that are here, a source after the other; some come twice."""
    for name, documents in sources(cache, data).items():
        for title, paragraphs in documents():
            for text in passages(paragraphs):
                yield Passage(name, " ".join(title.split())[:TITLE_CHARACTERS_MAX], text)


def sources(cache: Path, data: Path | None) -> dict[str, Callable[[], Iterable[tuple[str, list[str]]]]]:
    """Each source by its name: documents of a title and paragraphs."""
    found: dict[str, Callable[[], Iterable[tuple[str, list[str]]]]] = {
        "debian": lambda: debian(cache / "apt"),
        "crates": crates,
        "manuals": manuals,
        "python": docstrings,
        "go": go,
        "notes": notes,
    }
    if data is not None:
        found["sets"] = lambda: sets(data)
    return found


def passages(paragraphs: Iterable[str]) -> Iterator[str]:
    """Paragraphs, joined while they are short and cut between sentences where they are long."""
    held = ""
    for paragraph in paragraphs:
        for sentence in SENTENCE_END.split(" ".join(paragraph.split())):
            if len(held) + 1 + len(sentence) > PASSAGE_CHARACTERS_MAX:
                yield from filter(is_prose, [held])
                held = ""
            held = f"{held} {sentence}".strip()
        if len(held) >= PASSAGE_CHARACTERS_MIN:
            yield from filter(is_prose, [held])
            held = ""
    yield from filter(is_prose, [held])


def is_prose(text: str) -> bool:
    """Whether it reads like English sentences and has the length of a passage."""
    if not PASSAGE_CHARACTERS_MIN <= len(text) <= PASSAGE_CHARACTERS_MAX:
        return False
    if len(LETTERS.findall(text)) < PROSE_SHARE_MIN * len(text):
        return False
    return sum(word in STOP_WORDS for word in text.lower().split()) >= STOP_WORDS_MIN


def debian(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Descriptions of packages: `apt-get update` in English, into a folder of our own."""
    helper = Path("/usr/lib/apt/apt-helper")
    if not helper.exists():
        return
    lists = folder / "lists"
    if not list(lists.glob("*Translation-en*")):
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        settings = [f"Dir::State::lists={lists}", f"Dir::Cache={folder}", "Acquire::Languages=en"]
        options = [part for setting in settings for part in ("-o", setting)]
        subprocess.run(["apt-get", "-qq", *options, "update"], check=False)
    for file in sorted(lists.glob("*Translation-en*")):
        text = subprocess.run([helper, "cat-file", file], check=True, capture_output=True).stdout.decode()
        for entry in text.split("\n\n"):
            head, _, body = entry.partition("\nDescription-en: ")
            short, _, long = body.partition("\n")
            if long:
                name = head.removeprefix("Package: ").split("\n")[0]
                yield f"{name}: {short}", "\n".join(line[1:] for line in long.split("\n")).split("\n.\n")


def crates() -> Iterator[tuple[str, list[str]]]:
    """Doc comments, named by their crate and the line that they stand above."""
    for file in readable(Path.home().glob(".cargo/registry/src/*/*/**/*.rs")):
        crate = next(part for part in file.parts if re.search(r"-\d+\.\d", part)).rsplit("-", 1)[0]
        yield from comments(lines_of(file), ("///", "//!"), crate)


def go() -> Iterator[tuple[str, list[str]]]:
    """Comments of Go's standard library."""
    tool = shutil.which("go") or "/usr/local/go/bin/go"
    root = Path(tool).resolve().parent.parent / "src"
    for file in readable(root.glob("**/*.go")):
        if "testdata" not in file.parts and not file.name.endswith("_test.go"):
            yield from comments(lines_of(file), ("//",), f"go {file.parent.name}")


def comments(lines: Iterable[str], marks: tuple[str, ...], owner: str) -> Iterator[tuple[str, list[str]]]:
    """Runs of comment lines, each with what the next line of code declares."""
    run: list[str] = []
    for line in [*lines, ""]:
        bare = line.strip()
        if bare.startswith(marks):
            run.append(bare.lstrip("/!").strip())
        elif run:
            declared = re.sub(r"[^A-Za-z_ ]+.*", "", bare.removeprefix("pub ").replace("func (", "func "))
            yield f"{owner} {declared}", markdown(run)
            run = []


def markdown(lines: Iterable[str]) -> list[str]:
    """Paragraphs, without the programs between them."""
    paragraphs = [""]
    is_program = False
    for line in lines:
        if line.lstrip().startswith("```"):
            is_program = not is_program
        elif is_program or line.startswith(("#", "|", "<")) or not line.strip():
            paragraphs.append("")
        else:
            paragraphs[-1] += " " + LINKS.sub(lambda match: match[1] or match[2], line).replace("`", "")
    return paragraphs


def manuals() -> Iterator[tuple[str, list[str]]]:
    """Manual pages of the classic macros, a section at a time."""
    for file in readable(Path("/usr/share/man").glob("man[1-8]/*")):
        name = file.name.removesuffix(".gz").rsplit(".", 1)[0]
        for section, paragraphs in roff(lines_of(file)):
            yield f"{name}: {section}", paragraphs


def roff(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Sections and their paragraphs. Pages in the other set of macros, `mdoc`, are passed over."""
    section, paragraphs = "", [""]
    for line in lines:
        if line.startswith(".Dd"):
            return
        macro, _, rest = line.partition(" ")
        if macro in (".SH", ".SS"):
            yield section, paragraphs
            section, paragraphs = rest.strip('" ').lower(), [""]
        elif macro in (".B", ".I", ".BR", ".IR", ".RB", ".RI", ".BI", ".IB"):
            paragraphs[-1] += " " + plain(rest.replace('"', ""))
        elif line.startswith((".", "'")):
            paragraphs.append("")
        else:
            paragraphs[-1] += " " + plain(line)
    yield section, paragraphs


def plain(line: str) -> str:
    """A line without the escapes of roff."""
    line = re.sub(r"\\f(\[[^\]]*\]|\(..|.)|\\s[+-]?\d|\\[&|^%/,]", "", line)
    return (
        re.sub(r"\\\(..|\\\*\(..|\\\[[^\]]*\]", "'", line).replace("\\-", "-").replace("\\e", "\\").replace("\\ ", " ")
    )


def docstrings() -> Iterator[tuple[str, list[str]]]:
    """Docstrings of modules, classes and functions."""
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
    for file in readable(path for folder in sorted(folders) for path in Path(folder).glob("**/*.py")):
        try:
            tree = ast.parse("\n".join(lines_of(file)))
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{file.stem} {getattr(node, 'name', '')}", markdown(text.splitlines())


def notes() -> Iterator[tuple[str, list[str]]]:
    """READMEs and texts of packages."""
    for file in readable(Path("/usr/share/doc").glob("**/*")):
        if re.match(r"(README|NEWS|FAQ|.*\.(txt|md|rst))", file.name):
            yield f"{file.parent.name} {file.name.split('.')[0].lower()}", markdown(lines_of(file))


def sets(data: Path) -> Iterator[tuple[str, list[str]]]:
    """The documents of evaluation sets."""
    for file in sorted(data.glob("*/corpus.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield entry["title"], [entry["text"]]


def readable(paths: Iterable[Path]) -> list[Path]:
    """Files of a size that people wrote, in a fixed order."""
    return sorted(path for path in paths if path.is_file() and path.stat().st_size <= FILE_BYTES_MAX)


def lines_of(file: Path) -> list[str]:
    """The lines of a file, which may be packed."""
    try:
        bytes_ = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError):
        return []
    return bytes_.decode("utf-8", errors="ignore").splitlines()


if __name__ == "__main__":
    from collections import Counter

    seen: set[str] = set()
    counts: Counter[str] = Counter()
    for passage in every(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None):
        if passage.text not in seen:
            seen.add(passage.text)
            counts[passage.source] += 1
            if len(seen) % 4000 == 0:
                print(passage)
    print(counts, len(seen))
