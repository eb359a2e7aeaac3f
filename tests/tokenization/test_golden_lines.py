"""Lines written by the published implementations are read, and written again, token for token."""

from __future__ import annotations

import json
from pathlib import Path as FilePath

import pytest

from clew.mazes.solvers import astar, bfs_path, is_shortest, num_shortest
from clew.tokenization.format import EdgeList, WallList, plan_tokens, prompt_tokens, trace_tokens
from clew.tokenization.read import iter_tasks
from clew.tokenization.tokens import Vocabulary

GOLDEN = FilePath(__file__).parents[1] / "golden"
ASTAR_LINES = [json.loads(line) for line in (GOLDEN / "astar.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("size", "count"), [(5, 100), (10, 20)])
def test_edge_list_lines(size: int, count: int) -> None:
    lines = (GOLDEN / f"dfs-{size}.txt").read_text().splitlines()
    assert len(lines) == count
    for line in lines:
        parsed = EdgeList().parse(line.split())
        task, path, edges = parsed.task, parsed.path, parsed.edges
        assert edges is not None
        assert path is not None
        assert task.maze.cells.shape == (size, size)
        assert EdgeList().encode(task, path, edges=edges).text == line
        assert path == bfs_path(task)
        assert num_shortest(task) == 1


def test_the_edge_list_vocabulary_is_the_published_one() -> None:
    golden = json.loads((GOLDEN / "mlmu-tiny.json").read_text())
    vocabulary = EdgeList().vocabulary(4, 4)
    assert vocabulary == Vocabulary(tuple(golden["vocab"]))
    assert vocabulary.size == golden["config"]["vocab_size"]
    for text in golden["text"]:
        assert EdgeList().parse(text.split()).task.maze.cells.shape == (4, 4)


def test_cells_are_sorted_as_strings_not_as_numbers() -> None:
    tokens = EdgeList().vocabulary(12, 12).tokens
    assert tokens.index("(10,0)") < tokens.index("(2,0)")


@pytest.mark.parametrize("line", ASTAR_LINES)
def test_wall_list_lines(line: dict) -> None:
    size = {"height": line["height"], "width": line["width"]}
    form = WallList(with_trace=True)
    plain = f"{line['prompt']} {line['trace']} {line['plan']}"
    parsed = form.parse(plain.split(), **size)
    assert parsed.path is not None
    assert parsed.trace is not None
    assert " ".join(prompt_tokens(parsed.task)) == line["prompt"]
    assert " ".join(trace_tokens(parsed.trace)) == line["trace"]
    assert " ".join(plan_tokens(parsed.path)) == line["plan"]
    assert [[col, row] for row, col in parsed.task.maze.walls()] == line["walls"]
    assert is_shortest(parsed.task, parsed.path)
    # The sequence for models says the same, and its trace is our own search's.
    assert list(parsed.trace) == astar(parsed.task).trace
    written = form.encode(parsed.task, parsed.path)
    assert written.text == f"bos {line['prompt']} eos <PATH_START> bos {line['trace']} {line['plan']} eos"
    assert form.parse(written.tokens, **size) == parsed
    without = WallList(with_trace=False).encode(parsed.task, parsed.path)
    assert without.text == f"bos {line['prompt']} eos <PATH_START> bos {line['plan']} eos"


def test_the_lines_are_read_from_files() -> None:
    assert [read.kind for read in iter_tasks(GOLDEN / "dfs-5.txt")] == ["edge-list"] * 100
    tasks = list(iter_tasks(GOLDEN / "astar.jsonl"))
    assert [read.line for read in tasks] == list(range(1, 172))
    for read, line in zip(tasks, ASTAR_LINES, strict=True):
        assert read.task.maze.cells.shape == (line["height"], line["width"])
        assert read.path is not None
        assert " ".join(plan_tokens(read.path)) == line["plan"]
