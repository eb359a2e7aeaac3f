"""The queue of solves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from clew.errors import UserError
from clew.web.solving import RequestError, SolveQueue, check_running

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own: the browser tests leave an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, main).result()


async def stays() -> bool:
    return False


async def collect(queue: SolveQueue, work: Any, has_left: Any = stays) -> list[Any]:
    return [event async for event in queue.run(work, has_left)]


def test_events_come_in_order_and_the_value_last() -> None:
    async def main() -> list[Any]:
        return await collect(SolveQueue(1, 1, 5), lambda emit: [emit(i) for i in range(3)] and "done")

    assert run(main()) == [("step", 0), ("step", 1), ("step", 2), ("result", "done")]


def test_errors_of_users_are_passed_on_and_others_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(emit: Any) -> None:
        raise UserError("a sentence.")

    with pytest.raises(UserError, match="a sentence"):
        run(collect(SolveQueue(1, 1, 5), wrong))
    with pytest.raises(UserError, match="model failed"):
        run(collect(SolveQueue(1, 1, 5), lambda emit: 1 / 0))
    assert "ZeroDivisionError" in capsys.readouterr().err


def endless(check: Any, ended: threading.Event) -> Any:
    """A solve that runs until `check`, its emit or `check_running`, ends it."""

    def work(emit: Any) -> None:
        emit("begun")
        try:
            while True:
                time.sleep(0.005)
                check() if check else emit("step")
        finally:
            ended.set()

    return work


@pytest.mark.parametrize("check", [None, check_running], ids=["between steps", "within a step"])
def test_a_solve_that_takes_too_long_is_ended(check: Any) -> None:
    ended = threading.Event()
    with pytest.raises(RequestError, match="longer than"):
        run(collect(SolveQueue(1, 1, 0.1), endless(check, ended)))
    assert ended.is_set()


@pytest.mark.parametrize("check", [None, check_running], ids=["between steps", "within a step"])
def test_a_solve_ends_when_its_consumer_leaves(check: Any) -> None:
    ended = threading.Event()

    async def main() -> None:
        queue = SolveQueue(1, 1, 60)
        events = queue.run(endless(check, ended), stays)
        await anext(events)
        await events.aclose()
        # The slot is free again, so the next solve runs.
        assert await collect(queue, lambda emit: 1) == [("result", 1)]

    run(main())
    assert ended.is_set()


def test_a_client_that_has_left_ends_its_solve_and_its_wait() -> None:
    release = threading.Event()

    async def left() -> bool:
        return True

    async def main() -> None:
        queue = SolveQueue(1, 2, 60)
        with pytest.raises(UserError, match="closed the connection"):
            await collect(queue, lambda emit: release.wait(10), left)
        began = time.monotonic()
        with pytest.raises(UserError, match="closed the connection"):  # the slot is still taken
            await collect(queue, lambda emit: 1, left)
        assert time.monotonic() - began < 5
        release.set()
        assert await collect(queue, lambda emit: 1) == [("result", 1)]

    run(main())


def test_a_client_that_leaves_between_quick_steps_ends_its_solve() -> None:
    ended, looks = threading.Event(), []

    async def leaves() -> bool:
        looks.append(None)
        return len(looks) > 3

    with pytest.raises(UserError, match="closed the connection"):
        run(collect(SolveQueue(1, 1, 60), endless(None, ended), leaves))
    assert ended.wait(5)


def test_at_most_some_wait() -> None:
    release = threading.Event()

    async def main() -> None:
        queue = SolveQueue(workers=1, max_waiting=1, seconds=60)
        running = asyncio.create_task(collect(queue, lambda emit: release.wait(10)))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(collect(queue, lambda emit: 2))
        await asyncio.sleep(0.05)
        with pytest.raises(RequestError, match="busy"):
            await collect(queue, lambda emit: 3)
        release.set()
        assert await running == [("result", True)]
        assert await waiting == [("result", 2)]

    run(main())
