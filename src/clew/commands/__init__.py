"""The commands of `clew`, one typed function each, and what several of them use."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clew.errors import UserError, is_quiet, printable, report_error

HEARTBEAT = 30.0  # seconds between two lines where there is no terminal
typed: list[str] = []  # the arguments of the command that runs


def typed_command() -> str:
    """Return the command line that was given, for the provenance of its numbers."""
    return shlex.join(["clew", *typed])


def say(line: str) -> None:
    """Print a line in which names of files are safe to show."""
    print(printable(line), flush=True)


def check_files(*files: str) -> None:
    """Raise UserError if a file of mazes does not exist: this needs no torch, and no model to be loaded."""
    for file in files:
        if file != "-" and not Path(file).exists():
            raise UserError(f"cannot read {file!r}: No such file or directory; give the name of a file, or -.")


class Refused(list[str]):
    """Sentences about mazes that cannot be used; each is printed when it comes, and any makes the exit code 1."""

    def __call__(self, sentence: str) -> None:
        self.append(sentence)
        report_error(sentence)


@contextmanager
def progress_bar(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how much is done: a bar on a terminal, elsewhere a line on stderr every half minute.

    Yields a function that takes how much is done.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console, description = Console(stderr=True), printable(description)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    has_bar = console.is_terminal and not is_quiet()
    bar = Progress(
        TextColumn("{task.description}", markup=False), *columns, console=console, transient=True, disable=not has_bar
    )
    task, ended, began = bar.add_task(description, total=total), threading.Event(), time.monotonic()

    def print_lines() -> None:
        while not ended.wait(HEARTBEAT):
            share = f"{bar.tasks[task].completed:,.0f}" + (f" of {total:,}" if total else "")
            report_error(f"{description}: {share} after {time.monotonic() - began:.0f} s")

    if not has_bar and not is_quiet():
        threading.Thread(target=print_lines, daemon=True).start()
    with bar:
        try:
            yield lambda done: bar.update(task, completed=done)
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
