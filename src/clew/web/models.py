"""What the page lists: models, runs and measured results.

A request names a model or run as it is listed; the name is never used as a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from clew.decoding.decode import decoders_for, default_decoder, is_causal
from clew.errors import UserError
from clew.files import read_json, to_plain
from clew.models.cell_network import CellNetwork
from clew.paper.page import main_verdicts, read_results
from clew.paper.results import Report, Result
from clew.paper.studies import STUDIES
from clew.paper.study import parameters_of
from clew.paper.verdict import converged_only
from clew.registry import shipped_models
from clew.trained import TrainedModel, load
from clew.training.callbacks import find_runs, run_status
from clew.training.checkpoint import load_config
from clew.web.solving import RequestError, check_running

MAX_LOADED = 8


@lru_cache(MAX_LOADED)
def _load(folder: Path, changed: float) -> TrainedModel:
    """Load a model as it was at a time; a newer checkpoint is loaded again."""
    model = load(folder)
    # A pass over a large maze takes seconds; it ends early too.
    for module in model.model.modules():
        module.register_forward_pre_hook(lambda module, inputs: check_running())
    return model


@cache
def _describe(name: str, folder: Path, changed: float) -> dict[str, Any] | None:
    """Return what the page shows of a model; None if it cannot be loaded (`clew runs` says why)."""
    shipped = name in shipped_models()
    try:
        model = _load(folder, changed)
        objective = "next-token" if is_causal(model.model) else "mlm-u"
        return {
            "name": name,
            "shipped": shipped,
            **{key: getattr(model, key) for key in ("tasks", "family", "height", "width", "parameters")},
            "format": model.codec.format_name,
            "objective": objective if shipped else load_config(folder).objective.name,
            "decoders": list(decoders_for(model.model, model.codec)),
            "default_decoder": default_decoder(model.codec),
            "loops": isinstance(model.model, CellNetwork),
        }
    except (UserError, OSError):  # no checkpoint yet, or a damaged one
        return None


class ModelStore:
    """The models that come with Clew, and those of the runs below a folder."""

    def __init__(self, runs: Path | None) -> None:
        self.folder = runs

    def runs(self) -> dict[str, Path]:
        """Return the folders of the runs, by their names below the folder."""
        if self.folder is None or not self.folder.is_dir():
            return {}
        return {str(run.relative_to(self.folder)): run for run in find_runs(self.folder)}

    def sources(self) -> dict[str, tuple[Path, float]]:
        """Return folder and time of each model; a run does not replace a shipped model of the same name."""
        checkpoints = {name: folder / "checkpoints" for name, folder in self.runs().items()}
        found = {name: (path.parent, path.stat().st_mtime) for name, path in checkpoints.items() if path.is_dir()}
        return found | {name: (folder, 0.0) for name, folder in shipped_models().items()}

    def listed(self) -> list[dict[str, Any]]:
        """Return the description of every model that can be loaded, shipped ones first."""
        found = [_describe(name, *source) for name, source in self.sources().items()]
        return sorted(filter(None, found), key=lambda model: (not model["shipped"], model["name"]))

    def load(self, name: str) -> TrainedModel:
        return _load(*lookup(self.sources(), name, "model"))


def lookup(known: Mapping[str, Any], name: str, kind: str) -> Any:
    """Return what is listed under a name; an error if nothing is."""
    if name not in known:
        raise RequestError(404, f"there is no {kind} {name!r}; GET /api/{kind}s lists them.")
    return known[name]


def run_row(name: str, folder: Path) -> dict[str, Any]:
    """Return what the table shows of a run; one that cannot be read says why in `error`."""
    try:
        config = load_config(folder)
        parameters = parameters_of(config.model)
        return {"name": name, "config": config.to_json(), "parameters": parameters, **run_status(folder)}
    except (UserError, OSError, KeyError, TypeError) as error:
        return {"name": name, "error": str(error), "age": 0}


def result_json(folder: Path) -> dict[str, Any]:
    """Return the measured accuracy of shipped models, the paper's main claims, and every study."""
    results = read_results(folder)
    files = {name: folder / f"{name}.json" for name in sorted(shipped_models())}
    return {
        "folder": str(folder),
        "shipped": {name: read_json(file).get("measured", []) for name, file in files.items() if file.is_file()},
        "claims": [
            {"verdict": main.verdict, "text": main.text, "paper": main.paper} for main in main_verdicts(results)
        ],
        "studies": [_study_json(name, results.get(name), folder) for name in STUDIES],
    }


def _study_json(name: str, result: Result | None, folder: Path) -> dict[str, Any]:
    """Return a study with its tables; only the paper's own ones until a run has converged, as in docs/results.md."""
    study, state, findings = STUDIES[name], "not run yet", []
    tables = [table for part in study.tables if isinstance(part, Report) for table in part.tables]
    if result is not None:
        shown, state = converged_only(result), "no run has converged yet"
        findings = [finding for finding in study.findings(result) if not finding.not_converged]
        if shown.runs or not result.runs:
            state, tables = "measured", list(study.report(shown).tables)
    texts = {"name": name, "title": study.title, "question": study.question, "paper": study.paper, "state": state}
    has_picture = state == "measured" and any((folder / name).glob("*.png"))
    rows = [table._asdict() for table in tables]
    return texts | {"findings": to_plain(findings), "tables": rows, "has_picture": has_picture}
