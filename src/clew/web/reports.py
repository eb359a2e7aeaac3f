"""What the pages of runs and results show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.errors import UserError
from clew.paper.page import main_verdicts, read_results
from clew.paper.studies import STUDIES
from clew.paper.verdict import converged_only
from clew.training.train import Run
from clew.web.models import ModelStore

MAX_POINTS = 400


def run_rows(store: ModelStore) -> list[dict[str, Any]]:
    """Return a row for each run; a run that cannot be read says so in its progress."""
    rows = []
    for name in store.runs():
        try:
            rows.append(run_row(name, store.run(name)))
        except (UserError, OSError) as error:
            rows.append({"name": name, "model": "", "objective": "", "mazes": "", "progress": str(error)})
    return rows


def run_row(name: str, run: Run) -> dict[str, Any]:
    """Return what the table shows of one run."""
    config, metrics = run.config, run.metrics
    steps = [row for row in metrics if "loss" in row]
    scores = [row for row in metrics if "exact" in row]
    last = metrics[-1] if metrics else {}
    sizes = " to ".join(str(size) for size in dict.fromkeys((config.data.sizes[0], config.data.sizes[-1])))
    start = next((row for row in metrics if "parameters" in row), {})
    return {
        "name": name,
        "model": type(config.model).__name__.removesuffix("Config"),
        "objective": config.objective.name,
        "mazes": f"{config.data.family} {sizes}",
        "parameters": start.get("parameters"),
        "progress": f"step {last.get('step', 0):,}",
        "loss": steps[-1]["loss"] if steps else None,
        "exact": scores[-1]["exact"] if scores else None,
    }


def run_json(run: Run) -> dict[str, Any]:
    """Return the config and the curves of a run."""
    batch = run.config.batch_size

    def curve(key: str) -> list[list[float]]:
        points = [[row.get("mazes", row["step"] * batch), row[key]] for row in run.metrics if key in row]
        return thinned(points)

    return {"config": run.config.to_json(), "curves": {"loss": curve("loss"), "exact": curve("exact")}}


def thinned(points: Sequence[list[float]]) -> list[list[float]]:
    """Return at most MAX_POINTS of the points, the last one among them."""
    step = max(1, -(-len(points) // MAX_POINTS))
    return [*points[:-1:step], *points[-1:]]


def result_json(folder: Path) -> dict[str, Any]:
    """Return the verdicts on the paper's main claims, and what the converged runs of every study measured."""
    results = read_results(folder)
    claims = [
        {"verdict": main.verdict, "text": f"{main.claim.text} ({main.claim.paper})"} for main in main_verdicts(results)
    ]
    studies = []
    for name, result in results.items():
        study, shown = STUDIES[name], converged_only(result)
        # Runs that did not converge are not shown, as in docs/results.md.
        measured = bool(shown.runs) or not result.runs
        findings = [finding for finding in study.findings(result) if not finding.not_converged]
        studies.append(
            {
                "title": study.title,
                "question": study.question,
                "paper": study.paper,
                "converged": measured,
                "findings": [{"verdict": f.verdict, "text": f"{f.claim.text}. {f.because}"} for f in findings],
                "tables": [{"title": t.title, "rows": t.rows} for t in study.report(shown).tables] if measured else [],
                "picture": f"/api/results/{name}.png" if measured and any((folder / name).glob("*.png")) else None,
            }
        )
    return {"folder": str(folder), "claims": claims, "studies": studies}
