"""Ctrl-C, SIGTERM, and SIGUSR2, by which a scheduler warns of its time limit: finish the step, save, leave.

    with asked_to_leave() as leave:
        while not leave.asked: ...

The first signal only sets `asked`; a second one ends the process at once, as without this. A warning ends nothing:
it may follow a SIGTERM, and the checkpoint must still be written.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
WARNINGS = (signal.SIGUSR2,) if hasattr(signal, "SIGUSR2") else ()  # Windows has none


@dataclass
class Leave:
    """Whether, and by which signal, the run was asked to end."""

    signal: int = 0

    @property
    def asked(self) -> bool:
        return self.signal != 0


@contextmanager
def asked_to_leave() -> Iterator[Leave]:
    """Within, the first SIGTERM or SIGINT and every warning is noted and not obeyed."""
    leave = Leave()
    if threading.current_thread() is not threading.main_thread():
        yield leave  # only the main thread may have handlers; a run in another thread is ended by its owner
        return
    before = {number: signal.getsignal(number) for number in (*SIGNALS, *WARNINGS)}

    def note(number: int, frame: FrameType | None) -> None:
        leave.signal = number
        restore(SIGNALS)

    def restore(numbers: Iterable[int]) -> None:
        for number in numbers:
            signal.signal(number, before[number])

    for number in before:
        signal.signal(number, note)
    try:
        yield leave
    finally:
        restore(before)
