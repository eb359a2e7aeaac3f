"""Provenance of a measured number: command, seeds, date, machine and versions; no host name and no path."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
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
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "versions": {"python": platform.python_version(), "clew": __version__, **packages},
        "commit": _git_commit(),
    }


def _cpu_model() -> str:
    with suppress(OSError):
        if name := re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            return name[1]
    return platform.processor() or platform.machine()


def _git_commit() -> str | None:
    """Return the commit of the repository that tracks this file; None for an installed package."""
    here = Path(__file__)
    git: Any = {"cwd": here.parent, "capture_output": True, "check": True, "timeout": 10, "text": True}
    with suppress(OSError, subprocess.SubprocessError):
        # An installed copy may lie inside some other repository, whose commit would say nothing.
        subprocess.run(["git", "ls-files", "--error-unmatch", here.name], **git)
        return str(subprocess.run(["git", "rev-parse", "HEAD"], **git).stdout).strip()
    return None
