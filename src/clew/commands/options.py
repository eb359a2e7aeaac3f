"""Command-line options from the signature of a function or the fields of a dataclass.

    def solve(file: str, /, *, solver: str = "astar", json: bool = False) -> None:
        '''Solve mazes.

        Args:
            file: the mazes.
            solver: who solves them.
            json: print JSON.
        '''

    run_function(solve, ["mazes.txt", "--json"], "clew solve")

Parameters before `/` are positional, `*names` takes any number, the others are options `--like-this`. Their help is in
the docstring. The fields of a dataclass become `--group.field`; their help is the comment above the field, or behind
it. A wrong command line raises UsageError with one sentence. Nothing heavy is imported here.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from clew.errors import UsageError
from clew.files import type_name

REQUIRED: Any = inspect.Parameter.empty


class HelpPrinted(Exception):
    """`--help` was given and answered."""


@dataclass(frozen=True)
class Option:
    """One option or positional argument."""

    name: str  # as in Python, with dots for fields of fields: optimizer.weight_decay
    type: Any
    default: Any
    help: str
    positional: bool = False
    variadic: bool = False

    @property
    def flag(self) -> str:
        """What stands on the command line; a setting that is on by default has a flag to turn it off."""
        if self.positional:
            return self.name.upper().replace("_", "-")
        group, _, name = self.name.rpartition(".")
        off = "no-" if self.type is bool and self.default is True else ""
        return f"--{group + '.' if group else ''}{off}{name}".replace("_", "-")

    @property
    def usage(self) -> str:
        if self.positional:
            return f"{self.flag} ..." if self.variadic else self.flag
        return self.flag if self.type is bool else f"{self.flag} {_metavar(self.type)}"


def run_function(function: Callable[..., object], arguments: Sequence[str], prog: str) -> object:
    """Call the function with what the arguments say, and return what it returns."""
    options = function_options(function)
    given = parse(options, arguments, prog, inspect.getdoc(function) or "")
    positional: list[Any] = []
    for option in options:
        if option.positional:
            value = given.pop(option.name, ())
            positional += value if option.variadic else [value]
    return call(function, positional, given)


def call(function: Callable[..., object], positional: Sequence[Any], given: dict[str, Any]) -> object:
    """Call the function with values by name; `slurm.nodes` is a field of the dataclass parameter `slurm`."""
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(parameter.default):
            changes = {key.removeprefix(f"{name}."): given.pop(key) for key in [*given] if key.startswith(f"{name}.")}
            given[name] = dataclasses.replace(parameter.default, **changes)  # type: ignore[type-var]
    return function(*positional, **given)


def function_options(function: Callable[..., object]) -> list[Option]:
    """Return the options that a function's parameters ask for; a dataclass parameter gives one for each field."""
    help_of, hints = _argument_help(inspect.getdoc(function) or ""), get_type_hints(function)
    options: list[Option] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        variadic = parameter.kind is parameter.VAR_POSITIONAL
        positional = variadic or parameter.kind is parameter.POSITIONAL_ONLY
        default = () if variadic else parameter.default
        if dataclasses.is_dataclass(default):
            options += field_options(default, f"{name}.")
        else:
            options.append(Option(name, hints[name], default, help_of.get(name, ""), positional, variadic))
    return options


def field_options(value: Any, prefix: str = "") -> Iterator[Option]:
    """Yield an option for each field of a dataclass instance, whose values are the defaults."""
    help_of, hints = _field_help(type(value)), get_type_hints(type(value))
    for field in dataclasses.fields(value):
        default = getattr(value, field.name)
        if dataclasses.is_dataclass(default):
            yield from field_options(default, f"{prefix}{field.name}.")
        else:
            yield Option(prefix + field.name, hints[field.name], default, help_of.get(field.name, ""))


