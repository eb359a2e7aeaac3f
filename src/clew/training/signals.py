"""Stop signals: finish the step, save, stop.

    with handle_stop_signals() as stop:
        while not stop.signal: ...
    check_stop()          # in long work between two steps: raises Stopped if a signal has come

Ctrl-C, SIGTERM, SIGHUP (the terminal was closed), and SIGUSR2, by which a scheduler warns of its time limit. The first
signal is only noted; a second one ends the process at once, as without this. A SIGUSR2 never ends it: it may follow a
SIGTERM, and the checkpoint must still be written.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

# Windows has no SIGHUP and no SIGUSR2.
SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR2") if hasattr(signal, name)]


class Stopped(Exception):
    """A stop signal was received."""


@dataclass
class StopRequest:
    """The stop signal that was received, or 0."""

    signal: int = 0


_handled: list[StopRequest] = []  # a process has one set of handlers; the innermost request is the last


def check_stop() -> None:
    """Raise Stopped if a signal has come since `handle_stop_signals` began."""
    if _handled and _handled[-1].signal:
        raise Stopped


@contextmanager
def handle_stop_signals() -> Iterator[StopRequest]:
    """Note the first stop signal and every warning instead of obeying it."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may have handlers; a run in another thread is stopped by its owner
        return
    # A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) != signal.SIG_IGN}

    def note(number: int, frame: FrameType | None) -> None:
        stop.signal = number
        for other, handler in before.items():
            if other != getattr(signal, "SIGUSR2", None):
                signal.signal(other, handler)

    for number in before:
        signal.signal(number, note)
    _handled.append(stop)
    try:
        yield stop
    finally:
        _handled.remove(stop)
        for number, handler in before.items():
            signal.signal(number, handler)
