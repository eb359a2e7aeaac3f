"""The command line as a user meets it: what is printed where, and the exit code."""

from __future__ import annotations

import errno
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clew
from clew import __version__
from clew.cli import COMMANDS, run
from clew.commands import progress_bar
from clew.commands.options import Parser
from clew.errors import UserError, os_error_sentence
from clew.registry import loaded_plugins, registered_names

# With a buffer, what could not be written is tried again when Python ends, which must stay silent.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def fake(
    *,
    count: int = 1,  # how many lines to print
    # how to fail
    problem: str = "",
) -> None:
    """Do what a test asks for."""
    if problem:
        raise {
            "user": UserError("the maze is upside down; turn it."),
            "missing": FileNotFoundError(errno.ENOENT, "No such file or directory", "mazes.txt"),
            "full": OSError(errno.ENOSPC, "No space left on device", "out.png"),
            "permission": PermissionError(errno.EACCES, "Permission denied", "out.png"),
            "folder": IsADirectoryError(errno.EISDIR, "Is a directory", "mazes"),
            "memory": MemoryError(),
            "torch's memory": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            "ctrl-c": KeyboardInterrupt(),
            "bug": RuntimeError("a bug"),
        }[problem]
    print("\n".join(["line"] * count))


NO_MEMORY = """clew: there is not enough memory for this; ask for fewer or smaller mazes, or for fewer at once \
(--micro-batch in training, --batch-size in evaluation).
"""


@pytest.fixture(autouse=True)
def fake_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "fake", (f"{__name__}:fake", "a command for tests"))
    monkeypatch.setitem(COMMANDS, "two words", (f"{__name__}:fake", "another"))


@pytest.mark.parametrize(
    ("problem", "sentence", "code"),
    [
        ("user", "clew: the maze is upside down; turn it.\n", 1),
        ("missing", "clew: mazes.txt does not exist.\n", 1),
        ("full", "clew: the disk is full, so out.png could not be written; make room and run the command again.\n", 1),
        ("permission", "clew: there is no permission to use out.png.\n", 1),
        ("folder", "clew: mazes is a folder; give the name of a file.\n", 1),
        ("memory", NO_MEMORY, 1),
        ("torch's memory", NO_MEMORY, 1),
        ("ctrl-c", "clew: stopped.\n", 130),
    ],
)
def test_a_failure_is_one_sentence_and_a_code(
    problem: str, sentence: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fake", "--problem", problem]) == code
    assert capsys.readouterr() == ("", sentence)


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        run(["fake", "--problem", "bug"])


@pytest.mark.parametrize("words", [["fake"], ["two", "words"]])
def test_a_command_gets_its_options(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--count", "3"]) == 0
    assert capsys.readouterr().out == "line\nline\nline\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fake", "--count", "many"], "--count cannot be 'many'; give a whole number."),
        (["fake", "--count"], "--count expected one argument; usage: clew fake [options]"),
        (["fake", "--cuont", "3"], "`clew fake` has no option --cuont; did you mean --count?"),
        (["fake", "--xyzzy", "3"], "`clew fake` has no option --xyzzy; `clew fake --help` lists the options."),
        (["fake", "3"], "unrecognized arguments: 3; usage: clew fake [options]"),
        (["fake", "--plugin"], "--plugin expected one argument; usage: clew [options]"),
        (["solve"], "the following arguments are required: FILE; usage: clew solve FILE [options]"),
    ],
)
def test_a_wrong_option_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr() == ("", f"clew: {sentence}\n")


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["train", "tiny", "--otu", "x"], "--out"),
        (["train", "tiny", "--out", "x", "--optimizer.rl", "1"], "--optimizer.lr"),
        (["evaluate", "x", "--decodr", "walk"], "--decoder"),
        (["solve", "x", "--jsn"], "--json"),
        (["reproduce", "--scal", "smoke"], "--scale"),
    ],
)
def test_a_misspelled_option_is_reported_without_heavy_imports(arguments: list[str], near: str) -> None:
    code = f"import sys; from clew.cli import run; code = run({arguments!r}); print(*sys.modules); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(f"; did you mean {near}?\n")
    assert done.stderr.count("\n") == 1
    assert not {"torch", "matplotlib"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["sovle", "x"], "solve"),
        (["verify"], "data verify"),
        (["data", "verfy"], "data verify"),
        (["Draw"], "draw"),
        (["run"], "runs"),
    ],
)
def test_an_unknown_command_names_the_nearest(
    arguments: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("clew: there is no command")
    assert error.endswith(f"did you mean {near}?\n")


def test_nothing_near_points_to_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["xyzzy"]) == 2
    assert capsys.readouterr().err == "clew: there is no command `xyzzy`; `clew --help` lists the commands.\n"


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"], ["help"]])
def test_help_lists_every_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out and summary in out for name, (_, summary) in COMMANDS.items())


def test_help_fits_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("arguments", [["data"], ["data", "--help"]])
def test_a_first_word_alone_lists_its_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert "  data verify " in out
    assert "fake" not in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"clew {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module, function = COMMANDS[name][0].split(":")
    parser = Parser(name, getattr(importlib.import_module(module), function))
    assert run([*name.split(), "--help"]) == 0
    assert f"usage: clew {name}" in capsys.readouterr().out
    assert [action.dest for action in parser._actions if not action.help] == []


