"""What the demo says on the way.

with step(console, "Drawing 8 of them") as told:
    ...
    told.append("all of them")      # stands before the time, if anything is said
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from clew.viz.demo_page import Trial


@contextmanager
def step(console: Console, what: str) -> Iterator[list[str]]:
    """Say what is being done before it is done, and afterwards what came of it and how long it took."""
    began = time.perf_counter()
    console.print(f"{what} ... ", end="", soft_wrap=True)
    console.file.flush()  # there is no end of line yet that would do it
    told: list[str] = []
    yield told
    words = "".join(f"{word}, " for word in told)
    console.print(f"{words}[green]{time.perf_counter() - began:.1f} s[/]", soft_wrap=True)


def accuracy_table(trials: Sequence[Trial]) -> Table:
    """How many mazes of each size were solved, with 95 % intervals."""
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    table.add_column("mazes", no_wrap=True)
    for name in ("exact", "exact %", "95 %", "shortest", "passes", "ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, trial in enumerate(trials):
        scores = trial.evaluation.scores
        exact = scores.exact
        table.add_row(
            trial.model if number == 0 or trials[number - 1].model != trial.model else "",
            trial.mazes,
            f"{exact.hits} of {exact.count}",
            f"{100 * exact.share:.1f}",
            f"{100 * exact.low:.1f} to {100 * exact.high:.1f}",
            f"{100 * scores.shortest.share:.1f}",
            f"{scores.passes:.1f}",
            f"{1000 * trial.evaluation.seconds / max(1, exact.count):.0f}",
        )
    return table
