"""The commands of `clew`, one typed function each, and what several of them use."""

from __future__ import annotations

import functools
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clew.errors import UserError, is_quiet, printable

HEARTBEAT = 30.0  # seconds between two lines where there is no terminal
_typed: list[str] = []


def set_command(arguments: Sequence[str]) -> None:
    """Keep the arguments of the command that runs, for `typed_command`."""
    _typed[:] = arguments


def typed_command() -> str:
    """Return the command line that was given, for the provenance of its numbers."""
    return shlex.join(["clew", *_typed])


def check_files(*files: str) -> None:
    """Raise UserError if a file of mazes does not exist: this needs no torch, and no model to be loaded."""
    for file in files:
        if file != "-" and not Path(file).exists():
            raise UserError(f"cannot read {file!r}: No such file or directory; give the name of a file, or -.")


@contextmanager
def progress_bar(description: str, total: int | None, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Show how much is done: a bar on a terminal, elsewhere a line on stderr every half minute.

    Yields a function that takes how much is done, or how many bytes more.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    counter = DownloadColumn() if in_bytes else MofNCompleteColumn()
    console, description = Console(stderr=True), printable(description)
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), counter, TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=is_quiet() or not console.is_terminal) as bar:
        task = bar.add_task(description, total=total)
        ended, began = threading.Event(), time.monotonic()

        def print_lines() -> None:
            while not ended.wait(HEARTBEAT):
                share = f"{bar.tasks[task].completed:,.0f}" + (f" of {total:,}" if total else "")
                seconds = time.monotonic() - began
                print(f"clew: {description}: {share} after {seconds:.0f} s", file=sys.stderr, flush=True)

        lines = threading.Thread(target=print_lines, daemon=True)
        if not is_quiet() and not console.is_terminal:
            lines.start()
        try:
            yield lambda done: bar.advance(task, done) if in_bytes else bar.update(task, completed=done)
        finally:
            ended.set()


def format_table(rows: Sequence[Sequence[str]], left: int = 2) -> str:
    """Return rows of words in aligned columns; all but the first `left` columns are aligned to the right."""
    rows = [[printable(word) for word in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [w.ljust(n) if i < left else w.rjust(n) for i, (w, n) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


@functools.cache
def announce_compilation() -> None:
    """Print one line on stderr when numba compiles a kernel that is not in its cache: the first time takes long."""
    if is_quiet():
        return
    from numba.core import event

    class Announce(event.Listener):
        announced = False

        def on_start(self, event: object) -> None:
            if not self.announced:
                self.announced = True
                print("clew: compiling kernels; this takes up to half a minute, once.", file=sys.stderr, flush=True)

        def on_end(self, event: object) -> None:
            pass

    event.register("numba:compile", Announce())  # type: ignore[no-untyped-call]
