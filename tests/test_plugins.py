"""Components from a file outside the package: docs/extend.md as a plug-in, from training to evaluation."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "extend.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.M | re.S)
    (folder / "mine.py").write_text("\n".join(blocks))
    return folder


def clew(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "clew", *arguments], cwd=folder, capture_output=True, text=True)


def test_every_class_is_short() -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.M | re.S):
        body = block[block.index("@clew.register") :]
        assert len(body.splitlines()) <= 40


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """A run of the plug-in's family, format, objective and model."""
    config = {
        "data": {"family": "branches", "sizes": [4], "format": "compass"},
        "model": {"kind": "bag-of-tokens", "vocabulary": 128},
        "budget": {"steps": 3},
        "objective": {"name": "hide-one"},
        "batch_size": 8,
        "held_out": 8,
    }
    (folder / "config.json").write_text(json.dumps(config))
    trained = clew(folder, "train", "config.json", "--plugin", "mine", "--out", "run")
    assert trained.returncode == 0, trained.stderr
    return folder / "run"


def test_a_plugin_is_trained_saved_and_evaluated(folder: Path, run: Path) -> None:
    saved = json.loads((run / "config.json").read_text())
    assert (saved["data"]["family"], saved["data"]["format"]) == ("branches", "compass")
    assert (saved["model"]["kind"], saved["objective"]["name"]) == ("bag-of-tokens", "hide-one")
    done = clew(folder, "evaluate", "run", "--plugin", "mine", "--decoder", "every-other:n=3", "--mazes", "8", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["evaluations"][0]["mazes"] == 8
    without = clew(folder, "evaluate", "run", "--mazes", "8")
    assert without.returncode == 1
    assert without.stderr.count("\n") == 1
    assert "--plugin" in without.stderr


def test_a_plugin_is_shown_by_the_page(folder: Path, run: Path) -> None:
    command = [sys.executable, "-m", "clew", "serve", "--plugin", "mine", "--runs", ".", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            host = server.stdout.readline().removeprefix("http://").partition("/")[0]

            def request(path: str, body: object = None) -> dict[str, Any]:
                connection = http.client.HTTPConnection(host, timeout=60)
                connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
                answer = connection.getresponse()
                assert answer.status == 200, answer.read()
                return dict(json.load(answer))

            listed = request("/api/models")
            model = next(model for model in listed["models"] if model["name"] == "run")
            assert "every-other" in model["decoders"]
            assert model["objective"] == "hide-one"
            assert "branches" in listed["families"]
            maze = request("/api/generate", {"family": "branches", "height": 4, "width": 4, "seed": 1})
            solution = request("/api/solve", {"maze": maze, "model": "run", "decoder": "every-other:n=3"})
            assert solution["steps"]
            assert request("/api/runs")["runs"][0]["config"]["data"]["family"] == "branches"
        finally:
            server.terminate()


def test_an_entry_point_is_loaded(folder: Path, run: Path, tmp_path: Path) -> None:
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[clew.plugins]\nmine = mine\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "clew", "evaluate", "run", "--mazes", "8", "--json"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_family_makes_a_dataset(folder: Path) -> None:
    arguments = ("--size", "5", "--count", "30", "--test", "5", "--out", "data")
    made = clew(folder, "generate", "branches", "--plugin", "mine", *arguments)
    assert made.returncode == 0, made.stderr
    assert clew(folder, "generate", "branches", *arguments).returncode != 0


def test_components_are_chosen_on_the_command_line(folder: Path) -> None:
    arguments = ["--objective.rates.shape", "mostly-hidden", "--data.family", "branches", "--data.format", "compass"]
    arguments += ["--model.kind", "bag-of-tokens", "--model.width", "12", "--steps", "2", "--held-out", "0"]
    done = clew(folder, "train", "tiny", "--plugin", "mine", *arguments, "--out", "chosen")
    assert done.returncode == 0, done.stderr
    saved = json.loads((folder / "chosen" / "config.json").read_text())
    assert (saved["data"]["family"], saved["data"]["format"]) == ("branches", "compass")
    assert saved["objective"]["rates"]["shape"] == "mostly-hidden"
    assert saved["model"] == {"kind": "bag-of-tokens", "vocabulary": 128, "width": 12}


@pytest.mark.parametrize(
    ("text", "words"),
    [("import nonsense_module", "nonsense_module"), ("1/0", "ZeroDivisionError"), ("def", "SyntaxError")],
)
def test_a_broken_plugin_gets_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "broken.py").write_text(text)
    done = clew(tmp_path, "train", "--plugin", "broken", "--list")
    assert done.returncode != 0
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
