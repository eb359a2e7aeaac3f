"""Start a command of Clew as several processes of this machine, one for each GPU: what torchrun does.

    if gpus_here() > 1 and not launched():
        sys.exit(launch(gpus_here(), ["reproduce", "astar", "--scale", "paper"]))

The processes print what they have to say themselves. A signal is passed on to all of them, so that they save and stop.
If one of them is lost, the others are ended.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import uuid
from collections.abc import Sequence


def gpus_here() -> int:
    """The number of visible GPUs."""
    import torch

    return torch.cuda.device_count()


def launched() -> bool:
    """Whether this process is one of several that torchrun, Slurm or `launch` has started."""
    return "RANK" in os.environ


def launch(processes: int, arguments: Sequence[str]) -> int:
    """Run `clew ARGUMENTS` in so many processes; the exit code of the first one that fails, or 0."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // processes, 1)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    logging.disable(logging.ERROR)  # else torch prints a page for each lost process
    try:
        elastic_launch(config, sys.executable)("-m", "clew", *arguments)
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    except ChildFailedError as failed:
        rank, failure = failed.get_first_failure()
        if failure.exitcode >= 0:
            return int(failure.exitcode)
        name = signal.Signals(-failure.exitcode).name
        print(
            f"clew: rank {rank} of {processes} was ended by {name} (the system does that when memory is short), so "
            "the others were stopped; the same command resumes from the last checkpoint.",
            file=sys.stderr,
        )
        return 128 - int(failure.exitcode)
    finally:
        logging.disable(logging.NOTSET)
    return 0
