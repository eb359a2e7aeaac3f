"""The peak memory of a fresh process that does one thing.

peak_mb = peak_memory_of(["-m", "clew.benchmarks.cost_memory", "train", ...])    # it prints own_peak_memory_mb()
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def peak_memory_of(arguments: Sequence[str]) -> float:
    """Run Python with these arguments; what it prints is its peak memory in MB, interpreter and compiler included."""
    result = subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return float(result.stdout)


def own_peak_memory_mb() -> float:
    """The most that this process has held so far."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: on Linux a process begins with the peak of the one that started it.
        kilobytes = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(kilobytes) / 1000
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # bytes, on a Mac
