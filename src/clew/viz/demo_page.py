"""The demo as one HTML page that needs nothing else: accuracy by size, and mazes that were solved and missed.

write_demo_page("demo/demo.html", DemoPage(provenance("clew demo", [1]), trials, learnt=[(0.5, 0.83), (2.0, 0.99)]))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from clew.evaluation.intervals import Proportion
from clew.evaluation.scores import Evaluation, Outcome
from clew.files import PathLike
from clew.viz.charts import COLOURS, Axes, Dot, Series, chart_svg
from clew.viz.pages import (
    chart,
    document,
    gallery,
    legend,
    maze_legend,
    maze_list,
    origin_line,
    paragraphs,
    percent,
    result_of,
    section,
    table,
    write_html,
)

FAMILY_NAMES = {"dfs": "DFS", "astar": "A*"}
EXACT_SHOWN, OTHERS_SHOWN, MISSED_SHOWN = 4, 2, 4  # mazes of each size
TITLE = "Clew: a model that learns to plan, and mazes of growing size"


@dataclass(frozen=True)
class Trial:
    """A model's answers to mazes of one kind and size."""

    model: str
    family: str
    side: int
    evaluation: Evaluation

    @property
    def mazes(self) -> str:
        """Such as `DFS 10x10`."""
        return f"{FAMILY_NAMES.get(self.family, self.family)} {self.side}x{self.side}"


@dataclass(frozen=True)
class DemoPage:
    """What is on the page."""

    origin: dict[str, Any]  # of clew.provenance
    trials: Sequence[Trial]
    learnt: Sequence[tuple[float, float]]  # minutes of training, and the share of held-out mazes solved by then
    notes: Sequence[str] = field(default_factory=tuple)  # sentences below the title


def write_demo_page(file: PathLike, page: DemoPage) -> None:
    """Write the page, wholly or not at all."""
    write_html(file, page_html(page))


def page_html(page: DemoPage) -> str:
    """The page as text."""
    models = {model: COLOURS[i % len(COLOURS)] for i, model in enumerate(_models(page.trials))}
    header = paragraphs(page.notes) + origin_line(page.origin) + legend(models)
    learnt = [Dot(x, y, y, y, f"{x:.1f} minutes: {100 * y:.1f} %") for x, y in page.learnt]
    body = [
        section("Accuracy", _accuracy(page.trials), _NOTE),
        '<div class="charts">',
        chart("Exact path, by the size of the maze", _by_size(page.trials)),
        chart(
            "The model trained just now: exact path on held-out mazes, one pass",
            chart_svg([Series("", learnt)], Axes("minutes of training", "exact path", x_from=0)),
        ),
        "</div>",
        "<h2>Mazes</h2>",
        maze_legend(),
        '<p class="note">Of the exact ones, those with the longest paths.</p>',
        *[_pictures(trial) for trial in page.trials],
    ]
    return document(TITLE, header, "".join(body))


_NOTE = (
    "Exact: the path is the stored one. Shortest: a way from start to goal that none is shorter than; A* mazes often "
    "have several. Small numbers: 95 % interval. No maze here was trained on."
)


def _models(trials: Sequence[Trial]) -> list[str]:
    return list(dict.fromkeys(trial.model for trial in trials))


def _accuracy(trials: Sequence[Trial]) -> str:
    rows = []
    for trial in trials:
        scores = trial.evaluation.scores
        rows.append(
            [
                escape(trial.model),
                escape(trial.mazes),
                f"{scores.exact.hits:,} of {scores.mazes:,}",
                percent(scores.exact),
                percent(scores.shortest),
                escape(trial.evaluation.decoder),
                f"{scores.passes:.1f}",
                f"{1000 * trial.evaluation.seconds / max(1, scores.mazes):.0f}",
            ]
        )
    return table(["model", "mazes", "exact", "exact %", "shortest %", "decoder", "passes", "ms a maze"], rows)


def _by_size(trials: Sequence[Trial]) -> str:
    series = [Series(model, [_dot(trial) for trial in trials if trial.model == model]) for model in _models(trials)]
    return chart_svg(series, Axes("cells a side", "exact path", x_from=0))


def _dot(trial: Trial) -> Dot:
    exact: Proportion = trial.evaluation.scores.exact
    note = f"{trial.model}, {trial.mazes}: {exact}, {exact.hits:,} of {exact.count:,}"
    return Dot(trial.side, exact.share, exact.low, exact.high, note)


def _pictures(trial: Trial) -> str:
    """The counts of the table, drawn mazes, and a row for every maze."""
    outcomes = trial.evaluation.outcomes
    exact = sorted((each for each in outcomes if each.exact), key=lambda each: -each.length)
    others = [each for each in outcomes if each.shortest and not each.exact]
    missed = [each for each in outcomes if not each.shortest]
    shown = [*exact[:EXACT_SHOWN], *others[:OTHERS_SHOWN], *missed[:MISSED_SHOWN]]
    counts = f"{len(exact):,} exact, {len(others):,} another shortest path, {len(missed):,} missed"
    title = f'{escape(f"{trial.model}: {trial.mazes}")} <span class="quiet">{counts}</span>'
    return f"<section><h3>{title}</h3>{gallery(shown, _caption)}{maze_list(outcomes)}</section>"


def _caption(outcome: Outcome) -> str:
    missed = "" if outcome.shortest else "missed: "
    return f"{missed}{result_of(outcome)}, {outcome.length} cells"
