"""How much memory there is, how to tell that it ran out, and freed memory that the process keeps for the next step.

The C library gives large pieces back to the system as soon as they are free, and a training step frees everything that
it kept for the way back. The next step gets the same pages again, each cleared by the kernel when it is first touched:
thousands a step. A process that keeps them trains a grid-pointer about a tenth faster (docs/experiments-log.md,
no. 25).
"""

from __future__ import annotations

import ctypes
import os
import sys

# Numbers of mallopt, from malloc.h of the GNU C library.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
LARGEST_KEPT = 32 << 20  # bytes of one array; a larger one still goes back at once
GROWTH = 64 << 20


def keep_freed_memory() -> bool:
    """From now on, keep what is freed; whether the C library can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:  # another C library
        return False
    settings = ((MMAP_THRESHOLD, LARGEST_KEPT), (TRIM_THRESHOLD, -1), (TOP_PAD, GROWTH))
    return all(mallopt(*setting) == 1 for setting in settings)


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
