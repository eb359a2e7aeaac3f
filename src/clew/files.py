"""Files that are either whole or absent.

    with atomic_write("picture.png", "wb") as file:
        file.write(data)
    write_json("results/speed.json", {"mazes_per_second": 123})

A file is written under a temporary name beside its final one and moved into place when it is complete, so a crash,
a kill or a full disk never leaves half a file under the name that others read.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, overload

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
