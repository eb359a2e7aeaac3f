"""Files that are complete or absent, and dataclasses as JSON.

    with atomic_write("picture.png", "wb") as file:
        file.write(data)
    write_json("config.json", to_plain(config))
    config = from_plain(TrainConfig, read_json("config.json"), "config.json")

A file is written under a temporary name beside its final one and renamed when it is complete. A device or a pipe is
written to directly. A link to a file of the same folder stays a link; one to a file elsewhere is refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from clew.errors import UserError

PathLike: TypeAlias = str | os.PathLike[str]
T = TypeVar("T")
CHECKSUM = "sha256"

_unfinished: set[Path] = set()  # temporary files that are being written


@contextmanager
def atomic_write(path: PathLike, mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """Open a file that gets its name when the block ends without an exception.

    Text is UTF-8 with plain newlines. An OSError names `path`, not the temporary file.
    """
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    target = _target(Path(path))
    if target is None:
        # A second open of /dev/stdout would have a position of its own where that is a regular file.
        standard = {"/dev/stdout": 1, "/dev/stderr": 2}.get(str(path))
        with open(path if standard is None else os.dup(standard), mode, **text) as file:
            yield file
        return
    temporary = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.tmp")
    _unfinished.add(temporary)
    try:
        with open(temporary, mode.replace("w", "x"), **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:  # also Ctrl-C
        temporary.unlink(missing_ok=True)
        # A failed write (full disk) names no file, and the user does not know the temporary one.
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        _unfinished.discard(temporary)
    sync_folder(target.parent)


def _target(path: Path) -> Path | None:
    """Return the file to replace, or None for a device or a pipe, which is written to directly."""
    if not path.parent.is_dir():
        raise UserError(f"the folder {path.parent} does not exist; make it first, or write to another one.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the name of a file.")
    if str(path) in ("/dev/stdout", "/dev/stderr") or (path.exists() and not stat.S_ISREG(path.stat().st_mode)):
        return None
    if not path.is_symlink():
        return path
    target = path.resolve()
    if target.parent != path.parent.resolve():
        raise UserError(f"{path} is a link to {target}; give the name of that file, or remove the link.")
    return target


def discard_unfinished() -> None:
    """Remove the temporary files of unfinished writes; for a process that is about to exit without unwinding."""
    for temporary in tuple(_unfinished):
        with contextlib.suppress(OSError):
            temporary.unlink()


def sync_folder(folder: Path) -> None:
    """Make a new name in `folder` survive a power failure, where the system supports that."""
    with contextlib.suppress(OSError):  # not on Windows, nor on some network file systems; the file itself is safe
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_own(path: PathLike, mode: Literal["a+b", "w+b"] = "a+b") -> IO[bytes]:
    """Open a file that grows, or a lock; UserError if it is a link, which could change a file elsewhere."""
    try:
        return open(path, mode, opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666))
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UserError(f"{path} is a link; remove it.") from None


def write_json(path: PathLike, value: Any, *, checksum: bool = False) -> None:
    """Write `value` as indented JSON, atomically; an object may get its SHA-256 as the field `sha256`."""
    text = json_text(value, checksum)  # before the file is opened: it may fail
    with atomic_write(path) as file:
        file.write(text)


def json_text(value: Any, checksum: bool = False) -> str:
    """Return what `write_json` writes."""
    if checksum:
        value = {**value, CHECKSUM: json_checksum(value)}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def json_checksum(value: Any) -> str:
    """Return the SHA-256 of JSON values, whatever their layout in a file."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read_json(path: PathLike) -> Any:
    """Return the value that a file holds, without its checksum.

    UserError if that is not one complete JSON value without duplicate keys, or was changed after it was written.
    """
    data = Path(path).read_bytes()
    try:
        value = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:  # ValueError: bad JSON and bad UTF-8
        problem = "is empty" if not data.strip() else f"is not whole JSON ({error})"
        raise UserError(f"{path} {problem}; it may be cut off: make it again, or restore it.") from None
    if isinstance(value, dict) and isinstance(value.get(CHECKSUM), str) and value.pop(CHECKSUM) != json_checksum(value):
        raise UserError(
            f"{path} was changed after it was written (its SHA-256 differs); restore it, or remove its field "
            f"{CHECKSUM} if the change was meant."
        )
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, item in pairs:
        if name in value:
            raise ValueError(f"the key {name!r} stands twice in one object")
        value[name] = item
    return value


def to_plain(value: Any) -> Any:
    """Return a dataclass as dicts, lists, words and numbers; a tuple becomes a list, as in JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [to_plain(item) for item in value] if isinstance(value, tuple | list) else value


def from_plain(kind: type[T], value: Any, where: str, readers: Mapping[str, Callable[[Any], Any]] | None = None) -> T:
    """Return the dataclass that `to_plain` wrote; `readers` read the fields whose type does not say how."""
    assert dataclasses.is_dataclass(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    hints, readers = get_type_hints(kind), readers or {}
    if not isinstance(value, dict):
        raise UserError(f"{where} must be an object with the fields {', '.join(fields)}, not {value!r}.")
    given: dict[str, Any] = {}
    for name, item in value.items():
        if name not in fields:
            raise UserError(f"{where} has no field {name!r}; its fields are {', '.join(fields)}.")
        given[name] = readers[name](item) if name in readers else _read(hints[name], item, f"{name} of {where}")
    for name, field in fields.items():
        if name not in given and field.default is field.default_factory is dataclasses.MISSING:
            raise UserError(f"{where} lacks the field {name!r}; add it.")
    return kind(**given)


def _read(hint: Any, value: Any, where: str) -> Any:
    """Return a JSON value of this type; true is no number, and 1 is a float."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, value, where)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_read(get_args(hint)[0], item, where) for item in value)
    for kind in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if get_origin(kind) is Literal:
            fits = value in get_args(kind)
        elif kind in (int, float):  # a larger integer has no float
            fits = type(value) is int or (kind is float and type(value) is float)
            fits = fits and not (kind is float and abs(value) > 1e308)
        else:
            fits = get_origin(kind) is None and isinstance(value, kind)
        if fits:
            return float(value) if kind is float else value
    raise UserError(f"{where} cannot be {value!r}; it must be {type_name(hint)}.")


def from_text(hint: Any, text: str) -> Any:
    """Return the value of a type that a word of the command line stands for; UserError if it stands for none.

    Example:
        >>> from_text(float | None, "1"), from_text(float | None, "none"), from_text(str, "1")
        (1.0, None, '1')
    """
    if Path in (hint, *get_args(hint)):
        return Path(text)
    words = {"none": None, "null": None, "true": True, "false": False}
    for read in (int, float, lambda text: words[text.lower()], str):
        with contextlib.suppress(ValueError, KeyError):
            value = _read(hint, read(text), "")
            if value == value:  # not NaN
                return value
    raise UserError(f"cannot be {text!r}; give {type_name(hint)}.")


def type_name(hint: Any) -> str:
    """Return the name of a type for a message: "a whole number or null"."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(type_name, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list, each {type_name(get_args(hint)[0])}"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", NoneType: "null"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))
