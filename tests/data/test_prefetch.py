from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count, islice

import pytest

from clew.data.loader import Prefetch


def alive() -> int:
    return sum(thread.name == "clew-prefetch" for thread in threading.enumerate())


@pytest.mark.parametrize("depth", [1, 2, 10])
def test_every_item_in_order_then_the_end(depth: int) -> None:
    with Prefetch(iter(range(50)), depth) as ready:
        assert list(ready) == list(range(50))
        assert list(ready) == []
    assert alive() == 0


def test_it_runs_ahead_but_not_far() -> None:
    made: list[int] = []

    def source() -> Iterator[int]:
        for i in count():
            made.append(i)
            yield i

    with Prefetch(source(), depth=2) as ready:
        assert next(ready) == 0
        time.sleep(0.2)
        assert made == [0, 1, 2, 3]  # one taken, two ready, one in the making


def test_closing_early_stops_the_thread() -> None:
    with Prefetch(count(), depth=2) as ready:
        assert list(islice(ready, 5)) == [0, 1, 2, 3, 4]
    assert alive() == 0
    assert list(ready) == []
    ready.close()


def test_an_error_arrives_in_its_place() -> None:
    def source() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("the third")

    with Prefetch(source(), depth=5) as ready:
        assert [next(ready), next(ready)] == [1, 2]
        with pytest.raises(ValueError, match="the third"):
            next(ready)
        assert list(ready) == []
    assert alive() == 0


def test_leaving_by_an_exception_stops_the_thread() -> None:
    def use() -> None:
        with Prefetch(count(), depth=1) as ready:
            next(ready)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        use()
    assert alive() == 0
