"""The demo as one HTML page: accuracy by size, training curve, and mazes that were solved and missed.

write_demo_page("demo/demo.html", DemoPage(provenance("clew demo", [1]), trials, learnt=[(0.5, 0.83), (2.0, 0.99)]))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from clew.evaluation.scores import Evaluation, Outcome
from clew.files import PathLike
from clew.viz.charts import Panel, Point, Series
from clew.viz.pages import (
    charts,
    document,
    gallery,
    maze_legend,
    maze_list,
    milliseconds,
    page_header,
    percent_point,
    result_of,
    section,
    table,
    write_html,
)

EXACT_SHOWN, OTHERS_SHOWN, MISSED_SHOWN = 4, 2, 4  # mazes of each trial
_NOTE = (
    "Exact: the path is the stored one. Shortest: a path from start to goal that none is shorter than; A* mazes often "
    "have several. No maze here was trained on."
)
HEAD = ("model", "mazes", "exact", "exact %", "95 %", "shortest %", "passes", "ms")


@dataclass(frozen=True)
class Trial:
    """A model's answers to tasks of one kind and size."""

    tasks: str  # such as `DFS 10x10`
    side: int | None  # None for tasks without a size
    evaluation: Evaluation

    def row(self) -> list[str]:
        """Return the texts of the columns HEAD."""
        each, exact = self.evaluation, self.evaluation.exact
        counts = [f"{exact.hits:,} of {exact.count:,}", f"{100 * exact.share:.1f}"]
        counts += [f"{100 * exact.low:.1f} to {100 * exact.high:.1f}", f"{100 * each.scores.shortest.share:.1f}"]
        return [each.name, self.tasks, *counts, f"{each.scores.passes:.1f}", milliseconds(each)]


@dataclass(frozen=True)
class DemoPage:
    """Content of the page."""

    origin: dict[str, Any]  # of clew.provenance
    trials: Sequence[Trial]
    learnt: Sequence[tuple[float, float]]  # minutes of training, and the share of held-out mazes solved exactly
    notes: Sequence[str] = ()  # sentences below the title


def write_demo_page(file: PathLike, page: DemoPage) -> None:
    """Write the page, wholly or not at all."""
    sizes: dict[str, list[Point]] = {}
    for trial in page.trials:
        if trial.side is not None:
            points = sizes.setdefault(trial.evaluation.name, [])
            points.append(percent_point(float(trial.side), trial.evaluation.exact))
    learnt = [Series("", [Point(minutes, 100 * exact) for minutes, exact in page.learnt])]
    rows = [list(map(escape, trial.row())) for trial in page.trials]
    panels = [
        Panel("Exact path, by size of the maze", "cells a side", "exact %", [Series(*each) for each in sizes.items()]),
        Panel("The cell network trained by this command, on held-out mazes", "minutes of training", "exact %", learnt),
    ]
    body = [section("Accuracy", table(HEAD, rows), _NOTE), charts(panels)]
    body += ["<h2>Mazes</h2>", maze_legend(), '<p class="note">Of the exact ones, those with the longest paths.</p>']
    body += map(_mazes, page.trials)
    title = "Clew: a model that learns to plan, and mazes of growing size"
    write_html(file, document(title, page_header(page.notes, page.origin), "".join(body)))


def _mazes(trial: Trial) -> str:
    """Return the counts of the table, drawn mazes, and a row for every maze."""
    outcomes = trial.evaluation.outcomes
    exact = sorted((each for each in outcomes if each.exact), key=lambda each: -each.length)
    others = [each for each in outcomes if each.shortest and not each.exact]
    missed = [each for each in outcomes if not each.shortest]
    shown = [*exact[:EXACT_SHOWN], *others[:OTHERS_SHOWN], *missed[:MISSED_SHOWN]]
    counts = f"{len(exact):,} exact, {len(others):,} another shortest path, {len(missed):,} missed"
    name = escape(f"{trial.evaluation.name}: {trial.tasks}, {trial.evaluation.decoder}")
    title = f'{name} <span class="quiet">{counts}</span>'
    return f"<section><h3>{title}</h3>{gallery(shown, _caption)}{maze_list(outcomes)}</section>"


def _caption(outcome: Outcome) -> str:
    missed = "" if outcome.shortest else "missed: "
    return f"{missed}{result_of(outcome)}, {outcome.length} {outcome.task.maze.cell_word}s"
