"""The command line: `clew COMMAND ...`, also as `python -m clew COMMAND ...`.

To add a command, write a typed function in clew/commands/ and name it in COMMANDS; its signature gives the options and
its docstring their help (see clew/commands/options.py). A command's module is imported only when it is called.
"""

from __future__ import annotations

import importlib
import os
from functools import partial

from clew import __version__
from clew.errors import UsageError, did_you_mean, guarded

# Name: (module:function, summary). A name may have two words.
COMMANDS = {
    "generate": ("clew.commands.data:generate", "make a dataset of mazes with their solutions"),
    "train": ("clew.commands.train:train", "train a model, or resume a run"),
    "evaluate": ("clew.commands.evaluate:evaluate", "evaluate a model on held-out mazes"),
    "solve": ("clew.commands.solve:solve", "solve mazes exactly, by BFS or A*, or with a model"),
    "draw": ("clew.commands.draw:draw", "draw mazes with their paths, or animate a model's decoding"),
    "reproduce": ("clew.commands.reproduce:reproduce", "run a table or figure of the paper"),
    "reproduce report": ("clew.commands.reproduce:report", "write docs/results.md from measured results"),
    "convert": ("clew.commands.convert:convert", "convert weights of the published code to a run folder"),
    "data describe": ("clew.commands.data:describe", "print layouts, walls and path lengths of datasets"),
    "data import": ("clew.commands.data:import_mazes", "make a dataset of mazes of your own"),
    "data verify": ("clew.commands.data:verify", "check a dataset against its checksums"),
    "runs": ("clew.commands.runs:runs", "print a table of the runs in a folder"),
    "plot": ("clew.commands.runs:plot", "plot training curves of runs"),
    "serve": ("clew.commands.serve:serve", "serve a page to draw mazes and watch models solve them"),
    "demo": ("clew.commands.demo:demo", "train small models and solve mazes, in six minutes"),
}
HELP = """usage: clew COMMAND [options]

{}

`clew COMMAND --help` lists the options of a command; `clew --version` prints the version.
Every command takes --quiet (show no progress) and --plugin MODULE (it registers components)."""


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    quiet = os.environ.get("CLEW_QUIET", "")
    try:
        return guarded(partial(_dispatch, arguments))
    finally:  # a caller in the same process, as a test, is not affected
        os.environ["CLEW_QUIET"] = quiet


def _dispatch(arguments: list[str]) -> object:
    from clew import commands
    from clew.commands.options import Parser, PlainParser
    from clew.registry import load_plugins

    commands.arguments_given[:] = arguments
    common = PlainParser("clew", usage="clew [options]", add_help=False, allow_abbrev=False)
    common.add_argument("--plugin", action="append", default=[])
    common.add_argument("--quiet", action="store_true")
    given, words = common.parse_known_args(arguments)
    if given.quiet:
        os.environ["CLEW_QUIET"] = "1"  # processes that the command starts read it too
    for count in (2, 1):
        if (name := " ".join(words[:count])) in COMMANDS:
            path, function = COMMANDS[name][0].split(":")
            module = importlib.import_module(path)
            load_plugins(given.plugin)
            # The options of `clew train` depend on the config.
            parse = getattr(module, "parse", Parser.call)
            return parse(Parser(f"clew {name}", getattr(module, function)), words[count:])
    first = words[0] if words else "help"
    group = [name for name in COMMANDS if name.startswith(f"{first} ")]
    if first in ("-h", "--help", "help"):
        print(HELP.format(_table([*COMMANDS])))
    elif first in ("-V", "--version"):
        print(f"clew {__version__}")
    elif group and words[1:] in ([], ["-h"], ["--help"]):
        print(HELP.format(_table(group)))
    else:
        word = " ".join(words[: 2 if group else 1])
        hint = did_you_mean(word, COMMANDS, "`clew --help` lists the commands.")
        raise UsageError(f"there is no command `{word}`; {hint}")
    return None


def _table(names: list[str]) -> str:
    width = max(map(len, names))
    return "\n".join(f"  {name:<{width}}  {COMMANDS[name][1]}" for name in names)
