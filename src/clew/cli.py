"""The command line: `clew COMMAND ...`, also as `python -m clew COMMAND ...`.

To add a command, write a plain typed function in clew/commands/ and name it in COMMANDS; its signature makes the
options and its docstring the help. A function is imported only when its command is called, so `clew --help` is
quick. A command's name may have two words (`clew data verify`).

What goes wrong is told in one sentence on stderr, with an exit code (see guard.py).
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from clew import __version__
from clew.errors import UsageError, guarded


@dataclass(frozen=True)
class Command:
    """Where a command's function is, as module:function, and what it does in one line."""

    function: str
    summary: str
    parses: bool = False  # the function takes the bare arguments, since its options depend on the first one


COMMANDS = {
    "demo": Command("clew.commands.demo:demo", "see what Clew does, in five minutes"),
    "generate": Command("clew.commands.generate:generate", "make a dataset of mazes with their solutions"),
    "data verify": Command("clew.commands.data:verify", "check a dataset's files against their checksums"),
    "data describe": Command("clew.commands.data:describe", "tell the layouts, walls and path lengths of datasets"),
    "train": Command("clew.commands.train:train", "train a model, or go on with a run", parses=True),
    "convert": Command("clew.commands.convert:convert", "make a run folder of weights that the published code made"),
    "evaluate": Command("clew.commands.evaluate:evaluate", "let a model solve held-out mazes, and score it"),
    "solve": Command("clew.commands.solve:solve", "solve mazes exactly, by BFS or A*, or with a model"),
    "draw": Command("clew.commands.draw:draw", "draw mazes and their paths to a PNG or SVG file"),
    "reproduce": Command(
        "clew.commands.reproduce:reproduce", "run a table or figure of the paper, from training to picture"
    ),
    "reproduce report": Command("clew.commands.reproduce:report", "write docs/results.md from what was measured"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that `arguments` (by default the process's own) ask for, and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command and give its exit code."""
    return guarded(lambda: dispatch(list(arguments)))


def dispatch(arguments: list[str]) -> None:
    """Find the command in the first word or two and hand it the rest."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(help_text())
    elif arguments[0] in ("-V", "--version"):
        print(f"clew {__version__}")
    elif (name := " ".join(arguments[:2])) in COMMANDS:
        call(name, arguments[2:])
    elif (name := arguments[0]) in COMMANDS:
        call(name, arguments[1:])
    elif name in _groups() and (len(arguments) == 1 or arguments[1] in ("-h", "--help")):
        print(help_text(name))
    else:
        raise UsageError(_unknown(arguments))


def call(name: str, arguments: list[str]) -> None:
    """Import the command's function and let its signature parse the arguments."""
    import tyro  # a tenth of a second, so only now

    module, function_name = COMMANDS[name].function.split(":")
    function = getattr(importlib.import_module(module), function_name)
    if COMMANDS[name].parses:
        function(arguments)
        return
    tyro.cli(
        function,
        prog=f"clew {name}",
        args=arguments,
        # A flag has one spelling, the one that changes something: --json, but not --no-json too.
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def help_text(group: str | None = None) -> str:
    """The list of commands, or of those that begin with one word."""
    names = [name for name in COMMANDS if group in (None, name.split()[0])]
    width = max(map(len, names))
    lines = [f"  {name:<{width}}  {COMMANDS[name].summary}" for name in names]
    return "\n".join(
        [
            "usage: clew COMMAND [options]",
            "",
            *lines,
            "",
            "`clew COMMAND --help` tells a command's options; `clew --version` the version.",
        ]
    )


def _groups() -> set[str]:
    return {name.split()[0] for name in COMMANDS if " " in name}


def _unknown(arguments: list[str]) -> str:
    """Say which word is not a command, with the nearest one that is."""
    group = arguments[0] in _groups()
    asked = " ".join(arguments[:2]) if group else arguments[0]
    # People also forget the first word of two (`clew verify`), so that is compared as well.
    # Of several commands with one first word, the first in the table is named.
    spellings = {word: name for name in reversed(COMMANDS) for word in (name.split()[-1], name.split()[0], name)}
    near = difflib.get_close_matches(asked, spellings, n=1, cutoff=0.5)
    if group:
        near = near or [next(name for name in COMMANDS if name.split()[0] == arguments[0])]
    hint = f"did you mean `clew {spellings[near[0]]}`?" if near else "`clew --help` lists the commands."
    return f"there is no command `{asked}`; {hint}"
