"""All studies by name, read from studies.toml: those of the paper's tables and figures in its order, then our own."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.paper.results import Pivot, paper_table
from clew.paper.studies import cells, path_lengths, path_star, tables, text
from clew.paper.study import Study
from clew.paper.verdict import Comparison

_MODULES = {"cells": cells, "path_lengths": path_lengths, "path_star": path_star, "tables": tables, "text": text}
_TEXTS = tomllib.loads(Path(__file__).with_name("studies.toml").read_text(encoding="utf-8"))


def _function(name: str) -> Any:
    """Return a function by its name, such as text.accuracy_runs."""
    module, function = name.split(".")
    return getattr(_MODULES[module], function)


def _table(title: str = "", paper: Sequence[str] = (), report: str = "", cells: str = "", **options: Any) -> Any:
    """Return a table of the paper, a report, or a Pivot whose columns are a label or the cells of a function."""
    if paper:
        return paper_table(title, *paper)
    columns = {"columns": _function(cells)} if cells else {}
    return _function(report) if report else Pivot(title=title, **columns, **options)


def _study(name: str, tables: Sequence[Any], claims: Sequence[Any] = (), runs: str = "", **texts: Any) -> Study:
    functions: dict[str, Any] = {"runs": _function(runs)} if runs else {}
    if measure := texts.pop("measure", ""):
        functions["measure"] = _function(measure)
    tests = [Comparison(**claim) for claim in claims]
    return Study(name, tables=[_table(**table) for table in tables], claims=tests, **functions, **texts)


MAIN_CLAIMS: dict[str, dict[str, str]] = _TEXTS["main"]  # by key: its text, the paper's numbers, and a study
RULES: str = "\n" + _TEXTS["rules"]  # what docs/results.md says of verdicts
STUDIES = {name: _study(name, **entry) for name, entry in _TEXTS["studies"].items()}
