"""Formats that list edges: edge-list for mazes, as maze-dataset writes them, and path-star for path-star graphs.

    <ADJLIST_START> (0,0) (0,1) ; (1,1) (0,1) ; <ADJLIST_END>
    <ORIGIN_START> (0,0) <ORIGIN_END> <TARGET_START> (1,1) <TARGET_END>
    <PATH_START> (0,0) (0,1) (1,1) <PATH_END>

on one line. Cells are (row,col), one token each; the passages come in random order, each with its two ends in random
order. A wall cell reads back as a cell without passages. A path-star text is

    3 5 | 5 1 | 3 2 | 2 6 | 3 6 <PATH_START> 3 2 6 <PATH_END>

with the node nearer to the centre first in each edge, then start and goal. `path-star-reversed` writes the path from
the goal to the start, so that every node is the predecessor of the last one and nothing is left to choose.

A text names the cells that have edges only. Where `parse` is not told the size, it takes the smallest that holds them.

Shape suffixes: N mazes, E edges of all mazes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.jit import njit
from clew.mazes.compiled import begin_stream, next_64, shuffle_first
from clew.mazes.maze import (
    MIN_LABELS,
    MIN_SIDE,
    Cell,
    Edge,
    Maze,
    Path,
    PathStar,
    Task,
    check_labels,
    check_shape,
    offsets,
)
from clew.tokenization.tokens import (
    PATH_END,
    PATH_START,
    Encoded,
    Parsed,
    TokenReader,
    Vocabulary,
    cell_token,
    cell_tokens,
    check_grid,
)

ADJLIST_START, ADJLIST_END = "<ADJLIST_START>", "<ADJLIST_END>"
ORIGIN_START, ORIGIN_END = "<ORIGIN_START>", "<ORIGIN_END>"
TARGET_START, TARGET_END = "<TARGET_START>", "<TARGET_END>"
EDGE_END, STAR_EDGE_END = ";", "|"
CONNECTOR = "<-->"  # some versions of maze-dataset put it between the two cells; it is read, never written

# Sets these streams apart from those that drew the maze itself, which may have had the same seed.
_STREAM_OF_TEXT = 0x7465787400000000
_LOWEST_BIT = np.uint64(1)


@dataclass(frozen=True)
class EdgeList:
    """The format of the DFS mazes."""

    name: str = "edge-list"
    end_token: str = PATH_END

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        check_shape(height, width)
        words = [ADJLIST_START, ADJLIST_END, ORIGIN_START, ORIGIN_END, TARGET_START, TARGET_END]
        return Vocabulary.of([*words, EDGE_END, PATH_START, PATH_END, *cell_tokens(height, width)])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        check_grid(task, self.name)
        return self.encode_edges(shuffled_edges(task.maze, seed), task, path)

    def encode_edges(self, edges: Sequence[Edge], task: Task, path: Path | None) -> Encoded:
        """Return the text with its edges in this order and direction."""
        prompt = [ADJLIST_START, *(token for a, b in edges for token in (cell_token(a), cell_token(b), EDGE_END))]
        prompt += [ADJLIST_END, ORIGIN_START, cell_token(task.start), ORIGIN_END]
        prompt += [TARGET_START, cell_token(task.goal), TARGET_END, PATH_START]
        return Encoded(prompt, [] if path is None else [*map(cell_token, path), PATH_END])

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        reader = TokenReader(tokens)

        def cell(otherwise: str = "") -> Cell:
            return reader.cell(height, width, otherwise)

        edges: list[Edge] = []
        reader.expect(ADJLIST_START)
        while not reader.skip(ADJLIST_END):
            a = cell(f" or {ADJLIST_END}")
            reader.skip(CONNECTOR)
            b = cell()
            if abs(a[0] - b[0]) + abs(a[1] - b[1]) != 1:
                raise UserError(
                    f"token {reader.at} is {cell_token(b)}, but a neighbour of {cell_token(a)} is expected there."
                )
            reader.expect(EDGE_END)
            edges.append((a, b))
        reader.expect(ORIGIN_START)
        start = cell()
        reader.expect(ORIGIN_END, TARGET_START)
        goal = cell()
        reader.expect(TARGET_END)
        path = reader.path(cell)
        cells = [cell for edge in edges for cell in edge] + [start, goal] + (path or [])
        rows, cols = (max(MIN_SIDE, 1 + max(cell[axis] for cell in cells)) for axis in (0, 1))
        maze = Maze.from_edges(height or rows, width or cols, edges)
        return Parsed(Task(maze, start, goal), path, edges=tuple(edges))

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        reader = TokenReader(tokens)
        return reader.response(lambda otherwise: reader.cell(height, width, otherwise))


@dataclass(frozen=True)
class PathStarList:
    """The format of path-star graphs; `reverse` writes the path from the goal to the start."""

    reverse: bool = False
    end_token: str = PATH_END

    @property
    def name(self) -> str:
        return "path-star-reversed" if self.reverse else "path-star"

    def _check(self, is_graph: bool) -> None:
        if not is_graph:
            raise UserError(f"{self.name} text is for path-star graphs, not for mazes; use edge-list or grid.")

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        """Return the tokens of graphs with `width` labels; `height` is 1."""
        self._check(height == 1)
        check_labels(width)
        return Vocabulary.of([STAR_EDGE_END, PATH_START, PATH_END, *map(str, range(width))])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        self._check(isinstance(task.maze, PathStar))
        return self.encode_edges(shuffled_edges(task.maze, seed), task, path)

    def encode_edges(self, edges: Sequence[Edge], task: Task, path: Path | None) -> Encoded:
        """Return the text with its edges in this order."""
        prompt = [token for a, b in edges for token in (str(a[1]), str(b[1]), STAR_EDGE_END)]
        prompt += [str(task.start[1]), str(task.goal[1]), PATH_START]
        nodes = [str(node) for _, node in path or []]
        return Encoded(prompt, [*(nodes[::-1] if self.reverse else nodes), PATH_END] if nodes else [])

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        reader = TokenReader(tokens)
        pairs: list[tuple[int, int]] = []
        while True:
            start, goal = reader.number(width, "a node"), reader.number(width, "a node")
            if not reader.skip(STAR_EDGE_END):
                break
            pairs.append((start, goal))
        if reader.peek() not in (None, PATH_START):
            reader.fail(f"{STAR_EDGE_END}, {PATH_START} or the end of the text")
        path = reader.path(lambda otherwise: (0, reader.number(width, "a node", otherwise)))
        named = [node for pair in pairs for node in pair]
        for what, node in (("start", start), ("goal", goal)):
            if node not in named:
                raise UserError(f"the {what} {node} is on no edge of the graph; name one of its nodes.")
        labels = width or max(MIN_LABELS, 1 + max([*named, *(node for _, node in path or [])]))
        task = Task(PathStar.from_pairs(labels, pairs), (0, start), (0, goal))
        if path and self.reverse:
            path.reverse()
        return Parsed(task, path, edges=tuple(((0, a), (0, b)) for a, b in pairs))

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        reader = TokenReader(tokens)
        path = reader.response(lambda otherwise: (0, reader.number(width, "a node", otherwise)))
        return path[::-1] if self.reverse else path


def shuffled_edges(maze: Maze, seed: int) -> list[Edge]:
    """Return the edges in the order and direction of the seed; the direction is part of a path-star graph."""
    edges = maze.edges()
    seed_N = np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    order_E, turned_E = edge_orders(np.array([len(edges)]), seed_N)
    can_turn = not isinstance(maze, PathStar)
    return [edges[i][::-1] if turn and can_turn else edges[i] for i, turn in zip(order_E, turned_E, strict=True)]


def edge_orders(
    count_N: npt.NDArray[np.int64], seed_N: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return a random order of each maze's edges, and whether each is turned round, both fixed by the maze's seed.

    The edges of all mazes stand one after the other; place i of the order has edge order_E[i] of all.
    """
    offset_N1 = offsets(count_N)
    order_E, turned_E = np.arange(offset_N1[-1]), np.empty(offset_N1[-1], dtype=np.bool_)
    _shuffle(offset_N1, seed_N, order_E, turned_E)
    return order_E, turned_E


@njit(nogil=True)
def _shuffle(
    offset_N1: npt.NDArray[np.int64],
    seed_N: npt.NDArray[np.uint64],
    order_E: npt.NDArray[np.int64],
    turned_E: npt.NDArray[np.bool_],
) -> None:
    state = np.empty(1, dtype=np.uint64)
    for n in range(len(seed_N)):
        begin, end = offset_N1[n], offset_N1[n + 1]
        begin_stream(state, seed_N[n], _STREAM_OF_TEXT, 0)
        shuffle_first(state, order_E[begin:end], end - begin)
        for i in range(begin, end):
            turned_E[i] = (next_64(state) & _LOWEST_BIT) == _LOWEST_BIT
