"""Text formats: a task as prompt tokens, a path as response tokens, and back; docs/tokenization.md shows each.

    form = format_named("edge-list")
    encoded = form.encode(task, path, seed=7)           # encoded.prompt, encoded.response: lists of tokens
    parsed = form.parse(encoded.tokens)                 # parsed.task, parsed.path

Shape suffixes: N mazes, E edges of all mazes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.jit import njit
from clew.mazes.compiled import begin_stream, next_64, shuffle_first
from clew.mazes.maze import (
    MAX_SIDE,
    MIN_LABELS,
    MIN_SIDE,
    SIDES,
    WALL,
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
from clew.mazes.solvers import Event, astar, path_through
from clew.registry import registered, registered_names
from clew.tokenization.tokens import (
    PATH_END,
    PATH_START,
    Encoded,
    Parsed,
    TokenReader,
    Vocabulary,
    cell_token,
    cell_tokens,
)

ADJLIST_START, ADJLIST_END = "<ADJLIST_START>", "<ADJLIST_END>"
ORIGIN_START, ORIGIN_END = "<ORIGIN_START>", "<ORIGIN_END>"
TARGET_START, TARGET_END = "<TARGET_START>", "<TARGET_END>"
EDGE_END, STAR_EDGE_END = ";", "|"
CONNECTOR = "<-->"  # some versions of maze-dataset put it between the two cells; it is read, never written

BEGIN, END = "bos", "eos"
START, GOAL, WALL_WORD, PLAN, CREATE, CLOSE = "start", "goal", "wall", "plan", "create", "close"

LABELS = ("off", "on")
GRID_START, GRID_END, ROW_END = "<GRID_START>", "<GRID_END>", "/"
# The role of a cell, by whether it is the start (1) and whether it is the goal (2).
ROLES = ("", "start:", "goal:", "start+goal:")
# The value of a cell in Maze.cells -> its token without role.
SIDES_TOKENS = ["".join(name for bit, name in zip(SIDES, "NSWE", strict=True) if sides & bit) for sides in range(WALL)]
SIDES_TOKENS = ["-", *SIDES_TOKENS[1:], "#"]
# A cell's token -> its value in Maze.cells and its role.
_MEANING = {role + token: (sides, role) for role in ROLES for sides, token in enumerate(SIDES_TOKENS[:WALL])}
_MEANING["#"] = (WALL, "")

# Sets these streams apart from those that drew the maze itself, which may have had the same seed.
_STREAM_OF_TEXT = 0x7465787400000000
_LOWEST_BIT = np.uint64(1)


class Format(Protocol):
    """A way to write tasks and paths as tokens."""

    name: str
    end_token: str = PATH_END  # the last token of every response

    def __hash__(self) -> int:
        return id(self)

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        """Return all tokens that texts of mazes of this shape may have."""
        ...

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        """Return the task as prompt and the path as response; all chance comes from the seed."""
        ...

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """Return what the tokens say, or raise a UserError that names the wrong token. The path may be missing."""
        ...

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        """Return the path that response tokens say, by default one token a cell; UserError as in `parse`."""
        reader = TokenReader(tokens)
        return reader.response(lambda otherwise: reader.cell(height, width, otherwise))


class EdgeList(Format):
    """The format of the DFS mazes, as maze-dataset writes it; a wall cell reads back as a cell without passages."""

    name = "edge-list"

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        check_shape(height, width)
        words = [ADJLIST_START, ADJLIST_END, ORIGIN_START, ORIGIN_END, TARGET_START, TARGET_END]
        return Vocabulary.of([*words, EDGE_END, PATH_START, PATH_END, *cell_tokens(height, width)])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        check_kind(self.name, isinstance(task.maze, PathStar))
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


class PathStarList(Format):
    """The format of path-star graphs; `reverse` writes the path from the goal to the start."""

    def __init__(self, reverse: bool = False) -> None:
        self.reverse, self.name = reverse, "path-star-reversed" if reverse else "path-star"

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        """Return the tokens of graphs with `width` labels; `height` is 1."""
        check_kind(self.name, height == 1)
        check_labels(width)
        return Vocabulary.of([STAR_EDGE_END, PATH_START, PATH_END, *map(str, range(width))])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        check_kind(self.name, isinstance(task.maze, PathStar))
        return self.encode_edges(shuffled_edges(task.maze, seed), task, path)

    def encode_edges(self, edges: Sequence[Edge], task: Task, path: Path | None) -> Encoded:
        """Return the text with its edges in this order."""
        prompt = [token for a, b in edges for token in (str(a[1]), str(b[1]), STAR_EDGE_END)]
        prompt += [str(task.start[1]), str(task.goal[1]), PATH_START]
        nodes = [str(node) for _, node in path or []]
        return Encoded(prompt, [*(nodes[::-1] if self.reverse else nodes), PATH_END] if nodes else [])

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        reader = TokenReader(tokens)
        edges: list[Edge] = []
        while True:
            start, goal = reader.node(width), reader.node(width)
            if not reader.skip(STAR_EDGE_END):
                break
            edges.append((start, goal))
        if reader.peek() not in (None, PATH_START):
            reader.fail(f"{STAR_EDGE_END}, {PATH_START} or the end of the text")
        path = reader.path(lambda otherwise: reader.node(width, otherwise))
        named = [node for edge in edges for node in edge]
        for what, node in (("start", start), ("goal", goal)):
            if node not in named:
                raise UserError(f"the {what} {node[1]} is on no edge of the graph; name one of its nodes.")
        labels = width or max(MIN_LABELS, 1 + max(label for _, label in [*named, *(path or [])]))
        graph = PathStar.from_pairs(labels, [(a, b) for (_, a), (_, b) in edges])
        return Parsed(Task(graph, start, goal), path[::-1] if path and self.reverse else path, edges=tuple(edges))

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        reader = TokenReader(tokens)
        path = reader.response(lambda otherwise: reader.node(width, otherwise))
        return path[::-1] if self.reverse else path


class WallList(Format):
    """The format of the A* mazes, as Searchformer writes it; its plain texts, without brackets, are read too.

    `with_trace` puts the log of the search before the plan: `create x y cG cH` (put on the open list) and
    `close x y cG cH` (taken from it), with g and h as cost tokens.
    """

    end_token = END

    def __init__(self, with_trace: bool) -> None:
        self.with_trace, self.name = with_trace, "wall-list-trace" if with_trace else "wall-list"

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        check_shape(height, width)
        words = [BEGIN, END, START, GOAL, WALL_WORD, PLAN, PATH_START, *map(str, range(max(height, width)))]
        if self.with_trace:
            words += [CREATE, CLOSE, *(f"c{cost}" for cost in range(height * width + 1))]
        return Vocabulary.of(words)

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        """Return the task and its path; the trace is that of the deterministic A*, whatever found the path."""
        check_kind(self.name, isinstance(task.maze, PathStar))
        prompt = [BEGIN, *prompt_tokens(task), END, PATH_START]
        if path is None:
            return Encoded(prompt, [])
        trace = trace_tokens(astar(task).trace) if self.with_trace else []
        return Encoded(prompt, [BEGIN, *trace, *plan_tokens(path), END])

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        reader = TokenReader(tokens)
        start, goal, walls = self._parse_prompt(reader, height, width)
        # The response is read when there is one; a prompt may end with <PATH_START>.
        reader.skip(PATH_START)
        trace, path = ([], []) if reader.is_done else self._parse_response(reader, height, width)
        cells = [start, goal, *walls, *path, *(step.cell for step in trace)]
        size = max(MIN_SIDE, 1 + max(max(cell) for cell in cells))
        maze = Maze.from_walls(height or size, width or size, walls)
        return Parsed(Task(maze, start, goal), path or None, trace=tuple(trace) or None)

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        return self._parse_response(TokenReader(tokens), height, width)[1]

    def _parse_prompt(
        self, reader: TokenReader, height: int | None, width: int | None
    ) -> tuple[Cell, Cell, list[Cell]]:
        bracketed = reader.skip(BEGIN)
        reader.expect(START)
        start = reader.x_y(height, width)
        reader.expect(GOAL)
        goal = reader.x_y(height, width)
        walls: list[Cell] = []
        while reader.skip(WALL_WORD):
            wall = reader.x_y(height, width)
            if wall in (start, goal):
                raise UserError(
                    f"tokens {reader.at - 1} and {reader.at} put a wall on the {'start' if wall == start else 'goal'} "
                    f"{cell_token(wall)}, which must be a free cell."
                )
            walls.append(wall)
        if bracketed and not reader.skip(END):
            reader.fail(f"{WALL_WORD} or {END}")
        if not bracketed and reader.peek() not in (None, PATH_START, BEGIN, CREATE, PLAN):
            reader.fail(f"{WALL_WORD}, {CREATE}, {PLAN} or the end of the text")
        return start, goal, walls

    def _parse_response(self, reader: TokenReader, height: int | None, width: int | None) -> tuple[list[Event], Path]:
        bracketed = reader.skip(BEGIN)
        trace: list[Event] = []
        path: Path = []
        while (word := reader.peek()) in (CREATE, CLOSE):
            reader.at += 1
            cell = reader.x_y(height, width)
            trace.append(Event("create" if word == CREATE else "close", cell, reader.cost(), reader.cost()))
        while reader.skip(PLAN):
            path.append(reader.x_y(height, width))
        if not path:
            reader.fail(f"{CREATE}, {CLOSE} or {PLAN}")
        if bracketed and not reader.skip(END):
            reader.fail(f"{PLAN} or {END}")
        reader.expect_end("the end of the text" if bracketed else f"{PLAN} or the end of the text")
        return trace, path


class Grid(Format):
    """One token a cell."""

    name = "grid"

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        check_shape(height, width)
        words = [GRID_START, GRID_END, ROW_END, PATH_START, PATH_END, *_MEANING]
        return Vocabulary.of([*words, *cell_tokens(height, width)])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        check_kind(self.name, isinstance(task.maze, PathStar))
        prompt = [GRID_START]
        for row, sides_W in enumerate(task.maze.cells.tolist()):
            prompt += [ROW_END] * (row > 0)
            for col, sides in enumerate(sides_W):
                role = ROLES[((row, col) == task.start) + 2 * ((row, col) == task.goal)]
                prompt.append(role + SIDES_TOKENS[sides])
        response = [] if path is None else [*map(cell_token, path), PATH_END]
        return Encoded([*prompt, GRID_END, PATH_START], response)

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """Return what the text says; the size, if given, must be the text's own."""
        reader = TokenReader(tokens)
        rows, role_cells = self._parse_rows(reader, width)
        if height not in (None, len(rows)):
            raise UserError(f"the text has {len(rows)} rows, but a maze of {height} rows is expected.")
        for role in ("start", "goal"):
            if role not in role_cells:
                raise UserError(f"no cell of the text is marked {role}: put `{role}:` before the sides of one.")
        path = reader.path(lambda otherwise: reader.cell(len(rows), len(rows[0]), otherwise))
        maze = Maze(np.array(rows, dtype=np.uint8))
        return Parsed(Task(maze, role_cells["start"], role_cells["goal"]), path)

    def _parse_rows(self, reader: TokenReader, width: int | None) -> tuple[list[list[int]], dict[str, Cell]]:
        """Read the cells' values row by row, and where start and goal are."""
        rows: list[list[int]] = [[]]
        role_cells: dict[str, Cell] = {}
        reader.expect(GRID_START)
        while (token := reader.peek()) != GRID_END or len(rows[-1]) < (width or 1):
            values = rows[-1]
            if token in (ROW_END, GRID_END):
                if len(values) < (width or 1):
                    reader.fail(f"cell {len(values) + 1} of the row")
                if len(rows) == MAX_SIDE:
                    reader.fail(f"{GRID_END} after {MAX_SIDE} rows")
                width = len(rows[0])
                rows.append([])
            elif len(values) == (width or MAX_SIDE):
                reader.fail(f"{ROW_END} or {GRID_END} after {len(values)} cells in the row")
            elif token not in _MEANING:
                reader.fail("a cell such as SE, start:N, - or #" + (f", {ROW_END} or {GRID_END}" if values else ""))
            else:
                value, role = _MEANING[token]
                for name in role[:-1].split("+") if role else ():
                    if name in role_cells:
                        raise UserError(f"token {reader.at + 1} is {token!r}, but the maze has a {name} already.")
                    role_cells[name] = (len(rows) - 1, len(values))
                values.append(value)
            reader.at += 1
        reader.at += 1
        return rows, role_cells


