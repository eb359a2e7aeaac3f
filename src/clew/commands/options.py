"""Command-line options from the signature of a function, parsed by argparse.

    def solve(
        file: str,  # the mazes
        *,
        solver: str = "astar",  # bfs, astar or a model
    ) -> int: ...

    Parser("clew solve", solve).call(["mazes.txt", "--solver", "bfs"])

Parameters before `*` are positional, the others are options `--like-this`; a tuple takes several words. The fields of a
dataclass become `--group.field`. The help of each is the comment above it, or behind it.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from clew.errors import UsageError, UserError, did_you_mean
from clew.files import from_text

REQUIRED: Any = inspect.Parameter.empty


class PlainParser(argparse.ArgumentParser):
    """An argparse parser whose errors are UsageErrors."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument "):
            message = message.removeprefix("argument ").replace(": ", " ", 1)
        raise UsageError(message if message[-1] in ".?" else f"{message}; usage: {self.usage}")


class Parser(PlainParser):
    """Options of a function; its docstring is the help."""

    def __init__(self, prog: str, function: Callable[..., object]) -> None:
        super().__init__(
            prog,
            description=inspect.getdoc(function),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
        )
        self.function = function
        named = {n: p for n, p in inspect.signature(function).parameters.items() if p.kind is not p.VAR_KEYWORD}
        self.defaults = {name: parameter.default for name, parameter in named.items()}
        self.add(function, self.defaults, [n for n, p in named.items() if p.kind is not p.KEYWORD_ONLY])
        needed = [" ".join([*a.option_strings, str(a.metavar)]) for a in self._actions if a.required]
        self.usage = " ".join([prog, *needed, "[options]"])

    def add(
        self, source: Callable[..., object], defaults: Mapping[str, Any], first: Sequence[str] = (), prefix: str = ""
    ) -> None:
        """Add an option for each parameter of a function, or field of a dataclass; those in `first` are positional."""
        hints, comments = get_type_hints(source), comments_of(source)
        for name, default in defaults.items():
            if dataclasses.is_dataclass(default) and not isinstance(default, type):
                self.add(type(default), vars(default), prefix=f"{prefix}{name}.")
            else:
                self.add_option(prefix + name, hints[name], default, comments.get(name, ""), name not in first)

    def add_option(self, name: str, hint: Any, default: Any, about: str, is_option: bool = True) -> None:
        text = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
        if text and default not in (None, REQUIRED) and not isinstance(default, bool):
            about = f"{about} (default {text})"
        flag = f"--{'no-' if default is True else ''}{name}".replace("_", "-")
        about = about.replace("%", "%%")
        if hint is bool:  # a setting that is on by default has a flag to turn it off
            self.add_argument(flag, dest=name, action="store_false" if default else "store_true", help=about)
            return
        many = get_origin(hint) is tuple
        kind = get_args(hint)[0] if many else hint
        nargs = None if not many else "*" if default == () and not is_option else "+"
        settings: dict[str, Any] = {"type": partial(_convert, kind), "nargs": nargs, "help": about}
        if is_option:
            settings |= {"dest": name, "required": default is REQUIRED}
        self.add_argument(
            flag if is_option else name, metavar=_metavar(kind) if is_option else name.upper(), **settings
        )

    def call(self, arguments: Sequence[str]) -> object:
        """Call the function with the values of the arguments; print the help instead if they ask for it."""
        if {"-h", "--help"} & {*arguments}:
            self.print_help()
            return 0
        flags = self._option_string_actions
        for flag in (word.partition("=")[0] for word in arguments if word.startswith("--")):
            if flag not in flags:
                hint = did_you_mean(flag, flags, f"`{self.prog} --help` lists the options.")
                raise UsageError(f"`{self.prog}` has no option {flag}; {hint}")
        values = vars(self.parse_intermixed_args(arguments))
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        for name, default in self.defaults.items():
            if dataclasses.is_dataclass(default) and not isinstance(default, type):
                fields = [key for key in given if key.startswith(f"{name}.")]
                changes = {key.partition(".")[2]: given.pop(key) for key in fields}
                given[name] = dataclasses.replace(default, **changes)
        return self.function(**given)


def _convert(hint: Any, text: str) -> Any:
    try:
        return from_text(hint, text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _metavar(hint: Any) -> str:
    parts = get_args(hint)
    if get_origin(hint) is Literal:
        return "|".join(map(str, parts))
    return _metavar(parts[0]) if parts else str(hint.__name__).upper()


def comments_of(source: Callable[..., object]) -> dict[str, str]:
    """Return the comment of each parameter of a function, or field of a dataclass: the lines above it, or behind it."""
    found: dict[str, str] = {}
    for part in reversed(getattr(source, "__mro__", (source,))):
        lines: list[str] = []
        with suppress(OSError, TypeError):  # a class that was made in a notebook or by a function has no source
            lines = inspect.getsource(part).splitlines()
        above: list[str] = []
        for line in lines:
            if comment := re.fullmatch(r"    # (.*)", line):
                above.append(comment[1])
                continue
            if field := re.match(r"    (\w+): [^#]*(?:  # (.*))?$", line):
                found[field[1]] = " ".join(above) or field[2] or ""
            above = []
    return found
