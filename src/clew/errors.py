"""The one exception that the user's input may raise.

Its message is one sentence that says what is wrong and what to do. The command line prints it without a
traceback; anything else that escapes is a bug of ours and keeps its traceback.

How much memory there is, and how to tell that it ran out.

What a user may meet becomes one sentence on stderr and an exit code; a bug of ours keeps its traceback.

    sys.exit(guarded(lambda: tyro.cli(main)))

Exit codes: 0 done, 1 failed, 2 called wrongly, 130 Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable


class UserError(ValueError):
    """What the user gave cannot be used; the message says why and what to do."""


def machine_memory() -> int:
    """Bytes of memory that this machine has."""
    if sys.platform == "win32":
        return 2**63
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was not enough memory, of the machine or of a GPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, not imported for this
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


class UsageError(UserError):
    """The command line itself makes no sense."""


def guarded(work: Callable[[], object]) -> int:
    """Do the work and give the exit code."""
    try:
        work()
        if sys.stdout is not None:  # it is None if the caller closed it
            sys.stdout.flush()  # here rather than at exit, so that a closed pipe is met inside this `try`
    except BrokenPipeError:
        # The reader left, as in `clew solve ... | head`. What is still in the buffer must not be tried again at exit.
        _discard_output()
        return _fail("the reader of the output went away before all of it was written.")
    except UsageError as error:
        return _fail(str(error), code=2)
    except UserError as error:
        return _fail(str(error))
    except OSError as error:
        if error.filename is None:
            _discard_output()  # it may be the output itself that cannot be written, which exit would try again
        return _fail(os_error_sentence(error))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return _fail(
            "there is not enough memory for this; ask for fewer or smaller mazes, or for fewer at once "
            "(--micro-batch in training, --batch-size in evaluation)."
        )
    except KeyboardInterrupt:
        return _fail("stopped.", code=130)
    return 0


def os_error_sentence(error: OSError) -> str:
    """What the system complains about, in one sentence."""
    name = str(error.filename) if error.filename is not None else "the output"
    if isinstance(error, FileNotFoundError):
        return f"{name} does not exist."
    if isinstance(error, PermissionError):
        return f"there is no permission to use {name}."
    if isinstance(error, IsADirectoryError):
        return f"{name} is a folder; give the name of a file."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full, so {name} could not be written; make room and run the command again."
    return f"{name} cannot be used: {error.strerror or error}."


def _discard_output() -> None:
    """Send what is still to be printed nowhere."""
    out = sys.__stdout__
    if out is not None and sys.stdout is out:  # a stand-in, as in tests, may have no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _fail(sentence: str, code: int = 1) -> int:
    print(f"clew: {sentence}", file=sys.stderr)
    return code
