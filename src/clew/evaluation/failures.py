"""Failure classes of predicted paths.

    failure = classify(task, true_path, predicted)      # None if it is the true path, else a name of FAILURES

They are those that the paper describes, and "longer path" for the remaining valid ones. The first that fits, in the
order of FAILURES, is taken. Path-star graphs have classes of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from clew.mazes.checks import is_shortest, is_valid
from clew.mazes.maze import Cell, Path, PathStar, Task
from clew.mazes.solvers import bfs_path

FAILURES = {
    "unparsable": "the tokens are not a path",
    "equally short": "a valid path as short as the true one, but another",
    "diagonal or gap": "some step goes to a cell that is no neighbour, or stands still, or leaves the maze",
    "through a wall": "every step goes to a neighbour, but some through a wall or into a wall cell",
    "wrong turn, then back": "every step is possible and it ends on a shortest path, but it visits a cell twice",
    "longer path": "a valid path that is not a shortest one and visits no cell twice",
    "short of the goal": "a possible walk that ends on a shortest path before the goal",
    "wrong end": "a possible walk that begins elsewhere than at the start, or ends off every shortest path",
}
GRAPH_FAILURES = {
    "unparsable": "the tokens are not a path",
    "wrong arm": "the first step follows an edge, but into an arm that does not lead to the goal",
    "no such edge": "some step joins two nodes that no edge joins",
    "wrong end": "every step follows an edge, but it begins elsewhere than at the start or does not end at the goal",
    "longer path": "it ends at the goal, but visits a node twice",
}


def failure_classes(tasks: Iterable[Task]) -> dict[str, str]:
    """Return the classes that predictions for these tasks may have, with their descriptions."""
    graphs = [isinstance(task.maze, PathStar) for task in tasks]
    classes = {} if graphs and all(graphs) else dict(FAILURES)
    return classes | {name: words for name, words in GRAPH_FAILURES.items() if any(graphs) and name not in classes}


def classify(task: Task, true_path: Path, predicted: Path | None) -> str | None:
    """Return the class of a prediction, or None if it is the true path; `predicted` is None if it is unparsable."""
    if not predicted:
        return "unparsable"
    if predicted == true_path:
        return None
    if isinstance(task.maze, PathStar):
        return _classify_in_graph(task, true_path, predicted)
    if is_shortest(task, predicted):
        return "equally short"
    if any(not _adjacent(a, b) for a, b in pairwise(predicted)) or any(cell not in task.maze for cell in predicted):
        return "diagonal or gap"
    if any(task.maze.is_wall(cell) for cell in predicted) or any(
        not task.maze.is_open(a, b) for a, b in pairwise(predicted)
    ):
        return "through a wall"
    on_the_way = predicted[0] == task.start and _on_shortest_path(task, predicted[-1])
    if on_the_way and len(set(predicted)) < len(predicted):
        return "wrong turn, then back"
    if is_valid(task, predicted):
        return "longer path"
    return "short of the goal" if on_the_way else "wrong end"


def _classify_in_graph(task: Task, true_path: Path, predicted: Path) -> str:
    steps = [task.maze.is_open(a, b) for a, b in pairwise(predicted)]
    if predicted[0] == task.start and steps[:1] == [True] and predicted[1] != true_path[1]:
        return "wrong arm"
    if not all(steps):
        return "no such edge"
    return "longer path" if is_valid(task, predicted) else "wrong end"


def _adjacent(a: Cell, b: Cell) -> bool:
    return abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1


def _on_shortest_path(task: Task, cell: Cell) -> bool:
    """Return whether some shortest path from start to goal visits the cell."""
    whole = bfs_path(task)
    there, onwards = bfs_path(Task(task.maze, task.start, cell)), bfs_path(Task(task.maze, cell, task.goal))
    if whole is None or there is None or onwards is None:
        return False
    return len(there) + len(onwards) - 1 == len(whole)
