"""`clew serve` as a process: it answers during long solves, ends them when clients leave, and stops at Ctrl-C."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew


@pytest.fixture(scope="module")
def server(serve) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with serve("--solves", "1", "--seconds", "600") as found:
        yield found


@pytest.fixture(scope="module")
def address(server) -> str:
    return server[0]


def request(address: str, method: str, path: str, body: object = None, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    return connection.getresponse()


def long_solve(address: str, **headers: str) -> http.client.HTTPConnection:
    """Begin to solve a 30x30 maze of a long path with one pass a cell, and return the open connection."""
    task, path = max(clew.generate("dfs", size=30, n=30, split="test"), key=lambda pair: len(pair[1]))
    assert len(path) > 200
    maze = {"height": 30, "width": 30, "cells": task.maze.cells.tolist()}
    maze |= {"start": task.start[::-1], "goal": task.goal[::-1]}
    body = {"maze": maze, "model": "cells-dfs", "decoder": "walk:query=cell"}
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    connection.request("POST", "/api/solve", json.dumps(body), headers)
    return connection


def long_stream(address: str) -> http.client.HTTPResponse:
    """Return the open stream of the steps of `long_solve`."""
    stream = long_solve(address, Accept="text/event-stream").getresponse()
    assert stream.status == 200
    return stream


def steps(stream: http.client.HTTPResponse, count: int) -> float:
    """Read so many steps, and return the seconds that they took."""
    began = time.monotonic()
    while count > 0:
        line = stream.readline()
        assert line, "the solve has ended"
        assert line != b"event: result\n", "the maze is too easy for this test"
        count -= line == b"event: step\n"
    return time.monotonic() - began


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Return the processor time that a process has used; unlike the clock, it does not depend on other processes."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_first_visit_costs_the_server_less_than_a_second(server) -> None:
    address, process = server
    before = cpu_seconds(process)
    for path in ("/", "/static/style.css", "/static/app.js", "/static/panel.js", "/static/view.js", "/api/models"):
        assert request(address, "GET", path).status == 200
    maze = json.loads(request(address, "POST", "/api/generate", {"family": "dfs", "seed": 1}).read())
    for path in ("/api/solve", "/api/loops"):
        assert request(address, "POST", path, {"maze": maze, "model": "cells-dfs"}).status == 200
    assert cpu_seconds(process) - before < 1


def test_the_page_answers_while_a_30x30_maze_is_solved(address: str) -> None:
    stream = long_stream(address)
    steps(stream, 2)
    began = time.monotonic()
    answers = [request(address, "GET", path).status for path in ("/", "/api/models", "/static/app.js", "/runs")]
    answers.append(request(address, "POST", "/api/generate", {"family": "dfs"}).status)
    took = time.monotonic() - began
    assert answers == [200] * 5
    # The solve has not ended: 15 more steps, which take longer than the five answers did.
    assert steps(stream, 15) > took
    stream.close()


@pytest.mark.parametrize("streaming", [True, False])
def test_a_client_that_leaves_ends_its_solve(address: str, streaming: bool) -> None:
    stream = long_stream(address)
    ten_steps = steps(stream, 10)
    stream.close()
    if not streaming:
        connection = long_solve(address)
        time.sleep(ten_steps)
        connection.close()
    # One solve at a time is allowed, so this one waits for the end of the other, which has 190 steps to go.
    began = time.monotonic()
    answer = request(address, "POST", "/api/solve", {"maze": "S.G\n...", "model": "cells-dfs", "decoder": "one-pass"})
    assert answer.status == 200
    assert time.monotonic() - began < 10 * ten_steps


def test_it_listens_on_one_local_address(address: str) -> None:
    port = int(address.rpartition(":")[2])
    assert address == f"http://127.0.0.1:{port}"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_ctrl_c_ends_it_within_two_seconds(serve) -> None:
    with serve() as (address, process):
        stream = long_stream(address)
        steps(stream, 1)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)
        assert time.monotonic() - began < 2
        assert b"the server was stopped" in stream.read()
    assert process.returncode in (0, 130, -signal.SIGINT)
