"""The progress of jobs: a bar on a terminal, or calls of a function."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO, Union

from weir._types import Job

_BAR_CHARACTERS = 30


@dataclass(frozen=True)
class Progress:
    """Documents so far. `total` is None while it is unknown.

    `share` is the part that is done, from 0 to 1, and advances within a document; it is None while `total` is.
    """

    processed: int
    failed: int
    total: int | None
    elapsed_seconds: float
    share: float | None = None


Watch = Union[bool, Callable[[Progress], None]]
"""`True` draws a bar on stderr if that is a terminal; a function is called with each `Progress`."""


class Reporter:
    """Shows each change of the progress until it is closed."""

    def __init__(self, show: Callable[[Progress], None], close: Callable[[], None] = lambda: None) -> None:
        self._begun = time.monotonic()
        self._show = show
        self._close = close
        self._last: tuple[int, int, int | None, float | None] | None = None

    def show(self, processed: int, failed: int, total: int | None, share: float | None) -> None:
        """Shows these numbers of documents, unless they are those shown last."""
        if (processed, failed, total, share) != self._last:
            self._last = (processed, failed, total, share)
            self._show(Progress(processed, failed, total, time.monotonic() - self._begun, share))

    def show_job(self, job: Job) -> None:
        """Shows the documents of a job."""
        self.show(job.processed_documents, job.failed_documents, job.total_documents, job.progress)

    def close(self) -> None:
        """Ends the line of a bar."""
        self._close()


def reporter(watch: Watch) -> Reporter:
    """What shows the progress as `watch` asks for."""
    if callable(watch):
        return Reporter(watch)
    if watch and sys.stderr is not None and sys.stderr.isatty():
        bar = _Bar(sys.stderr)
        return Reporter(bar.draw, bar.end)
    return Reporter(lambda progress: None)


class _Bar:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_drawn = False

    def draw(self, progress: Progress) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._stream.write("\r" + line(progress)[:width].ljust(width))
        self._stream.flush()
        self._is_drawn = True

    def end(self) -> None:
        if self._is_drawn:
            self._stream.write("\n")
            self._stream.flush()


def line(progress: Progress) -> str:
    """The progress in one line."""
    done = progress.processed + progress.failed
    count = f"{done} documents" if progress.total is None else f"{done}/{progress.total} documents"
    failed = f", {progress.failed} failed" if progress.failed else ""
    share = max(done / progress.total, progress.share or 0.0) if progress.total else 0.0
    filled = min(_BAR_CHARACTERS, int(_BAR_CHARACTERS * share))
    bar = "" if progress.total is None else f"[{'#' * filled}{'.' * (_BAR_CHARACTERS - filled)}] "
    return f"{bar}{count}{failed}, {progress.elapsed_seconds:.0f} s"
