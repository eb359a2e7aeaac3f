"""Run solves in threads: at most `workers` at once, a bounded queue before them, a time limit for each.

    queue = SolveQueue(workers=2, max_waiting=32, seconds=30)
    async for event in queue.run(lambda emit: model.solve(task, on_step=emit)):
        ...      # what was emitted, as it happens; the last one is Finished(value)

A solve ends when its consumer has gone or its time is over: at its next step, or where it calls `check_running`, as
the modules of a loaded model do. Its slot is free when its thread has ended, so that abandoned solves cannot pile up.
"""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from clew.errors import UserError

Emit = Callable[[Any], None]


class Busy(UserError):
    """Too many requests wait already, or a solve took too long."""

    status = 503


@dataclass(frozen=True)
class Finished:
    """The value that a solve returned."""

    value: Any


class Cancelled(UserError):
    """The consumer of a solve has gone, or the server stops."""


_running = threading.local()


def check_running() -> None:
    """Raise an exception if this thread computes a solve that must end."""
    getattr(_running, "check", lambda: None)()


class SolveQueue:
    """See the module's docstring."""

    def __init__(self, workers: int, max_waiting: int, seconds: float) -> None:
        self._slots = asyncio.Semaphore(workers)
        self._max_waiting = max_waiting
        self._seconds = seconds
        self._waiting = 0
        self.stopping = threading.Event()  # ends all solves

    async def run(self, work: Callable[[Emit], Any]) -> AsyncGenerator[Any, None]:
        """Yield what `work` emits, then Finished; an error of `work` is raised here."""
        if self._slots.locked() and self._waiting >= self._max_waiting:
            raise Busy("the server is busy; try again in a few seconds.")
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Any] = asyncio.Queue()
        gone = threading.Event()
        deadline = time.monotonic() + self._seconds

        def send(event: Any) -> None:
            # The loop may have been closed while the thread was computing.
            if not loop.is_closed():
                loop.call_soon_threadsafe(events.put_nowait, event)

        def check() -> None:
            if gone.is_set() or self.stopping.is_set():
                raise Cancelled("the server was stopped.")
            if time.monotonic() > deadline:
                raise Busy(f"solving took longer than {self._seconds:.0f} seconds; use a smaller maze.")

        def emit(event: Any) -> None:
            check()
            send(event)

        def work_in_thread() -> None:
            _running.check = check
            try:
                outcome: Any = Finished(work(emit))
            except Exception as error:
                outcome = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._slots.release)
            send(outcome)

        threading.Thread(target=work_in_thread, daemon=True).start()
        try:
            while True:
                event = await events.get()
                if isinstance(event, UserError):
                    raise event
                if isinstance(event, Exception):
                    traceback.print_exception(event)  # for the terminal; the client gets one sentence
                    raise UserError("the model failed on this maze; the server's terminal says why.")
                yield event
                if isinstance(event, Finished):
                    return
        finally:
            gone.set()
