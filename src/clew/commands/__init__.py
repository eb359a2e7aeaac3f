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
arguments_given: list[str] = []  # the arguments of the command that runs


def typed_command() -> str:
    """Return the command line that was given, for the provenance of its numbers."""
    return shlex.join(["clew", *arguments_given])


def print_line(line: str) -> None:
    """Print a line; control characters in names of files are written as escapes."""
    print(printable(line), flush=True)


def check_files(*files: str) -> None:
    """Raise UserError if a file of mazes does not exist: this needs no torch, and no model to be loaded."""
    for file in files:
        if file != "-" and not Path(file).exists():
            raise UserError(f"cannot read {file!r}: No such file or directory; give the name of a file, or -.")


class ReportedErrors(list[str]):
    """Sentences about mazes that cannot be used; each is printed when it comes, and any makes the exit code 1."""

    def __call__(self, sentence: str) -> None:
        self.append(sentence)
        report_error(sentence)


@contextmanager
def progress_bar(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows how much is done: a bar on a terminal, elsewhere a line every half minute."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    has_bar = console.is_terminal and not is_quiet()
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not has_bar)
    task = bar.add_task(escape(printable(description)), total=total)
    ended, began = threading.Event(), time.monotonic()

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
    columns = []
    for i, column in enumerate(zip(*rows, strict=True)):
        words = [printable(word) for word in column]
        width = max(map(len, words))
        columns.append([word.ljust(width) if i < left else word.rjust(width) for word in words])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))
