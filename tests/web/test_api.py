"""The API of the page, without a socket."""

from __future__ import annotations

import asyncio
import io
import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from PIL import Image
from starlette.testclient import TestClient

import clew
from clew.web.app import HEADERS, MAX_BODY_BYTES, Api, App, Settings
from clew.web.models import ModelStore

DRAWING = "+--+--+--+\n|S    |  |\n+--+  +  +\n|  |     |\n+  +--+  +\n|       G|\n+--+--+--+"
GOLDEN = Path(__file__).parents[1] / "golden"
PATH = [[0, 0], [1, 0], [1, 1], [2, 1], [2, 2]]


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(App(Settings(workers=1)), base_url="http://localhost", raise_server_exceptions=False)


def solve(client: TestClient, **changes: object) -> object:
    return client.post("/api/solve", json={"maze": DRAWING, "model": "cells-dfs", "decoder": "one-pass"} | changes)


def test_models_are_listed_with_their_decoders(client: TestClient) -> None:
    models = {model["name"]: model for model in client.get("/api/models").json()["models"]}
    assert {"cells-dfs", "cells-astar", "text-dfs-4-mlmu", "text-dfs-4-next"} <= set(models)
    assert "walk-repair" in models["cells-dfs"]["decoders"]
    assert models["text-dfs-4-next"]["decoders"] == ["left-to-right"]


@pytest.mark.parametrize("family", ["dfs", "astar", "percolation"])
def test_a_generated_maze_is_solved(client: TestClient, family: str) -> None:
    maze = client.post("/api/generate", json={"family": family, "height": 6, "width": 7, "seed": 3}).json()
    assert (maze["height"], maze["width"], len(maze["cells"])) == (6, 7, 6)
    answer = solve(client, maze=maze, model="cells-astar" if family == "astar" else "cells-dfs").json()
    assert set(answer) >= {"path", "exact", "valid", "shortest", "failure", "passes", "ms", "steps"}
    assert answer["exact_path"][0] == maze["start"]
    assert answer["exact_path"][-1] == maze["goal"]


@pytest.mark.parametrize("name", ["dfs-5.txt", "astar.jsonl"])
def test_the_first_maze_of_a_file_is_read(client: TestClient, name: str) -> None:
    content = (GOLDEN / name).read_bytes()
    maze = client.post("/api/read", content=content).json()
    assert maze["count"] == len(clew.read(GOLDEN / name)) > 1
    assert (maze["height"], maze["width"]) == clew.read(GOLDEN / name)[0].task.maze.cells.shape


def test_an_image_is_read(client: TestClient) -> None:
    pixels = [[0] * 5, [0, 1, 2, 3, 0], [0] * 5]  # black, green start, white, red goal
    image = Image.new("RGB", (5, 3))
    image.putdata([[(0, 0, 0), (0, 255, 0), (255, 255, 255), (255, 0, 0)][pixel] for row in pixels for pixel in row])
    file = io.BytesIO()
    image.save(file, "png")
    maze = client.post("/api/read", content=file.getvalue()).json()
    assert (maze["count"], maze["width"], maze["start"], maze["goal"]) == (1, 5, [1, 1], [3, 1])


def test_a_name_of_a_file_is_not_opened(client: TestClient) -> None:
    name = str(GOLDEN / "dfs-5.txt")
    assert client.post("/api/read", content=name.encode()).status_code == 400
    assert solve(client, maze=name).status_code == 400


def test_the_same_seed_gives_the_same_maze(client: TestClient) -> None:
    request = {"family": "dfs", "height": 5, "width": 5, "seed": 9}
    first, second = (client.post("/api/generate", json=request).json() for _ in range(2))
    assert first == second
    assert first != client.post("/api/generate", json=request | {"seed": 10}).json()


def test_a_path_star_graph_is_generated(client: TestClient) -> None:
    graph = client.post("/api/generate", json={"family": "path-star-2x4", "seed": 1}).json()
    assert len(graph["edges"]) == 6
    assert graph["start"] != graph["goal"]


def test_a_solution_has_every_step(client: TestClient) -> None:
    answer = solve(client).json()
    assert answer["path"] == PATH
    assert answer["exact"]
    assert answer["valid"]
    assert answer["shortest"]
    assert answer["failure"] is None
    (step,) = answer["steps"]
    assert [filled["cell"] for filled in step["filled"]] == PATH[1:] or [f["cell"] for f in step["filled"]] == PATH
    assert len(step["probabilities"]) == 3


def test_steps_stream_as_events(client: TestClient) -> None:
    request = {"maze": DRAWING, "model": "cells-dfs", "decoder": "walk:query=cell"}
    with client.stream("POST", "/api/solve", json=request, headers={"Accept": "text/event-stream"}) as response:
        events = "".join(response.iter_text()).strip().split("\n\n")
    names = [event.split("\n")[0] for event in events]
    assert names == ["event: step"] * (len(names) - 1) + ["event: result"]
    assert len(names) > 3
    result = json.loads(events[-1].split("\n")[1].removeprefix("data: "))
    assert result["path"] == PATH