class CellLabels(Grid):
    """The format of the cell network, as text: a label for each cell instead of the path.

    A shortest path never touches itself, so the set of its cells determines it.
    """

    name = "cell-labels"

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        return Vocabulary.of([*super().vocabulary(height, width).tokens, *LABELS])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        prompt = super().encode(task, None).prompt
        if path is None:
            return Encoded(prompt, [])
        on = set(path)
        if path_through(task, on) != list(path):
            raise UserError("this path touches itself, so labels on cells do not determine it; use another format.")
        labels = [LABELS[(row, col) in on] for row in range(task.maze.height) for col in range(task.maze.width)]
        return Encoded(prompt, [*labels, PATH_END])

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """Return what the text says; the size, if given, must be the text's own."""
        first = next((i for i, token in enumerate(tokens) if token in LABELS), len(tokens))
        task = super().parse(tokens[:first], height=height, width=width).task
        if first == len(tokens):
            return Parsed(task, None)
        cells = self.parse_response(tokens[first:], height=task.maze.height, width=task.maze.width)
        return Parsed(task, path_through(task, set(cells)))

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        """Return the labelled cells in reading order; `path_through` gives their order on the path."""
        reader = TokenReader(tokens)
        on = []
        for cell in range(height * width):
            if reader.peek() not in LABELS:
                reader.fail(f"the label {' or '.join(LABELS)} of cell {cell + 1} of {height * width}")
            if tokens[reader.at] == LABELS[1]:
                on.append(divmod(cell, width))
            reader.at += 1
        reader.expect(PATH_END)
        reader.expect_end()
        return on


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (EdgeList(), WallList(False), WallList(True), Grid(), CellLabels(), PathStarList(), PathStarList(True))
}


