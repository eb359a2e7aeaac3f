"""Errors that a user can cause, and how the command line reports them.

    raise UserError("a maze of 1 row is too small; use 2 or more.")
    sys.exit(guarded(lambda: main()))       # one sentence on stderr, and an exit code

Exit codes: 0 done, 1 failed, 2 wrong call, 130 after Ctrl-C. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Mapping


class UserError(ValueError):
    """Input that cannot be used. The message is one sentence: what is wrong, and what to do."""


class UsageError(UserError):
    """A command line that cannot be used."""


def guarded(work: Callable[[], object]) -> int:
    """Run `work` and return the exit code; an error that a user can cause is one line on stderr.

    `work` may return an exit code of its own.
    """
    try:
        code = work()
        if sys.stdout is not None:  # it is None if the caller closed it
            sys.stdout.flush()  # here and not at exit, so that a closed pipe is met inside this `try`
    except BrokenPipeError:
        # The reader has exited, as in `clew solve ... | head`.
        _discard_output()
        return report_error("the reader of the output went away before all of it was written.")
    except UsageError as error:
        return report_error(str(error), code=2)
    except UserError as error:
        return report_error(str(error))
    except OSError as error:
        if error.filename is None:
            _discard_output()  # stdout itself may have failed, and exit would flush it again
        return report_error(os_error_sentence(error))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return report_error(
            "there is not enough memory for this; ask for fewer or smaller mazes, or for fewer at once "
            "(--micro-batch in training, --batch-size in evaluation)."
        )
    except KeyboardInterrupt:
        return report_error("stopped.", code=130)
    return code if isinstance(code, int) else 0


def report_error(sentence: str, code: int = 1) -> int:
    """Print the sentence on stderr and return the exit code."""
    print(f"clew: {printable(sentence)}", file=sys.stderr)
    return code


def is_quiet() -> bool:
    """Return whether `--quiet` was given, here or to the command that started this process: show no progress."""
    return os.environ.get("CLEW_QUIET") == "1"


def printable(text: str) -> str:
    r"""Return the text on one line, with control characters written as escapes.

    Example:
        >>> printable("a\x1b[31mb")
        'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def did_you_mean(word: str, known: Iterable[str] | Mapping[str, str], otherwise: str, cutoff: float = 0.6) -> str:
    """Return a question for the nearest known word, or what it stands for; `otherwise` if none is near.

    Example:
        >>> did_you_mean("sovle", ["solve", "draw"], "`clew --help` lists all.")
        'did you mean solve?'
    """
    names = known if isinstance(known, Mapping) else {name: name for name in known}
    near = difflib.get_close_matches(word, names, n=1, cutoff=cutoff)
    return f"did you mean {names[near[0]]}?" if near else otherwise


def os_error_sentence(error: OSError) -> str:
    """Return one sentence for an error of the operating system."""
    name = str(error.filename) if error.filename is not None else "the input or output"
    if isinstance(error, FileNotFoundError):
        return f"{name} does not exist."
    if isinstance(error, PermissionError):
        return f"there is no permission to use {name}."
    if isinstance(error, IsADirectoryError):
        return f"{name} is a folder; give the name of a file."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        name = name if error.filename is not None else "the output"
        return f"the disk is full, so {name} could not be written; make room and run the command again."
    return f"{name} cannot be used: {error.strerror or error}."


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, of the machine or of a GPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, without importing it
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def machine_memory() -> int:
    """Return the bytes of memory of this machine."""
    if sys.platform == "win32":
        return 2**63
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _discard_output() -> None:
    """Send what is still buffered for stdout to the null device."""
    out = sys.__stdout__
    if out is not None and sys.stdout is out:  # a stand-in, as in tests, may have no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
