"""Where a measured number comes from: the command, the seeds, the date, the machine and the versions.

    write_json("results/speed.json", {"provenance": provenance("python benchmarks/generation.py", seeds=[0]), ...})

Every file in results/ carries it. No host name and no path of the machine is told.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("clew", "torch", "numba", "numpy")


def provenance(command: str, seeds: Sequence[int]) -> dict[str, Any]:
    """What to write beside a measured number."""
    return {
        "command": command,
        "seeds": list(seeds),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": git_commit(),
    }


def cpu_model() -> str:
    """The processor's own name where Linux tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def git_commit() -> str | None:
    """The commit of the repository that this very file is tracked in; None for an installed package."""
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    try:
        # An installed copy may lie inside some other repository, whose commit would say nothing.
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], capture_output=True, check=True, timeout=10)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True, timeout=10, text=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip()


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found
