"""The edge-list format: a maze as the list of its passages, as maze-dataset writes it.

    <ADJLIST_START> (0,0) (0,1) ; (1,1) (0,1) ; <ADJLIST_END>
    <ORIGIN_START> (0,0) <ORIGIN_END> <TARGET_START> (1,1) <TARGET_END>
    <PATH_START> (0,0) (0,1) (1,1) <PATH_END>

all on one line. Cells are (row,col), one token each. The passages come in random order, each with its two ends in
random order. A wall cell is a cell without passages, so its text reads back as a closed free cell. A text names the
cells that have passages only: where the last rows or columns have none, `parse` must be told the maze's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clew.errors import UserError
from clew.mazes.maze import MIN_SIDE, Cell, Edge, Maze, Path, Task, check_shape
from clew.tokenization.tokens import (
    PATH_END,
    PATH_START,
    Parsed,
    TokenReader,
    Written,
    cell_token,
    check_grid,
    edge_order,
)
from clew.tokenization.vocabulary import Vocabulary

ADJLIST_START, ADJLIST_END = "<ADJLIST_START>", "<ADJLIST_END>"
ORIGIN_START, ORIGIN_END = "<ORIGIN_START>", "<ORIGIN_END>"
TARGET_START, TARGET_END = "<TARGET_START>", "<TARGET_END>"
EDGE_END = ";"
CONNECTOR = "<-->"  # some writings of maze-dataset put it between the two cells; it is read, never written


@dataclass(frozen=True)
class EdgeList:
    """The format of the DFS mazes."""

    name: str = "edge-list"
    end_token: str = PATH_END

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        check_shape(height, width)
        words = [ADJLIST_START, ADJLIST_END, ORIGIN_START, ORIGIN_END, TARGET_START, TARGET_END]
        cells = [cell_token((row, col)) for row in range(height) for col in range(width)]
        return Vocabulary.of([*words, EDGE_END, PATH_START, PATH_END, *cells])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Written:
        check_grid(task, self.name)
        return self.encode_edges(shuffled_edges(task.maze, seed), task.start, task.goal, path)

    def encode_edges(self, edges: Sequence[Edge], start: Cell, goal: Cell, path: Path | None) -> Written:
        """The text whose passages stand exactly in this order and direction."""
        prompt = [ADJLIST_START]
        for a, b in edges:
            prompt += [cell_token(a), cell_token(b), EDGE_END]
        prompt += [ADJLIST_END, ORIGIN_START, cell_token(start), ORIGIN_END]
        prompt += [TARGET_START, cell_token(goal), TARGET_END, PATH_START]
        response = [] if path is None else [*map(cell_token, path), PATH_END]
        return Written(prompt, response)

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """What the text says; a side that is not given is the smallest that holds all cells of the text."""
        reader = TokenReader(tokens)
        edges, start, goal = _parse_prompt(reader, height, width)
        path = None
        if reader.skip(PATH_START) and not reader.is_done:
            path = parse_cells(reader, height, width)
        cells = [cell for edge in edges for cell in edge] + [start, goal] + (path or [])
        height = height or max(MIN_SIDE, 1 + max(row for row, _ in cells))
        width = width or max(MIN_SIDE, 1 + max(col for _, col in cells))
        return Parsed(Task(Maze.from_edges(height, width, edges), start, goal), path, edges=tuple(edges))

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        return parse_cells(TokenReader(tokens), height, width)


def shuffled_edges(maze: Maze, seed: int) -> list[Edge]:
    """The maze's passages in the order and direction that the seed gives."""
    edges = maze.edges()
    order, turned = edge_order(seed, len(edges))
    return [edges[i][::-1] if turn else edges[i] for i, turn in zip(order, turned, strict=True)]


def parse_cells(reader: TokenReader, height: int | None, width: int | None) -> Path:
    """Path cells up to and with <PATH_END>, and nothing after it."""
    path = [reader.cell(height, width)]
    while not reader.skip(PATH_END):
        path.append(reader.cell(height, width, otherwise=f" or {PATH_END}"))
    reader.expect_end()
    return path


def _parse_prompt(reader: TokenReader, height: int | None, width: int | None) -> tuple[list[Edge], Cell, Cell]:
    edges: list[Edge] = []
    reader.expect(ADJLIST_START)
    while not reader.skip(ADJLIST_END):
        a = reader.cell(height, width, otherwise=f" or {ADJLIST_END}")
        reader.skip(CONNECTOR)
        b = reader.cell(height, width)
        if abs(a[0] - b[0]) + abs(a[1] - b[1]) != 1:
            raise UserError(
                f"token {reader.at} is {cell_token(b)}, but a neighbour of {cell_token(a)} is expected there."
            )
        reader.expect(EDGE_END)
        edges.append((a, b))
    reader.expect(ORIGIN_START)
    start = reader.cell(height, width)
    reader.expect(ORIGIN_END)
    reader.expect(TARGET_START)
    goal = reader.cell(height, width)
    reader.expect(TARGET_END)
    # A prompt may end here or with <PATH_START>.
    if reader.peek() not in (None, PATH_START):
        reader.fail(f"{PATH_START} or the end of the text")
    return edges, start, goal
