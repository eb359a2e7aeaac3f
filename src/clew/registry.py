"""Names: components that are registered from outside the package, and models that ship with it.

    @clew.register("objective", "first-half")
    class FirstHalf:
        def targets(self, batch, noise): ...

Every package looks a name up among its own components first and here second, so a plug-in can add names but not
replace them. Plug-in modules are imported only when the user names them (`--plugin`, an entry point `clew.plugins`,
or an import in Python), never because a file that was read says so.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from clew.errors import UserError
from clew.files import PathLike

Kind = Literal["family", "format", "objective", "mask-rate", "model", "decoder"]
T = TypeVar("T")

# Shipped weights are inside an installed package, or beside the sources.
_SHIPPED = (Path(__file__).parent / "weights", Path(__file__).parents[2] / "weights")
_loaded: list[str] = []  # what `--plugin` named, to be loaded again by other processes of the same command
_components: dict[str, dict[str, Any]] = {kind: {} for kind in get_args(Kind)}


def register(kind: Kind, name: str) -> Callable[[T], T]:
    """Return a decorator that registers a class under a name.

    Example:
        >>> @register("mask-rate", "always-half")
        ... class AlwaysHalf:
        ...     def quantile(self, u):
        ...         return 0 * u + 0.5
        >>> registered("mask-rate", "always-half") is AlwaysHalf
        True
    """
    if kind not in _components:
        raise UserError(f"there is no kind of component {kind!r}; use one of {', '.join(_components)}.")
    if not name or any(character in name for character in " :=,/\\") or not name.isprintable():
        raise UserError(f"{name!r} cannot name a {kind}; use letters, digits and hyphens.")

    def add(component: T) -> T:
        known = _components[kind].setdefault(name, component)
        # A module that is imported a second time, as in a notebook, replaces its own component.
        if _origin(known) != _origin(component):
            raise UserError(f"the {kind} {name!r} is already registered by {_origin(known)[0]}; use another name.")
        _components[kind][name] = component
        return component

    return add


def _origin(component: Any) -> tuple[str, str]:
    return getattr(component, "__module__", "?"), getattr(component, "__qualname__", repr(component))


def registered(kind: Kind, name: str) -> Any | None:
    """Return the component of this name, or None."""
    return _components[kind].get(name)


def registered_names(kind: Kind) -> list[str]:
    return sorted(_components[kind])


def unknown_component(kind: Kind, name: str, built_in: Iterable[str]) -> UserError:
    """Return the error for a config that names a component which is neither built in nor registered."""
    names = ", ".join([*built_in, *registered_names(kind)])
    return UserError(
        f"the config needs the {kind} {name!r}, which is not registered: use one of {names}, or give --plugin with the "
        "module that registers it."
    )


def load_plugins(modules: Sequence[str]) -> None:
    """Import the modules that `--plugin` names, and those of installed packages' entry points `clew.plugins`."""
    _loaded.extend(module for module in modules if module not in _loaded)
    # A plug-in is usually a file in the current folder, which is not on the path of an installed command.
    if "" not in sys.path:
        sys.path.insert(0, "")
    found = [(f"the installed plug-in {each.name}", each.module) for each in entry_points(group="clew.plugins")]
    for source, module in [*found, *((f"--plugin {module}", module) for module in modules)]:
        try:
            importlib.import_module(module.removesuffix(".py"))
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{source} cannot be imported: {type(error).__name__}: {error}.") from error


def loaded_plugins() -> tuple[str, ...]:
    """Return the modules that `--plugin` has named."""
    return tuple(_loaded)


def shipped_models() -> dict[str, Path]:
    """Return the folders of the models that come with the package, by name."""
    found = [file.parent for folder in _SHIPPED for file in sorted(folder.glob("*/model.json"))]
    return {folder.name: folder for folder in reversed(found)}


def list_models() -> list[str]:
    """Return the names of the models that ship with Clew, for `clew.load`.

    Example:
        >>> "cells-dfs" in list_models()
        True
    """
    return sorted(shipped_models())


def model_folder(source: PathLike) -> Path:
    """Return the folder of a run, of its checkpoint, of weights, or of a shipped model; torch is not imported."""
    given, shipped = Path(source), shipped_models()
    if any((given / file).is_file() for file in ("config.json", "model.json")):
        return given
    if (given / "state.json").is_file() and given.resolve().name.isdecimal():
        return given.resolve()
    if str(source) in shipped:
        return shipped[str(source)]
    what = "is no run and no weights" if given.exists() else "does not exist"
    names = f"one of the shipped models ({', '.join(shipped)})"
    raise UserError(f"{source} {what}; give the folder of a run, or {names}.")
