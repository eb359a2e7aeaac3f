"""Run solves in threads: at most `workers` at once, a bounded queue before them, a time limit for each.

    queue = SolveQueue(workers=2, max_waiting=32, seconds=30)
    async for kind, value in queue.run(lambda emit: model.solve(task, on_step=emit), request.is_disconnected):
        ...      # "step" and what was emitted, as it happens; then "result" and what was returned

A solve ends when its client has left or its time is over: at its next step, or where it calls `check_running`, as
the modules of a loaded model do. Its slot is free when its thread has ended, so that abandoned solves cannot pile up.
"""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from clew.errors import UserError

Emit = Callable[[Any], None]
Event = tuple[str, Any]
Events = AsyncGenerator[Event, None]


class RequestError(UserError):
    """An error that has an HTTP status of its own; that of other errors of users is 400."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


_running = threading.local()


def check_running() -> None:
    """Raise an exception if this thread computes a solve that must end."""
    getattr(_running, "check", lambda: None)()


class SolveQueue:
    """See the module's docstring."""

    def __init__(self, workers: int, max_waiting: int, seconds: float) -> None:
        self._slots = threading.Semaphore(workers)
        self._pending, self._most = 0, workers + max_waiting
        self._seconds = seconds
        self.stopping = threading.Event()  # ends all solves

    async def run(self, work: Callable[[Emit], Any], has_left: Callable[[], Awaitable[bool]]) -> Events:
        """Yield the steps and the result of `work`; its error is raised here."""
        if self._pending >= self._most:
            raise RequestError(503, "the server is busy; try again in a few seconds.")
        loop, events, gone = asyncio.get_running_loop(), asyncio.Queue[Event](), threading.Event()

        def emit(step: Any) -> None:
            check_running()
            loop.call_soon_threadsafe(events.put_nowait, ("step", step))

        def end(outcome: Event) -> None:
            self._pending -= 1
            events.put_nowait(outcome)

        def in_thread() -> None:
            outcome: Event = "error", UserError("the model failed; the server's terminal says why.")
            with self._slots:
                _running.check = partial(self._check, gone, time.monotonic() + self._seconds)
                try:
                    check_running()  # the client may have left while this waited
                    outcome = "result", work(emit)
                except UserError as error:
                    outcome = "error", error
                except Exception:
                    traceback.print_exc()
            with suppress(RuntimeError):  # the loop was closed while the thread was computing
                loop.call_soon_threadsafe(end, outcome)

        self._pending += 1
        threading.Thread(target=in_thread, daemon=True).start()
        try:
            kind = "step"
            while kind == "step":
                if await has_left():
                    raise UserError("the client closed the connection.")
                with suppress(TimeoutError):
                    kind, value = await asyncio.wait_for(events.get(), 0.5)
                    if kind == "error":
                        raise value
                    yield kind, value
        finally:
            gone.set()

    def _check(self, gone: threading.Event, deadline: float) -> None:
        if gone.is_set() or self.stopping.is_set():
            raise UserError("the server was stopped.")
        if time.monotonic() > deadline:
            raise RequestError(503, f"solving took longer than {self._seconds:.0f} seconds; use a smaller maze.")
