"""Command-line options from the signature of a function or the fields of a dataclass, parsed by argparse.

    def solve(file: str, /, *, solver: str = "astar", json: bool = False) -> None:
        '''Solve mazes.

        Args:
            file: the mazes.
            ...
        '''

    run_function(solve, ["mazes.txt", "--json"], "clew solve")

Parameters before `/` are positional, `*names` takes any number, the others are options `--like-this`. The fields of a
dataclass become `--group.field`; their help is the comment above the field, or behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import inspect
import math
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from clew.errors import UsageError, did_you_mean
from clew.files import type_name

REQUIRED: Any = inspect.Parameter.empty


def run_function(function: Callable[..., object], arguments: Sequence[str], prog: str) -> object:
    """Call the function with the values of the arguments, and return what it returns."""
    parser = Parser(prog, inspect.getdoc(function) or "")
    parser.add_parameters(function)
    given = parser.parse(arguments)
    return 0 if given is None else call(function, given)


def call(function: Callable[..., object], given: dict[str, Any]) -> object:
    """Call the function with values by name; `slurm.nodes` is a field of the dataclass parameter `slurm`."""
    positional: list[Any] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(parameter.default):
            changes = {key.removeprefix(f"{name}."): given.pop(key) for key in [*given] if key.startswith(f"{name}.")}
            given[name] = dataclasses.replace(parameter.default, **changes)  # type: ignore[type-var]
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(given.pop(name))
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional += given.pop(name, ())
    return function(*positional, **given)


class Parser(argparse.ArgumentParser):
    """An argparse parser of typed options, with the docstring of a command as its description."""

    def __init__(self, prog: str, doc: str = "", add_help: bool = True) -> None:
        about, _, section = doc.partition("\nArgs:\n")
        width = min(shutil.get_terminal_size().columns, 110)
        super().__init__(
            prog,
            description=about.strip(),
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=width),
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
            add_help=add_help,
        )
        arguments = re.finditer(r"^    (\w+): (.*(?:\n {5,}.*)*)", section, flags=re.MULTILINE)
        self.help_of = {match[1]: " ".join(match[2].split()) for match in arguments}
        self._needed: list[str] = []  # positional arguments and required options, for the usage
        self._sections: dict[str, argparse._ActionsContainer] = {"": self}

    @property
    def flags(self) -> list[str]:
        return [*self._option_string_actions]

    def add_parameters(self, function: Callable[..., object]) -> None:
        """Add the parameters of a function; a dataclass gives an option for each field."""
        hints = get_type_hints(function)
        for name, parameter in inspect.signature(function).parameters.items():
            if dataclasses.is_dataclass(parameter.default):
                self.add_fields(parameter.default, f"{name}.")
            elif parameter.kind is parameter.VAR_POSITIONAL:
                self.add_option(name, hints[name], REQUIRED, nargs="*")
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                self.add_option(name, hints[name], REQUIRED, nargs=None)
            elif parameter.kind is not parameter.VAR_KEYWORD:
                self.add_option(name, hints[name], parameter.default)

    def add_fields(self, value: Any, prefix: str = "", skip: Sequence[str] = ()) -> None:
        """Add an option for each field of a dataclass, or an instance, but `skip`; its values are the defaults."""
        kind = value if isinstance(value, type) else type(value)
        hints = get_type_hints(kind)
        self.help_of |= {prefix + name: text for name, text in _field_help(kind).items()}
        for field in dataclasses.fields(value):
            default = getattr(value, field.name, None)
            if dataclasses.is_dataclass(default) and field.name not in skip:
                self.add_fields(default, f"{prefix}{field.name}.")
            elif field.name not in skip:
                self.add_option(prefix + field.name, hints[field.name], default)

    def add_option(self, name: str, hint: Any, default: Any, **positional: Any) -> None:
        """Add an option, or a positional argument if `nargs` is given."""
        plain = default is REQUIRED or isinstance(default, bool) or default in (None, (), "")
        text = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
        shown = "" if plain else f"(default {text})"
        settings: dict[str, Any] = {
            "help": " ".join(filter(None, [self.help_of.get(name, ""), shown])).replace("%", "%%")
        }
        many = get_origin(hint) is tuple
        kind = get_args(hint)[0] if many else hint
        if positional:
            word = name.upper().replace("_", "-")
            self._needed.append(f"{word} ..." if positional["nargs"] else word)
            self.add_argument(name, type=_converter(kind), metavar=word, **settings, **positional)
            return
        group, _, last = name.rpartition(".")
        # A setting that is on by default has a flag to turn it off.
        flag = "--" + ".".join(filter(None, [group, f"no-{last}" if default is True else last])).replace("_", "-")
        if group not in self._sections:
            self._sections[group] = self.add_argument_group(group)
        section = self._sections[group]
        if hint is bool:
            section.add_argument(flag, dest=name, action="store_false" if default else "store_true", **settings)
            return
        if default is REQUIRED:
            self._needed.append(f"{flag} {_metavar(kind)}")
        settings |= {"type": _converter(kind), "metavar": _metavar(kind), "nargs": "+" if many else None}
        section.add_argument(flag, dest=name, required=default is REQUIRED, **settings)

    def format_usage(self) -> str:
        """Return one line: positional arguments and required options."""
        return " ".join(["usage:", self.prog, *self._needed, "[options]"])

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument "):
            message = message.removeprefix("argument ").replace(": ", " ", 1)
        raise UsageError(message if message[-1] in ".?" else f"{message}; {self.format_usage()}")

    def parse(self, arguments: Sequence[str]) -> dict[str, Any] | None:
        """Return the values that are given, by name; None if the help was printed instead."""
        if any(word in ("-h", "--help") for word in arguments):
            self.usage = self.format_usage().removeprefix("usage: ")
            self.print_help()
            return None
        words = [flag_of(word) + word[len(flag_of(word)) :] for word in arguments]
        # --lr is near --optimizer.lr: the last part of a name counts too.
        known = {f"--{flag.rpartition('.')[2].removeprefix('--')}": flag for flag in reversed(self.flags)}
        known |= {flag: flag for flag in self.flags}
        for flag in (flag_of(word) for word in words if word.startswith("--")):
            if flag not in self.flags:
                hint = did_you_mean(flag, known, f"`{self.prog} --help` lists the options.")
                raise UsageError(f"`{self.prog}` has no option {flag}; {hint}")
        given = vars(self.parse_intermixed_args(words))
        return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def flag_of(word: str) -> str:
    """Return the option of a word such as --batch_size=4, with hyphens; any other word as it is."""
    return word.partition("=")[0].replace("_", "-") if word.startswith("--") else word


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    names = {int: "INT", float: "FLOAT", Path: "PATH"}
    kinds = [kind for kind in _kinds(hint) if kind is not NoneType]
    return "|".join(map(_metavar, kinds)) if len(kinds) > 1 or kinds[0] is not hint else names.get(hint, "TEXT")


def _converter(hint: Any) -> Callable[[str], Any]:
    """Return a function from a word of the command line to a value of this type."""
    kinds = _kinds(hint)
    words = {str(choice): choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)}
    words |= {"none": None, "null": None} if NoneType in kinds else {}
    words |= {"true": True, "false": False} if bool in kinds else {}

    def convert(text: str) -> Any:
        for word in (text, text.lower()):
            if word in words:
                return words[word]
        for kind in kinds:
            if kind not in (NoneType, bool) and get_origin(kind) is not Literal:
                with contextlib.suppress(ValueError):
                    value = kind(text)
                    if not isinstance(value, float) or math.isfinite(value):
                        return value
        hint_text = did_you_mean(text, list(words), f"give {type_name(hint)}.")
        raise argparse.ArgumentTypeError(f"cannot be {text!r}; {hint_text}")

    return convert


def _field_help(kind: type) -> dict[str, str]:
    """Return the comment of each field of a dataclass: the lines above it, or what stands behind it."""
    found: dict[str, str] = {}
    for cls in reversed(kind.__mro__[:-1]):
        above: list[str] = []
        try:
            source = inspect.getsource(cls)
        except (OSError, TypeError):  # a class that was made in a notebook or by a function has no source
            source = ""
        for line in source.splitlines():
            if comment := re.fullmatch(r"    # (.*)", line):
                above.append(comment[1])
                continue
            if field := re.match(r"    (\w+): [^#]*(?:  # (.*))?$", line):
                found[field[1]] = " ".join(above) or field[2] or ""
            above = []
    return found
