"""The API of the page, without a socket."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import clew
from clew.web.app import MAX_BODY_BYTES, Settings, create_app

DRAWING = "+--+--+--+\n|S    |  |\n+--+  +  +\n|  |     |\n+  +--+  +\n|       G|\n+--+--+--+"
PATH = [[0, 0], [1, 0], [1, 1], [2, 1], [2, 2]]


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(Settings(workers=1)), base_url="http://localhost", raise_server_exceptions=False)


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
    request = {"maze": DRAWING, "model": "cells-dfs", "decoder": "walk:ask=cell"}
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
        ("/api/solve", {"maze": DRAWING.replace("S  ", "S |"), "model": "cells-dfs"}, 400, "no path leads"),
        ("/api/solve", ["list"], 400, "JSON object"),
        ("/api/generate", {"family": "nope"}, 400, "nope"),
        ("/api/generate", {"family": "dfs", "height": 1}, 400, "height"),
        ("/api/generate", {"family": "dfs", "height": 10**9}, 400, "height"),
        ("/api/generate", {"family": "dfs", "height": True}, 400, "height"),
        ("/api/generate", {"family": "dfs", "seed": -1}, 400, "seed"),
        ("/api/read", {"text": ""}, 400, ""),
        ("/api/runs/nope", None, 404, "no run"),
        ("/api/results/nope.png", None, 404, "no figure"),
        ("/nope", None, 404, ""),
    ],
)
def test_bad_requests_get_one_sentence(client: TestClient, path: str, body: object, status: int, words: str) -> None:
    response = client.get(path) if body is None else client.post(path, json=body)
    assert response.status_code == status
    assert words in response.json()["error"]


def test_large_requests_are_refused(client: TestClient) -> None:
    assert client.post("/api/solve", content=b"x" * (MAX_BODY_BYTES + 1)).status_code == 413
    maze = "\n".join(["#" * 131, *(["#" + "." * 129 + "#"] * 129), "#" * 131])
    response = client.post("/api/read", json={"text": maze.replace(".", "S", 1)[::-1].replace(".", "G", 1)[::-1]})
    assert response.status_code in (400, 413)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 400),
        ({"Host": "localhost:8000"}, 200),
        ({"Origin": "https://evil.example"}, 400),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "null"}, 400),
    ],
)
def test_other_hosts_and_origins_are_refused(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.get("/", headers=headers).status_code == status


def test_every_response_has_security_headers(client: TestClient) -> None:
    for path in ("/", "/runs", "/results", "/api/models", "/static/app.js", "/nope"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_runs_and_results(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    client = TestClient(create_app(Settings(runs=tmp_path, results=tmp_path)), base_url="http://localhost")
    (row,) = client.get("/api/runs").json()["runs"]
    assert row["name"] == "broken"
    assert "JSON" in row["error"]
    results = client.get("/api/results").json()
    assert {study["state"] for study in results["studies"]} == {"not run yet"}
    assert results["shipped"] == []


def test_a_run_has_its_held_out_accuracy(tmp_path: Path) -> None:
    config = clew.config("tiny", steps=2, batch_size=4, held_out=4)
    run = clew.train(config, tmp_path / "a" / "b", quiet=True)
    client = TestClient(create_app(Settings(runs=tmp_path)), base_url="http://localhost")
    (row,) = client.get("/api/runs").json()["runs"]
    assert (row["name"], row["step"], row["progress"]) == ("a/b", 2, 1.0)
    assert row["parameters"] == run.model.parameters
    assert row["exact"] == run.metrics[-1]["scores"]["exact"]
    shown = client.get("/api/runs/a/b").json()
    assert shown["config"]["budget"]["steps"] == 2
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
