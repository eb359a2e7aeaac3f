"""One of several processes that train together; see test_distributed.py.

python shared_worker.py RANK WORLD_SIZE PORT FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tiny_runs import mean_weight, tiny_config

from clew.data.config import DataConfig
from clew.errors import UserError
from clew.models.config import CellNetworkConfig
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.training.callbacks import Callback, StepReport
from clew.training.config import OptimizerConfig
from clew.training.distributed import World, joined_world
from clew.training.train import train

ADAPTIVE = ObjectiveConfig("mlm-u", RateConfig("adaptive", "stratified", adaptive_bins=3))
# A share so small that in most steps one of two processes has no such row.
CONFIDENCE = ObjectiveConfig("mlm-u", RateConfig(sampling="stratified", fully_hidden=0.2), confidence_share=0.15)
GROWING = DataConfig(sizes=(3, 4), format="cell-labels", mixture="grow", grow_steps=4)
CELLS = CellNetworkConfig(width=16, hidden=16)
CASES = {
    "average": tiny_config(ema=0.9, micro_batch=2),
    "adaptive": tiny_config(objective=ADAPTIVE, batch_size=7),
    "confidence": tiny_config(objective=CONFIDENCE, batch_size=7),
    # Four mazes for one process and three for the other, one at a time: they make different numbers of passes.
    "uneven": tiny_config(batch_size=7, micro_batch=1),
    "muon": tiny_config(optimizer=OptimizerConfig("muon"), ema=0.9),
    # Weights that are used several times in a pass, and steps of several shapes.
    "cells": tiny_config(data=GROWING, model=CELLS),
}
# Begun by one process, gone on with by two, ended by one.
HANDED_ON = ("average", "muon")


class LeaveAfter(Callback):
    """Gets the process a signal after a step; all processes must leave together, though only the main one gets it."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, report: StepReport) -> None:
        if report.step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def run_part(case: str, run: Path, world: World, until: int) -> None:
    """Go on with a run until a step."""
    end = train(CASES[case], run, evaluate=mean_weight, callbacks=[LeaveAfter(until)], world=world).end
    assert (end.step, end.reason) == (until, "signal")


def main(rank: str, size: str, port: str, folder: str) -> None:
    here = Path(folder)
    place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update(place)
    with joined_world("cpu") as world:
        for case, config in CASES.items():
            train(config, here / "shared" / case, evaluate=mean_weight, world=world)
        for case in HANDED_ON:
            run_part(case, here / "handed-on" / case, world, until=4)
        try:  # an error reaches every process, and nobody is left waiting
            train(CASES["average"], here / "shared" / "average", world=world, resume="never")
        except UserError as error:
            print(error)
        assert group_threads() or sys.platform != "linux"  # so that the next line can fail
    assert not group_threads()


def group_threads() -> list[str]:
    """The threads of gloo's process groups; one that outlives the interpreter may abort the process."""
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if "gloo" in name]


if __name__ == "__main__":
    main(*sys.argv[1:])
