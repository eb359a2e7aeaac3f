"""All studies by name, read from studies.toml: those of the paper's tables and figures in its order, then our own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clew.paper.results import Pivot, paper_table
from clew.paper.studies import cells, path_lengths, path_star, text
from clew.paper.studies.tables import COLUMNS, REPORTS
from clew.paper.study import RunScale, RunSpec, Study
from clew.paper.verdict import Comparison

RUNS: dict[str, Callable[[RunScale], list[RunSpec]]] = {
    "accuracy-by-size": text.accuracy_runs,
    "astar": text.astar_runs,
    "data-efficiency": text.efficiency_runs,
    "convergence": text.convergence_runs,
    "overfitting": text.overfitting_runs,
    "model-size": text.model_size_runs,
    "position-precision": text.precision_runs,
    "architectures": text.architecture_runs,
    "rates-and-decays": text.sweep_runs,
    "ordered-masks": text.ordered_runs,
    "smaller-mazes": text.smaller_runs,
    "failures": text.failure_runs,
    "path-lengths": lambda scale: [],
    "path-star": path_star.path_star_runs,
    "path-star-variants": path_star.variant_runs,
    "decoders": cells.decoder_runs,
    "mask-rates": text.sampler_runs,
    "position-encodings": text.position_runs,
    "objective-on-cells": cells.objective_runs,
}


def _table(title: str = "", paper: list[str] | None = None, report: str = "", **options: Any) -> Any:
    """Return a table of the paper, a report of clew.paper.studies.tables, or a Pivot."""
    if paper:
        return paper_table(title, *paper)
    columns = options.pop("columns", "")
    return REPORTS[report] if report else Pivot(columns=COLUMNS.get(columns, columns), title=title, **options)


def _study(name: str, tables: Sequence[dict[str, Any]], claims: Sequence[dict[str, Any]] = (), **texts: Any) -> Study:
    measure = path_lengths.measured if name == "path-lengths" else None
    parts, tests = [_table(**table) for table in tables], [Comparison(**claim) for claim in claims]
    return Study(name, RUNS[name], parts, tests, measure, **texts)


_TEXTS = tomllib.loads(Path(__file__).with_name("studies.toml").read_text(encoding="utf-8"))
MAIN_CLAIMS: dict[str, dict[str, str]] = _TEXTS["main"]  # by key: its text, the paper's numbers, and a study
RULES: str = "\n" + _TEXTS["rules"]  # what docs/results.md says of verdicts
STUDIES = {name: _study(name, **entry) for name, entry in _TEXTS["studies"].items()}
