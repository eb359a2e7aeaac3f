"""One of several processes that train together; see test_distributed.py.

python shared_worker.py RANK WORLD_SIZE PORT FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tiny_runs import mean_weight, tiny_config

from clew.errors import UserError
from clew.models.cell_network import CellNetworkConfig
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.training.config import DataConfig
from clew.training.distributed import World, joined_world
from clew.training.loop import train
from clew.training.observer import LinePrinter, StepReport
from clew.training.optimizers import OptimizerConfig

DWELL = ObjectiveConfig("mlm-u", RateConfig("dwell", "stratified", dwell_bins=3))
GROWING = DataConfig(sizes=(3, 4), format="cell-labels", mixture="grow", grow_steps=4)
CELLS = CellNetworkConfig(width=16, hidden=16)
CASES = {
    "ddp": tiny_config(ema=0.9, accumulation=2),
    "ddp-dwell": tiny_config(objective=DWELL, batch_size=7),
    "fsdp": tiny_config(parallel="fsdp", ema=0.9, accumulation=2),
    "fsdp-muon": tiny_config(parallel="fsdp", optimizer=OptimizerConfig("muon")),
    # Weights that are used several times in a pass, and steps of several shapes.
    "ddp-cells": tiny_config(data=GROWING, model=CELLS),
    "fsdp-cells": tiny_config(data=GROWING, model=CELLS, parallel="fsdp"),
}
# Begun by one process, gone on with by two, ended by one.
HANDED_ON = ("ddp", "fsdp")


class LeaveAfter(LinePrinter):
    """Gets the process a signal after a step; all processes must leave together, though only the main one gets it."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def on_step(self, report: StepReport) -> None:
        if report.step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def run_part(case: str, run: Path, world: World, until: int) -> None:
    """Go on with a run until a step."""
    end = train(CASES[case], run, evaluate=mean_weight, observers=[LeaveAfter(until)], world=world)
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
        try:  # a mistake is told to all, and nobody is left waiting
            train(CASES["ddp"], here / "shared" / "ddp", world=world, resume="never")
        except UserError as error:
            print(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
    # All is written and the group is left. Once a worker was aborted after this ("terminate called without an active
    # exception"), which is not about what is tested here; why was not found out.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
