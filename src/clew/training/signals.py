"""Stop signals: finish the step, save, stop.

    with handle_stop_signals() as stop:
        while not stop.signal: ...
    check_stop()          # in long work between two steps: raises Stopped if a signal has come

The first Ctrl-C, SIGTERM or SIGHUP (the terminal was closed) is only noted; a second one ends the process at once. A
SIGUSR2, by which a scheduler warns of its time limit, never does: the checkpoint must still be written.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

WARNING = getattr(signal, "SIGUSR2", None)  # Windows has no SIGHUP and no SIGUSR2
SIGNALS = [signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", None), WARNING]


class Stopped(Exception): ...


@dataclass
class StopRequest:
    signal: int = 0  # that was received


_current = StopRequest()


def check_stop() -> None:
    """Raise Stopped if a signal has come since `handle_stop_signals` began."""
    if _current.signal:
        raise Stopped


@contextmanager
def handle_stop_signals() -> Iterator[StopRequest]:
    """Note the first stop signal and every warning instead of obeying it."""
    global _current
    stop, outer, before = StopRequest(), _current, {}
    # Only the main thread may have handlers; a run in another thread is stopped by its owner.
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in SIGNALS if number is not None}
    # A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    before = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}

    def note(number: int, frame: FrameType | None) -> None:
        stop.signal = number
        for other in before.keys() - {WARNING}:
            signal.signal(other, before[other])

    for number in before:
        signal.signal(number, note)
    try:
        _current = stop
        yield stop
    finally:
        _current = outer
        for number, handler in before.items():
            signal.signal(number, handler)
