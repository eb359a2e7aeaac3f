"""Makes the next batches in a thread while the last one is used.

    with prefetch(batches(loader, first_step=step), depth=2) as ready:
        for batch in ready:
            ...

The items are the iterator's own, all of them, in order; an exception arrives where its item would have. Items that
are ready but never asked for are lost, which costs nothing where the step says what comes next.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class _End:
    """What stands in the queue after the last item."""

    error: BaseException | None


class Prefetch(Iterator[T], Generic[T]):
    """An iterator that runs ahead; close it, or use it in a `with`, to stop its thread."""

    def __init__(self, source: Iterator[T], depth: int) -> None:
        assert depth >= 1
        self._ready: queue.Queue[T | _End] = queue.Queue(depth)
        self._stop = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, args=(source,), name="clew-prefetch", daemon=True)
        self._thread.start()

    def _run(self, source: Iterator[T]) -> None:
        error: BaseException | None = None
        try:
            for item in source:
                if not self._put(item):
                    return
        except BaseException as raised:  # it belongs to whoever asks for the next item
            error = raised
        self._put(_End(error))

    def _put(self, item: T | _End) -> bool:
        """Wait for room; False if the thread is to stop."""
        while not self._stop.is_set():
            try:
                self._ready.put(item, timeout=_POLL_SECONDS)
                return True
            except queue.Full:
                pass
        return False

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        item = self._ready.get()
        if not isinstance(item, _End):
            return item
        self._ended = True
        self._thread.join()
        if item.error is not None:
            raise item.error
        raise StopIteration

    def close(self) -> None:
        """Stop the thread, after the item it is at, and wait for it."""
        self._ended = True
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def prefetch(source: Iterator[T], depth: int = 2) -> Prefetch[T]:
    """Run `source` in a thread, at most `depth` items ahead (and one more in the making)."""
    return Prefetch(source, depth)
