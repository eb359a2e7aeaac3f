"""`njit`: numba's compiler with a cache folder for each version of the package.

    @njit(nogil=True)
    def kernel(x): ...

numba only notices when the file of the function itself changes, so after an upgrade in place cached code would refer to
modules that no longer exist. The cache is therefore a folder named after the version and the modules of the package:
beside the sources, or else in the user's cache folder, or else a temporary one. NUMBA_CACHE_DIR takes precedence. When
a kernel is compiled that is not in the cache, a line on stderr says so, once.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.extending
from numba.core import config as numba_config
from numba.core import event

from clew import __version__
from clew.errors import is_quiet, report_error

Function = TypeVar("Function", bound=Callable[..., Any])
config: Any = numba_config  # its settings have no types


def njit(**options: Any) -> Callable[[Function], Function]:
    """Return a decorator that compiles a function with a persistent cache; the options are numba's."""

    return lambda function: _with_fixed_identity(numba.njit(cache=True, **options)(function), function)


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return numba's intrinsic of a module's function, which writes code for the compiler; it prefers literal types."""
    return _with_fixed_identity(numba.extending.intrinsic(prefer_literal=True)(function), function)


def _with_fixed_identity(compiled: Any, function: Function) -> Function:
    """Give a compiled function the same id in every process.

    The id is part of the cache key of a closure that calls it; numba's own is random, so the caller would be compiled
    again by every process.
    """
    try:
        values = [cell.cell_contents for cell in function.__closure__ or ()]
        compiled._set_uuid(f"{function.__module__}.{function.__qualname__} {values}")
    except ValueError:  # it calls a function that is defined below it
        pass
    return compiled  # type: ignore[no-any-return]


@functools.cache
def cache_folder() -> str:
    """Return the folder for compiled code, made if it does not exist."""
    package = Path(__file__).parent
    modules = " ".join(sorted(str(file.relative_to(package)) for file in package.rglob("*.py")))
    name = f"numba-{__version__}-{hashlib.sha256(modules.encode()).hexdigest()[:12]}"
    user = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    for parent in (package / "__pycache__", Path(user, "clew")):
        try:
            folder = parent.expanduser() / name  # RuntimeError for a user without a home
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return str(folder)
        except (OSError, RuntimeError):
            continue
    temporary = tempfile.mkdtemp(prefix="clew-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


class _Announcement(event.Listener):
    announced = False

    def on_start(self, event: object) -> None:
        if not self.announced and not is_quiet():
            self.announced = True
            report_error("compiling kernels; this takes up to half a minute, once.")

    def on_end(self, event: object) -> None: ...


config.CACHE_DIR = config.CACHE_DIR or cache_folder()
event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]
