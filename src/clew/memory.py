"""How much memory there is, and how to tell that it ran out."""

from __future__ import annotations

import os
import sys


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
