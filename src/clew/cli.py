"""The command line: `clew COMMAND ...`, also as `python -m clew COMMAND ...`.

To add a command, write a typed function in clew/commands/ and name it in COMMANDS; its signature gives the options and
its docstring their help (see clew/commands/options.py). A command's module is imported only when it is called.
"""

from __future__ import annotations

import os

# Name: (module:function, summary). A name may have two words.
COMMANDS = {
    "generate": ("clew.commands.generate:generate", "make a dataset of mazes with their solutions"),
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


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    from clew.errors import guarded

    quiet = os.environ.get("CLEW_QUIET")
    try:
        return guarded(lambda: _dispatch(list(arguments)))
    finally:  # a caller in the same process, as a test, is not affected
        os.environ.update({"CLEW_QUIET": quiet or ""})


def _dispatch(arguments: list[str]) -> object:
    from clew.commands import set_command
    from clew.commands.options import Parser
    from clew.errors import UsageError

    set_command(arguments)
    common = Parser("clew", add_help=False)
    common.add_argument("--plugin", action="append", default=[])
    common.add_argument("--quiet", action="store_true")
    given, arguments = common.parse_known_args(arguments)
    if hasattr(given, "quiet"):
        os.environ["CLEW_QUIET"] = "1"  # processes that the command starts read it too
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(help_text())
    elif arguments[0] in ("-V", "--version"):
        from clew import __version__

        print(f"clew {__version__}")
    elif (name := " ".join(arguments[:2])) in COMMANDS:
        return _call(name, arguments[2:], given.plugin)
    elif (name := arguments[0]) in COMMANDS:
        return _call(name, arguments[1:], given.plugin)
    elif name in _groups() and (len(arguments) == 1 or arguments[1] in ("-h", "--help")):
        print(help_text(name))
    else:
        raise UsageError(_unknown(arguments))
    return None


def _call(name: str, arguments: list[str], plugins: list[str]) -> object:
    """Import the command's function and run it with the options that its signature declares."""
    import importlib

    from clew.commands.options import run_function
    from clew.registry import load_plugins

    module, function_name = COMMANDS[name][0].split(":")
    function = getattr(importlib.import_module(module), function_name)
    load_plugins(plugins)
    # A command whose options depend on its first argument parses them itself.
    parse_and_run = getattr(function, "parse_and_run", None)
    return parse_and_run(arguments) if parse_and_run else run_function(function, arguments, f"clew {name}")


def help_text(group: str | None = None) -> str:
    """Return the list of commands, or of those that begin with one word."""
    names = [name for name in COMMANDS if group in (None, name.split()[0])]
    width = max(map(len, names))
    lines = [f"  {name:<{width}}  {COMMANDS[name][1]}" for name in names]
    return "\n".join(
        [
            "usage: clew COMMAND [options]",
            "",
            *lines,
            "",
            "`clew COMMAND --help` lists the options of a command; `clew --version` prints the version.",
            "Every command takes --quiet (show no progress) and --plugin MODULE (it registers components).",
        ]
    )


def _groups() -> set[str]:
    return {name.split()[0] for name in COMMANDS if " " in name}


def _unknown(arguments: list[str]) -> str:
    """Return a sentence that names the word that is not a command, and the nearest one that is."""
    from clew.errors import did_you_mean

    group = arguments[0] in _groups()
    word = " ".join(arguments[:2]) if group else arguments[0]
    # The first word of two is often left out (`clew verify`), so the last word is compared as well.
    spellings = {key: f"`clew {name}`" for name in reversed(COMMANDS) for key in (*name.split()[::-1], name)}
    first = next((f"did you mean `clew {name}`?" for name in COMMANDS if name.split()[0] == arguments[0]), "")
    hint = did_you_mean(word, spellings, first or "`clew --help` lists the commands.", cutoff=0.5)
    return f"there is no command `{word}`; {hint}"
