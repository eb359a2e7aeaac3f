"""Dataclasses to plain JSON and back, with a sentence for everything that does not fit.

    write_json("config.json", to_plain(config))
    config = from_plain(TrainConfig, read_json("config.json"), "config.json")

Fields may be whole numbers, numbers, words, true or false, one of some words (Literal), a list of such (tuple), other
dataclasses, and null where the type says so. A missing field has its default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from clew.errors import UserError

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
