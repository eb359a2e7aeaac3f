"""Provenance of a measured number: command, seeds, date, machine and versions; no host name and no path."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clew import __version__


def provenance(command: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Return what is written beside a measured number."""
    packages = {name: version(name) for name in ("torch", "numba", "numpy")}
    return {
        "command": command,
        "seeds": list(seeds),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "versions": {"python": platform.python_version(), "clew": __version__, **packages},
        "commit": git_commit(),
    }


def cpu_model() -> str:
    """Return the processor's name where Linux has it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def git_commit() -> str | None:
    """Return the commit of the repository that tracks this file; None for an installed package."""
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    try:
        # An installed copy may lie inside some other repository, whose commit would say nothing.
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], capture_output=True, check=True, timeout=10)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True, timeout=10, text=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip()