@pytest.mark.parametrize("name", ["tiny", "cells-dfs", "laptop-dfs-4-next"])
def test_every_field_of_a_config_has_help_of_its_own(name: str) -> None:
    parser, config = Parser("clew train", lambda: None), clew.config(name)
    parser.add(type(config), vars(config))
    texts = [str(action.help).partition("(default")[0].strip() for action in parser._actions]
    assert all(texts)
    assert sorted({text for text in texts if texts.count(text) > 1}) == []


def test_terminal_escapes_are_shown_and_not_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "\x1b[31mrun\nnext"]) == 1
    error = capsys.readouterr().err
    assert "\\x1b[31mrun\\nnext" in error
    assert "\x1b" not in error
    assert error.count("\n") == 1


def test_plugins_are_loaded_before_and_after_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("clew.registry._loaded", [])
    for name in ("first_plugin", "second_plugin"):
        Path(f"{name}.py").write_text(f"import clew\n\n@clew.register('decoder', '{name}')\nclass Decoder: pass\n")
    assert run(["--plugin", "first_plugin", "fake", "--plugin=second_plugin.py", "--count", "2"]) == 0
    assert capsys.readouterr().out == "line\nline\n"
    assert {"first_plugin", "second_plugin"} <= set(registered_names("decoder"))
    assert loaded_plugins() == ("first_plugin", "second_plugin.py")
    assert run(["fake", "--plugin", "no_such_module"]) == 1
    assert "--plugin no_such_module cannot be imported" in capsys.readouterr().err


def test_an_error_without_a_file_name_is_told_too() -> None:
    assert (
        os_error_sentence(OSError(errno.EIO, "Input/output error"))
        == "the input or output cannot be used: Input/output error."
    )


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from clew.cli import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "clew.cli" in done.stderr.split()
    assert not {"torch", "numba", "numpy", "matplotlib", "tyro", "rich"} & set(done.stderr.split())


def test_a_closed_pipe_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "clew", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=BUFFERED,
    )
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == "clew: the reader of the output went away before all of it was written.\n"


def test_no_output_at_all_is_no_problem() -> None:
    done = subprocess.run(
        f"{sys.executable} -m clew --help >&-", shell=True, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_under_the_output_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "clew", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=BUFFERED,
        )
    assert done.returncode == 1
    assert (
        done.stderr
        == "clew: the disk is full, so the output could not be written; make room and run the command again.\n"
    )


def clew_process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "clew", *arguments], cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["evaluate", "nope"], 1),
        (["evaluate", "cells-dfs", "--mazes", "x"], 2),
        (["solve", "maze.txt", "--solver", "nope"], 1),
        (["serve", "--port", "99999"], 2),
        (["demo", "--minutes", "nan"], 2),
        (["train", "tiny", "--out", "x", "--minutes", "nan"], 2),
        (["train", "tiny", "--nope"], 2),
        (["train", "tiny", "--out", "x", "--optimizer.lr", "fast"], 2),
        (["train", "tiny", "--out", "x", "--model.positions", "none-such"], 2),
        (["train", "tinny", "--out", "x", "--steps", "5"], 1),
        (["train", "nope.json", "--out", "x"], 1),
        (["evaluate", "cells-dfs", "--input", "nope.csv"], 1),
        (["solve", "nope.txt", "--solver", "cells-dfs"], 1),
        (["draw", "nope.txt", "--model", "cells-dfs", "--out", "x.png"], 1),
        (["draw", "--model", "nope", "--out", "x.png"], 1),
        (["convert", "nope.ckpt", "--out", "x"], 1),
    ],
)
def test_a_wrong_call_is_reported_without_torch(arguments: list[str], code: int, tmp_path: Path) -> None:
    words = f"import sys; from clew.cli import run; code = run({arguments!r}); assert not sys.modules.get('torch'); "
    done = subprocess.run(
        [sys.executable, "-c", f"{words}sys.exit(code)"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1


def test_long_work_prints_a_line_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.commands.HEARTBEAT", 0.01)
    with progress_bar("mazes solved", 1200) as progress:
        progress(3)
        time.sleep(0.3)
    assert capsys.readouterr().err.startswith("clew: mazes solved: 3 of 1,200 after 0 s\n")
    monkeypatch.setenv("CLEW_QUIET", "1")
    with progress_bar("mazes solved", 1200):
        time.sleep(0.1)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(("quiet", "lines"), [("", 1), ("1", 0)])
def test_compiling_is_announced_once(quiet: str, lines: int) -> None:
    code = "import clew.jit, numba; numba.njit(lambda x: x + 1)(1); numba.njit(lambda x: x + 2)(1)"
    environment = os.environ | {"CLEW_QUIET": quiet}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == lines * "clew: compiling kernels; this takes up to half a minute, once.\n"


def test_quiet_shows_no_progress(tmp_path: Path) -> None:
    arguments = ["train", "tiny", "--steps", "1", "--batch-size", "4", "--held-out", "0"]
    shown = clew_process(*arguments, "--out", "a", cwd=tmp_path)
    assert (shown.returncode, "step" in shown.stdout + shown.stderr) == (0, True)
    quiet = clew_process(*arguments, "--out", "b", "--quiet", cwd=tmp_path)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_terminal_escapes_in_names_are_shown_and_not_sent(tmp_path: Path) -> None:
    name = "a\x1b[31mb"
    for arguments in (
        ["generate", "dfs", "--size", "3", "--count", "4", "--test", "1", "--out", name],
        ["data", "verify", name + "c"],
    ):
        done = clew_process(*arguments, cwd=tmp_path)
        assert "\x1b" not in done.stdout + done.stderr
        assert "a\\x1b[31mb" in done.stdout + done.stderr, done