def parse(options: Sequence[Option], arguments: Sequence[str], prog: str, about: str = "") -> dict[str, Any]:
    """Return the values that are given, by name; print the help and raise HelpPrinted if that is asked for."""
    if any(word in ("-h", "--help") for word in arguments):
        print(help_text(options, prog, about))
        raise HelpPrinted
    flags = {option.flag: option for option in options if not option.positional}
    places = [option for option in options if option.positional]
    given: dict[str, Any] = {}
    words = list(arguments)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            if not places:
                raise UsageError(f"`{prog}` does not take {word!r}; `{prog} --help` lists the options.")
            place = places[0] if places[0].variadic else places.pop(0)
            value = _value(place.type, [word], place.flag)
            given[place.name] = (*given.get(place.name, ()), value) if place.variadic else value
            continue
        flag, equals, rest = word.partition("=")
        option = flags.get(flag.replace("_", "-"))
        if option is None:
            raise UsageError(unknown_option(flag, [*flags], prog))
        if option.type is bool:
            if equals:
                raise UsageError(f"{flag} takes no value; leave ={rest} out.")
            given[option.name] = option.default is not True
            continue
        texts = [rest] if equals else []
        many = get_origin(option.type) is tuple
        while not equals and words and not words[0].startswith("--") and (many or not texts):
            texts.append(words.pop(0))
        if not texts:
            raise UsageError(f"{flag} needs a value: {option.usage}.")
        given[option.name] = _value(option.type, texts, flag)
    if missing := [o.usage for o in options if o.default is REQUIRED and o.name not in given]:
        raise UsageError(f"{' and '.join(missing)} must be given: {usage(options, prog)}")
    return given


def usage(options: Sequence[Option], prog: str) -> str:
    """Return the one-line usage: positional arguments and required options."""
    words = [option.usage for option in options if option.positional or option.default is REQUIRED]
    return " ".join(["usage:", prog, *words, "[options]"])


def help_text(options: Sequence[Option], prog: str, about: str = "") -> str:
    """Return the help: usage, description, and each option with its own text."""
    width = min(shutil.get_terminal_size().columns, 110)
    lines = [usage(options, prog)]
    if about:
        lines += ["", re.split(r"^Args:$", about, flags=re.MULTILINE)[0].strip()]
    for option in (o for o in options if o.positional):
        lines += ["", *_entry(option, width)]
    group = ""
    lines += ["", "options:"]
    for option in sorted((o for o in options if not o.positional), key=lambda o: "." in o.name):
        if option.name.rpartition(".")[0] != group:
            group = option.name.rpartition(".")[0]
            lines += ["", f"{group}:"]
        lines += _entry(option, width)
    return "\n".join(lines)


def _entry(option: Option, width: int) -> list[str]:
    shown = "" if option.default in (REQUIRED, None, (), "", False, True) else f"(default {_text(option.default)})"
    body = textwrap.wrap(" ".join(filter(None, [option.help, shown])), width - 30)
    head = f"  {option.usage}"
    first = [f"{head:<29} {body.pop(0)}"] if len(head) < 30 and body else [head]
    return first + [" " * 30 + line for line in body]


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return "|".join(_metavar(part) for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is tuple:
        return f"{_metavar(get_args(hint)[0])} ..."
    return {int: "INT", float: "FLOAT", Path: "PATH"}.get(hint, "TEXT")


def _value(hint: Any, texts: list[str], flag: str) -> Any:
    """Convert the words behind a flag."""
    if get_origin(hint) is tuple:
        return tuple(_value(get_args(hint)[0], [text], flag) for text in texts)
    text = texts[0]
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for kind in kinds:
        if get_origin(kind) is Literal:
            if found := [choice for choice in get_args(kind) if str(choice) == text]:
                return found[0]
        elif kind is NoneType:
            if text.lower() in ("none", "null"):
                return None
        elif kind is bool:
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
        else:
            try:
                return kind(text)
            except ValueError:
                continue
    known = [str(choice) for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    near = difflib.get_close_matches(text, known, n=1)
    hint_text = f"did you mean {near[0]}?" if near else f"give {type_name(hint)}."
    raise UsageError(f"{flag} cannot be {text!r}; {hint_text}")


def unknown_option(flag: str, flags: Sequence[str], prog: str) -> str:
    """Return a sentence about an option that does not exist, with the nearest one that does."""
    # --lr is near --optimizer.lr: the last part of a name counts too.
    by_last = {f"--{known.rpartition('.')[2].removeprefix('--')}": known for known in reversed(flags)}
    near = difflib.get_close_matches(flag, [*flags, *by_last], n=1)
    hint = f"did you mean {by_last.get(near[0], near[0])}?" if near else f"`{prog} --help` lists the options."
    return f"`{prog}` has no option {flag}; {hint}"


def _argument_help(doc: str) -> dict[str, str]:
    """Return the text of each argument in the section "Args:" of a docstring."""
    _, _, section = doc.partition("\nArgs:\n")
    found: dict[str, str] = {}
    for match in re.finditer(r"^    (\w+): (.*(?:\n {5,}.*)*)", section, flags=re.MULTILINE):
        found[match[1]] = " ".join(match[2].split())
    return found


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
