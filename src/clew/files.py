"""Files that are either whole or absent.

    with atomic_write("picture.png", "wb") as file:
        file.write(data)
    write_json("results/speed.json", {"mazes_per_second": 123})

A file is written under a temporary name beside its final one and moved into place when it is complete, so a crash,
a kill or a full disk never leaves half a file under the name that others read.

Dataclasses to plain JSON and back, with a sentence for everything that does not fit.

    write_json("config.json", to_plain(config))
    config = from_plain(TrainConfig, read_json("config.json"), "config.json")

Fields may be whole numbers, numbers, words, true or false, one of some words (Literal), a list of such (tuple), other
dataclasses, and null where the type says so. A missing field has its default.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from clew.errors import UserError

PathLike: TypeAlias = str | os.PathLike[str]


@overload
def atomic_write(path: PathLike, mode: Literal["w"] = "w") -> AbstractContextManager[IO[str]]: ...
@overload
def atomic_write(path: PathLike, mode: Literal["wb"]) -> AbstractContextManager[IO[bytes]]: ...
def atomic_write(path: PathLike, mode: Literal["w", "wb"] = "w") -> AbstractContextManager[IO[Any]]:
    """A file to write to, which gets its name only when the block ends without an exception.

    Text is UTF-8 with plain newlines. An OSError names `path`, not the temporary file.
    """
    return _atomic_write(Path(path), mode)


@contextmanager
def _atomic_write(path: Path, mode: str) -> Iterator[IO[Any]]:
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise UserError(f"the folder {path.parent} does not exist; make it first, or write to another one.")
    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.tmp")
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(temporary, mode.replace("w", "x"), **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:  # also Ctrl-C: whatever ends the writing, no half file stays
        temporary.unlink(missing_ok=True)
        # A write that fails (full disk) names no file at all, and nobody knows the temporary one.
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(path), None
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name in `folder` survive a power cut, where the system can do that for folders."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # not on Windows; the file itself is safe already
        return
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse
    finally:
        os.close(handle)


def write_json(path: PathLike, value: Any) -> None:
    """Write `value` as indented JSON, wholly or not at all."""
    text = json.dumps(value, indent=2, ensure_ascii=False)  # before the file is opened: it may fail
    with atomic_write(path) as file:
        file.write(text + "\n")


def read_json(path: PathLike) -> Any:
    """What `path` holds; UserError if that is not whole JSON, OSError if it cannot be read."""
    data = Path(path).read_bytes()
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # ValueError: bad JSON and bad UTF-8
        problem = "is empty" if not data.strip() else f"is not whole JSON ({error})"
        raise UserError(f"{path} {problem}; it may be cut off: make it again, or restore it.") from None


T = TypeVar("T")
Reader = Callable[[Any], Any]

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", NoneType: "null"}


def to_plain(value: Any) -> Any:
    """Dicts, lists, words and numbers; a tuple becomes a list, as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], value: Any, where: str, readers: Mapping[str, Reader] | None = None) -> T:
    """The dataclass that `to_plain` wrote; `readers` read the fields whose type does not say how."""
    readers = readers or {}
    assert dataclasses.is_dataclass(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    if not isinstance(value, dict):
        raise UserError(f"{where} must be an object with the fields {', '.join(fields)}, not {value!r}.")
    if unknown := [name for name in value if name not in fields]:
        raise UserError(f"{where} has no field {unknown[0]!r}; its fields are {', '.join(fields)}.")
    hints = get_type_hints(kind)
    given: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in value:
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise UserError(f"{where} lacks the field {name!r}; add it.")
        elif name in readers:
            given[name] = readers[name](value[name])
        else:
            given[name] = _read(hints[name], value[name], f"{name} of {where}")
    return kind(**given)


def _read(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, value, where)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise UserError(f"{where} cannot be {value!r}; it must be {_spoken(hint)}.")
        return tuple(_read(get_args(hint)[0], item, where) for item in value)
    if not _fits(hint, value):
        raise UserError(f"{where} cannot be {value!r}; it must be {_spoken(hint)}.")
    return float(value) if float in (hint, *get_args(hint)) and type(value) is int else value


def _fits(hint: Any, value: Any) -> bool:
    """Whether a JSON value can stand in a field of this type; true is no number, and 1 is a float."""
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(part, value) for part in get_args(hint))
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return isinstance(value, hint)


def _spoken(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_spoken(part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        return f"a list, each {_spoken(get_args(hint)[0])}"
    return _WORDS.get(hint, str(hint))