def format_named(name: str) -> Format:
    """Return the format of this name, built in or registered."""
    if name in FORMATS:
        return FORMATS[name]
    component = registered("format", name)
    if component is None:
        known = ", ".join([*FORMATS, *registered_names("format")])
        raise UserError(
            f"there is no text format {name!r}: choose one of {known}, "
            "or give --plugin with the module that registers it."
        )
    return _instance(component)


@cache
def _instance(component: type[Format]) -> Format:
    return component()


def check_kind(name: str, is_graph: bool) -> None:
    """Raise UserError for a path-star graph in a built-in format of cells, and for a maze in one of graphs."""
    if is_graph != name.startswith("path-star"):
        kinds, other = ("mazes", "path-star graphs"), "path-star" if is_graph else "edge-list or grid"
        raise UserError(f"{name} text is for {kinds[not is_graph]}, not for {kinds[is_graph]}; use {other}.")


def prompt_tokens(task: Task) -> list[str]:
    """Return Searchformer's plain prompt: `start x y goal x y wall x y ...`, walls in index order."""
    if not task.maze.has_wall_cells_only:
        raise UserError(
            "the wall-list format can only write mazes whose walls are whole cells; "
            "use edge-list for mazes with walls between cells."
        )
    return [START, *_x_y(task.start), GOAL, *_x_y(task.goal), *_each(WALL_WORD, task.maze.walls())]


def plan_tokens(path: Path) -> list[str]:
    """Return Searchformer's plain plan: `plan x y plan x y ...`."""
    return _each(PLAN, path)


def trace_tokens(trace: Iterable[Event]) -> list[str]:
    """Return Searchformer's plain trace: `create x y cG cH close x y cG cH ...`."""
    return [token for kind, cell, cost, estimate in trace for token in (kind, *_x_y(cell), f"c{cost}", f"c{estimate}")]


def _x_y(cell: Cell) -> tuple[str, str]:
    return str(cell[1]), str(cell[0])


def _each(word: str, cells: Iterable[Cell]) -> list[str]:
    return [token for cell in cells for token in (word, *_x_y(cell))]


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

    The edges of all mazes stand one after the other; the i-th of the order is edge order_E[i] of all.
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
