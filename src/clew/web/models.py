"""The models that the page offers, by name: shipped ones, and runs below a folder.

    models = ModelStore(Path("runs"))
    models.listed()[0]["name"]
    models.load("cells-dfs")

A request names a model as it is listed; it is never used as a path.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from clew.decoding.decode import decoders_for, default_decoder, is_causal
from clew.errors import UserError
from clew.models.cell_network import CellNetwork
from clew.trained import TrainedModel, load, shipped_models
from clew.training.checkpoint import CONFIG_FILE
from clew.training.train import Run
from clew.web.payloads import NotFound

MAX_LOADED = 8


class ModelStore:
    """Loads models when they are first used and keeps the last few."""

    def __init__(self, runs: Path | None = None) -> None:
        self.runs_folder = runs
        self._loaded: OrderedDict[tuple[str, float], TrainedModel] = OrderedDict()
        self._lock = threading.Lock()

    def runs(self) -> dict[str, Path]:
        """Return the folders of the runs, by their names below the folder."""
        if self.runs_folder is None or not self.runs_folder.is_dir():
            return {}
        found = sorted(self.runs_folder.glob(f"**/{CONFIG_FILE}"))
        return {str(file.parent.relative_to(self.runs_folder)): file.parent for file in found}

    def sources(self) -> dict[str, Path]:
        """Return the folder of every model; a run does not replace a shipped model of the same name."""
        return self.runs() | shipped_models()

    def listed(self) -> list[dict[str, Any]]:
        """Return the description of every model that can be loaded."""
        found = []
        for name in self.sources():
            try:
                found.append(self.describe(name))
            except (UserError, OSError):
                continue  # a run without a checkpoint, or a damaged one: `clew runs` says what is wrong
        return sorted(found, key=lambda model: (not model["shipped"], model["name"]))

    def describe(self, name: str) -> dict[str, Any]:
        """Return what the page shows of a model."""
        model = self.load(name)
        return {
            "name": name,
            "shipped": name in shipped_models(),
            "summary": f"{model.parameters:,} parameters, {model.tasks}",
            "family": model.family,
            "height": model.height,
            "width": model.width,
            "format": model.codec.format_name,
            "objective": "next token" if is_causal(model.model) else "MLM-U",
            "parameters": model.parameters,
            "decoders": list(decoders_for(model.model, model.codec)),
            "default_decoder": default_decoder(model.codec),
            "loops": isinstance(model.model, CellNetwork),
        }

    def load(self, name: str) -> TrainedModel:
        """Return a model, loaded again if its run has a newer checkpoint."""
        folder = self.sources().get(name)
        if folder is None:
            raise NotFound(f"there is no model {name!r}; GET /api/models lists them.")
        checkpoints = folder / "checkpoints"
        key = (name, checkpoints.stat().st_mtime if checkpoints.is_dir() else 0.0)
        with self._lock:
            if key not in self._loaded:
                for old in [other for other in self._loaded if other[0] == name]:
                    del self._loaded[old]
                self._loaded[key] = load(folder)
            self._loaded.move_to_end(key)
            while len(self._loaded) > MAX_LOADED:
                self._loaded.popitem(last=False)
            return self._loaded[key]

    def run(self, name: str) -> Run:
        """Return a run by its listed name."""
        folder = self.runs().get(name)
        if folder is None:
            raise NotFound(f"there is no run {name!r}; GET /api/runs lists them.")
        return Run(folder)