def test_text_models_say_tokens(client: TestClient) -> None:
    answer = solve(client, model="text-dfs-4-mlmu", decoder="certainty").json()
    assert {"position", "token", "probability"} <= set(answer["steps"][0]["filled"][0])
    assert answer["steps"][0]["probabilities"] is None


def test_loops_of_a_cell_network(client: TestClient) -> None:
    answer = client.post("/api/loops", json={"maze": DRAWING, "model": "cells-dfs"}).json()
    assert len(answer["loops"]) == len(answer["numbers"])
    assert len(answer["loops"][0]) == 3
    assert client.post("/api/loops", json={"maze": DRAWING, "model": "text-dfs-4-mlmu"}).status_code == 400


def test_an_animation_is_a_gif(client: TestClient) -> None:
    response = client.post("/api/animate", json={"maze": DRAWING, "model": "cells-dfs", "decoder": "walk"})
    assert response.headers["content-type"] == "image/gif"
    assert response.content.startswith(b"GIF8")


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/api/solve", {"maze": "no maze", "model": "cells-dfs"}, 400, ""),
        ("/api/solve", {"maze": DRAWING, "model": "../weights/cells-dfs"}, 404, "no model"),
        ("/api/solve", {"maze": DRAWING, "model": "/etc/passwd"}, 404, "no model"),
        ("/api/solve", {"maze": DRAWING, "model": "cells-dfs", "decoder": "nope"}, 400, "decoder"),
        ("/api/solve", {"maze": DRAWING, "model": "cells-dfs", "decoder": 3}, 400, "decoder as text"),
        ("/api/solve", {"model": "cells-dfs"}, 400, "maze"),
        ("/api/solve", {"maze": f"{DRAWING}\n\n{DRAWING}", "model": "cells-dfs"}, 400, "holds 2 mazes; give one"),
        ("/api/solve", {"maze": DRAWING.replace("S  ", "S |"), "model": "cells-dfs"}, 400, "no path leads"),
        ("/api/solve", ["list"], 400, "JSON object"),
        ("/api/generate", {"family": "nope"}, 400, "nope"),
        ("/api/generate", {"family": "dfs", "height": 1}, 400, "height"),
        ("/api/generate", {"family": "dfs", "height": 10**9}, 400, "height"),
        ("/api/generate", {"family": "dfs", "height": True}, 400, "height"),
        ("/api/generate", {"family": "dfs", "seed": -1}, 400, "seed"),
        ("/api/read", {"text": ""}, 400, ""),
        ("/api/runs/nope", None, 404, "no run"),
        ("/api/results/nope.png", None, 404, "no result"),
        ("/nope", None, 404, "nope"),
        ("/api/solve", None, 400, "GET is not possible"),
        ("/api/models", {}, 400, "POST is not possible"),
        ("/api/solve", {"maze": DRAWING, "model": "cells-dfs", "decoder": "walk:loops=1000"}, 400, "loops up to 4"),
        ("/api/solve", {"maze": DRAWING, "model": "cells-dfs", "decoder": "walk:tolerance=0"}, 400, "tolerance"),
        ("/api/solve", {"maze": DRAWING, "model": "cells-dfs", "decoder": "walk:every=9999"}, 400, "every up to 16"),
    ],
)
def test_bad_requests_get_one_sentence(client: TestClient, path: str, body: object, status: int, words: str) -> None:
    response = client.get(path) if body is None else client.post(path, json=body)
    assert response.status_code == status
    assert words in response.json()["error"]


def test_half_of_a_surrogate_pair_is_no_maze(client: TestClient) -> None:
    body = b'{"maze": "\\ud800", "model": "cells-dfs"}'
    assert client.post("/api/solve", content=body).status_code == 400


