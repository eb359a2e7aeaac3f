"""Helpers that the benchmark scripts share: timing, peak memory, the command line and the report's file."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clew.files import write_json

SEED = 0
FEWEST_RUNS = 2
FAMILIES = {"dfs": "DFS", "astar": "A*"}


def fastest(work: Callable[[], object], seconds: float, clock: Callable[[], float]) -> float:
    """The time of the fastest of several runs that together take about `seconds`; slower ones were interrupted."""
    took: list[float] = []
    begin = time.perf_counter()
    while len(took) < FEWEST_RUNS or time.perf_counter() - begin < seconds:
        began = clock()
        work()
        took.append(clock() - began)
    return min(took)


def peak_memory_of(arguments: Sequence[str]) -> float:
    """Return the MB that a fresh Python process prints; it prints its own `own_peak_memory_mb()`."""
    result = subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return float(result.stdout)


def own_peak_memory_mb() -> float:
    """Return the peak memory of this process so far, interpreter and compiler included."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: on Linux a process begins with the peak of the one that started it.
        kilobytes = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(kilobytes) / 1000
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # bytes, on a Mac


def announce(text: str) -> None:
    print(f"measuring: {text}", file=sys.stderr)


def command_line() -> str:
    """The command that started this process."""
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def save(out: Path, report: dict[str, Any]) -> None:
    """Write a report; its folder is made if it is missing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_json(out, report)
    print(out)
