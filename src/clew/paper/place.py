"""Where the trainings, datasets and results of the studies lie, below one root.

    ROOT/runs/reproduce/SCALE/RUN/      a run folder of clew.training, finished.json when it is done, and scores/
    ROOT/data/                          the datasets
    ROOT/results/NAME/SCALE.json        what a study measured, and SCALE.png beside it

A training is named after its settings and nothing else, so studies that ask for the same one share it, and one whose
settings change becomes another one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from clew.data.config import DataConfig
from clew.paper.score import digest
from clew.paper.study import Run, Scale

if sys.platform != "win32":
    import fcntl

# Where a run is computed is no part of what it is.
MACHINE_FIELDS = ("device", "parallel", "threads", "compile", "micro_batch", "timeout_hours")


@dataclass(frozen=True)
class Place:
    """The folders of one scale."""

    root: Path
    scale: Scale

    def settled(self, run: Run) -> Run:
        """The run with its dataset below the root, under a name that also tells how many mazes it has."""
        data = run.config.data
        if data.source != "dataset":
            return run
        folder = self.root / "data" / data.dataset_folder.name
        if self.scale != "paper":  # the paper's datasets are those of its configs
            folder = folder.with_name(f"{replace(data, folder='').dataset_folder.name}-{data.mazes}")
        return replace(run, config=replace(run.config, data=replace(data, folder=str(folder))))

    def run(self, run: Run) -> Path:
        """The folder of a run."""
        config = run.config.to_json()
        settings = {name: value for name, value in config.items() if name not in MACHINE_FIELDS}
        settings["data"] = settings["data"] | {"folder": "", "batches": batches_of(run.config.data)}
        data = run.config.data
        words = [
            data.family,
            *map(str, data.sizes[-1:]),
            data.format,
            run.config.objective.name,
            f"seed{run.config.seed}",
        ]
        name = "-".join([*words, digest([settings, run.train_mazes])])
        return self.root / "runs" / "reproduce" / self.scale / name

    def result(self, study: str) -> Path:
        """What a study measured."""
        return self.root / "results" / study / f"{self.scale}.json"


def batches_of(data: DataConfig) -> str:
    """How the mazes of a step are chosen, in words; a run that was trained otherwise is another run.

    Before version 0.2, batches of a dataset were "length buckets": mazes of similar length.
    """
    return "fresh mazes" if data.source == "stream" else "shuffled"


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Wait until no other command works on this run, so that two studies at once can share it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".{folder.name}.lock"), "w") as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
