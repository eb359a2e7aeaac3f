"""Errors that a user can cause: one sentence on stderr and an exit code. Other exceptions keep their traceback.

raise UserError("a maze of 1 row is too small; use 2 or more.")
sys.exit(guarded(main))       # 0 done, 1 failed, 2 wrong call, 130 after Ctrl-C, or what main returns
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable


class UserError(ValueError):
    """Input that cannot be used. The message is one sentence: what is wrong, and what to do."""


class UsageError(UserError):
    """A command line that cannot be used."""


def guarded(work: Callable[[], object]) -> int:
    """Run `work` and return its exit code; an error that a user can cause is one line on stderr."""
    try:
        code = work()
        if sys.stdout is not None:  # it is None if the caller closed it
            sys.stdout.flush()  # here and not at exit, so that a closed pipe is met inside this `try`
    except BrokenPipeError:  # as in `clew solve ... | head`
        _discard_output()
        return report_error("the reader of the output went away before all of it was written.")
    except UserError as error:
        return report_error(str(error), code=2 if isinstance(error, UsageError) else 1)
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
    """Return whether `--quiet` was given, here or to the command that started this process."""
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


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return a question for the nearest known name, also by its last part; `otherwise` if none is near.

    Example:
        >>> did_you_mean("verfy", ["solve", "data verify"], "`clew --help` lists all.")
        'did you mean data verify?'
    """
    parts = {part: name for name in reversed([*known]) for part in (re.sub(r"[\w-]+[. ]", "", name), name)}
    near = difflib.get_close_matches(word, parts, n=1)
    return f"did you mean {parts[near[0]]}?" if near else otherwise


def os_error_sentence(error: OSError) -> str:
    """Return one sentence for an error of the operating system."""
    name = error.filename
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full, so {name or 'the output'} could not be written; make room and run the command again."
    sentences = {
        FileNotFoundError: f"{name} does not exist.",
        PermissionError: f"there is no permission to use {name}.",
        IsADirectoryError: f"{name} is a folder; give the name of a file.",
    }
    return sentences.get(type(error), f"{name or 'the input or output'} cannot be used: {error.strerror or error}.")


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, of the machine or of a GPU; torch is not imported."""
    return type(error).__name__ in ("MemoryError", "OutOfMemoryError") or "DefaultCPUAllocator" in str(error)


def machine_memory() -> int:
    """Return the bytes of memory of this machine."""
    return 2**63 if sys.platform == "win32" else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _discard_output() -> None:
    """Send what is still buffered for stdout to the null device."""
    out = sys.__stdout__
    if out is not None and sys.stdout is out:  # a stand-in, as in tests, may have no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