def chunks() -> Iterator[bytes]:
    """A body above the limit, whose length is not announced."""
    yield from [b"x" * 1000] * (MAX_BODY_BYTES // 1000 + 1)


@pytest.mark.parametrize("body", [b"x" * (MAX_BODY_BYTES + 1), chunks()], ids=["announced", "chunked"])
def test_bodies_above_a_megabyte_are_refused(client: TestClient, body: bytes | Iterator[bytes]) -> None:
    response = client.post("/api/solve", content=body)
    assert response.status_code == 413
    assert "1,000,000 bytes" in response.json()["error"]


@pytest.mark.parametrize(("side", "status"), [(64, 200), (65, 413)])
def test_mazes_have_at_most_64_rows_and_columns(client: TestClient, side: int, status: int) -> None:
    drawing = "\n".join(["S" + "." * (side - 1), *["." * side] * (side - 2), "." * (side - 1) + "G"])
    response = client.post("/api/read", content=drawing.encode())
    assert (response.status_code, "at most 64" in response.text) == (status, status == 413)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 400),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 400),
        ({"Host": "localhost:8000"}, 200),
        ({"Origin": "https://evil.example"}, 400),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "http://localhost:3000"}, 400),  # another page of this machine
        ({"Host": "localhost:8000", "Origin": "http://localhost:8000"}, 200),
        ({"Origin": "null"}, 400),
    ],
)
def test_other_hosts_and_origins_are_refused(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.get("/", headers=headers).status_code == status


def test_every_response_has_security_headers(client: TestClient) -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    for path in ("/", "/runs", "/results", "/api/models", "/static/app.js", "/nope"):
        headers = client.get(path, headers={"Origin": "http://localhost"}).headers
        assert headers["content-security-policy"] == policy
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-cache")
        assert not [name for name in headers if name.startswith("access-control")]


def test_a_failing_request_is_one_sentence_and_the_next_is_answered(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(ModelStore, "listed", lambda self: 1 / 0)
        broken.setattr(ModelStore, "load", lambda self, name: 1 / 0)
        failed = client.get("/api/models")
        assert (failed.status_code, failed.json()) == (500, {"error": "the server failed; its terminal says why."})
        assert failed.headers["x-content-type-options"] == "nosniff"
        assert solve(client).status_code == 400
        assert "ZeroDivisionError" in capsys.readouterr().err
    assert client.get("/api/models").status_code == 200
    assert solve(client).status_code == 200


def test_a_full_queue_says_when_to_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()

    def wait(self: Api, *_: object) -> None:
        begun.set()
        release.wait(10)

    monkeypatch.setattr(Api, "solution", wait)
    app = App(Settings(workers=1, max_waiting=0))

    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            body = {"maze": DRAWING, "model": "cells-dfs"}
            first = asyncio.create_task(http.post("/api/solve", json=body))
            await asyncio.to_thread(begun.wait, 10)
            second = await http.post("/api/solve", json=body)
            release.set()
            await first
            return second

    with ThreadPoolExecutor(1) as pool:  # the browser tests leave an event loop in this thread
        refused = pool.submit(asyncio.run, main()).result()
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    assert "busy" in refused.json()["error"]


@pytest.mark.parametrize("path", ["/api/solve", "/api/loops", "/api/animate"])
def test_a_solve_has_a_time_limit(path: str) -> None:
    client = TestClient(App(Settings(seconds=1e-9)), base_url="http://localhost")
    late = client.post(path, json={"maze": DRAWING, "model": "cells-dfs"})
    assert (late.status_code, late.headers.get("retry-after")) == (503, "2")
    assert "longer than" in late.json()["error"]


def test_runs_and_results(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    client = TestClient(App(Settings(runs=tmp_path, results=tmp_path)), base_url="http://localhost")
    (row,) = client.get("/api/runs").json()["runs"]
    assert row["name"] == "broken"
    assert "JSON" in row["error"]
    results = client.get("/api/results").json()
    assert {study["state"] for study in results["studies"]} == {"not run yet"}
    assert results["shipped"] == {}


def test_a_run_has_its_held_out_accuracy(tmp_path: Path) -> None:
    config = clew.config("tiny", steps=2, batch_size=4, held_out=4)
    run = clew.train(config, tmp_path / "a" / "b", quiet=True)
    client = TestClient(App(Settings(runs=tmp_path)), base_url="http://localhost")
    (row,) = client.get("/api/runs").json()["runs"]
    assert (row["name"], row["step"], row["progress"]) == ("a/b", 2, 1.0)
    assert row["parameters"] == run.model.parameters
    assert row["exact"] == run.metrics[-1]["scores"]["exact"]
    assert row["config"]["budget"]["steps"] == 2
    shown = client.get("/api/runs/a/b").json()
    assert [len(points) for points in shown["curves"].values()] == [len(run.metrics) - 1, 1]
    assert "a/b" in [model["name"] for model in client.get("/api/models").json()["models"]]


def test_fuzzed_requests_never_fail_the_server(client: TestClient) -> None:
    """A few of what benchmarks/web_load.py sends by the thousand."""
    rng = random.Random(0)
    values = [None, True, -1, 0, 2, 65, 1e308, "", "dfs", "#S G#", DRAWING, [], [[1]], {}, {"cells": [[1]]}]
    keys = ["maze", "model", "decoder", "family", "height", "width", "seed", "text"]
    for _ in range(150):
        body = {key: rng.choice(values) for key in rng.sample(keys, 5)}
        if rng.random() < 0.5:
            body["model"] = "cells-dfs"
        path = rng.choice(["/api/solve", "/api/generate", "/api/read", "/api/loops", "/api/animate"])
        response = client.post(path, json=body)
        assert response.status_code in (200, 400, 404, 413), (path, body, response.text)
