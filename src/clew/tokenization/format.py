"""Text formats: a task as prompt tokens, a path as response tokens, and back; docs/tokenization.md shows each.

    form = format_named("edge-list")
    encoded = form.encode(task, path, seed=7)             # encoded.prompt, encoded.response: lists of tokens
    parsed = form.parse(encoded.tokens)                   # parsed.task, parsed.path
    batch = encode_batch("edge-list", tasks, seed_N)      # the ids of many texts at once

A built-in format writes the texts of a whole batch (`write`); one task is a batch of one. A registered format writes
task by task (`encode`).

Shape suffixes: N mazes, H rows, W columns, C = H * W cells, T tokens, P items of all mazes, E edges of all mazes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.jit import njit
from clew.mazes.compiled import begin_stream, next_64, shuffle_first
from clew.mazes.maze import (
    ABSENT,
    EAST,
    MIN_LABELS,
    SIDES,
    SOUTH,
    WALL,
    Cell,
    Edge,
    Maze,
    Path,
    PathStar,
    Task,
    TaskBatch,
    cells_from_solid,
    check_labels,
    check_shape,
    offsets,
)
from clew.mazes.solvers import Event, path_through, trace_batch
from clew.registry import registered, registered_names
from clew.tokenization.tokens import PATH_END, PATH_START, Encoded, Parsed, TokenReader, Vocabulary, cell_token

ADJLIST_START, ADJLIST_END = "<ADJLIST_START>", "<ADJLIST_END>"
ORIGIN_START, ORIGIN_END = "<ORIGIN_START>", "<ORIGIN_END>"
TARGET_START, TARGET_END = "<TARGET_START>", "<TARGET_END>"
EDGE_END, STAR_EDGE_END = ";", "|"
CONNECTOR = "<-->"  # some versions of maze-dataset put it between the two cells; it is read, never written

BEGIN, END = "bos", "eos"
START, GOAL, WALL_WORD, PLAN, CREATE, CLOSE = "start", "goal", "wall", "plan", "create", "close"

LABELS = ("off", "on")
GRID_START, GRID_END, ROW_END = "<GRID_START>", "<GRID_END>", "/"
# The value of a cell in Maze.cells -> its token without role.
SIDES_TOKENS = ["".join(name for bit, name in zip(SIDES, "NSWE", strict=True) if sides & bit) for sides in range(WALL)]
SIDES_TOKENS = ["-", *SIDES_TOKENS[1:], "#"]
# The role of a cell, by whether it is the start (1) and whether it is the goal (2); a wall cell has none.
ROLES: tuple[tuple[str, ...], ...] = ((), ("start",), ("goal",), ("start", "goal"))
_GRID_TOKENS = [["+".join(role) + ":" * bool(role) + token for token in SIDES_TOKENS[:WALL]] + ["#"] for role in ROLES]
# A cell's token -> its value in Maze.cells and its role.
_MEANING = {token: (sides, ROLES[i]) for i in (3, 2, 1, 0) for sides, token in enumerate(_GRID_TOKENS[i])}

# Sets these streams apart from those that drew the maze itself, which may have had the same seed.
_STREAM_OF_TEXT = 0x7465787400000000
_LOWEST_BIT = np.uint64(1)

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Seeds = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class EncodedBatch:
    """Texts as ids, each a prompt, then a response, then [PAD] up to the longest."""

    vocabulary: Vocabulary
    tokens_NT: Int32
    prompt_length_N: Int64
    total_length_N: Int64  # prompt and response


class TextWriter:
    """The texts of a batch, appended to for all mazes at once."""

    def __init__(self, form: Format, batch: TaskBatch) -> None:
        self.form, self.batch = form, batch
        self.vocabulary = _vocabulary(form, batch.height, batch.width)
        self.all_N = np.arange(len(batch))
        self.with_path = np.flatnonzero(batch.length_N)
        self.row_of_path = np.repeat(self.all_N, batch.length_N)
        self._length_N = self._prompt_length_N = np.zeros(len(batch), dtype=np.int64)
        self.edge_E2: Int64 | None = None  # of the only maze, instead of shuffled ones
        self._appended: list[tuple[Int64, Int32]] = []

    def append(self, row_P: Int64, *columns: str | npt.NDArray[np.integer]) -> None:
        """Append to the text of maze row_P[p], for each p, one token of every column; row_P rises.

        A column is one token for all, or an array of ids.
        """
        ids_PK = np.empty((len(row_P), len(columns)), dtype=np.int32)
        for k, column in enumerate(columns):
            ids_PK[:, k] = self.vocabulary.id_of[column] if isinstance(column, str) else column
        self._appended.append((row_P, ids_PK))
        counts_N = 1 if row_P is self.all_N else np.bincount(row_P, minlength=len(self.all_N))
        self._length_N = self._length_N + len(columns) * counts_N

    def shuffled_edges(
        self, row_E: Int64, a_E: Int64, b_E: Int64, seed_N: Seeds, can_turn: bool = True
    ) -> tuple[Int64, Int64, Int64]:
        """Return the maze and the two cells of each edge, in the order and direction of the maze's seed."""
        if self.edge_E2 is not None:
            return np.zeros(len(self.edge_E2), dtype=np.int64), self.edge_E2[:, 0], self.edge_E2[:, 1]
        offset_N1 = offsets(np.bincount(row_E, minlength=len(seed_N)))
        order_E, turned_E = np.arange(len(row_E)), np.empty(len(row_E), dtype=np.bool_)
        _shuffle(offset_N1, seed_N, order_E, turned_E)
        turned_E &= can_turn
        a_E, b_E = a_E[order_E], b_E[order_E]
        return row_E, np.where(turned_E, b_E, a_E), np.where(turned_E, a_E, b_E)

    @property
    def cell_ids(self) -> Int32:
        """The id of each cell's token."""
        return _cell_ids(self.form, self.batch.height, self.batch.width)

    def end_prompt(self, *columns: str) -> None:
        """End the prompts with these tokens: what is appended from here on is the response."""
        self.append(self.all_N, *columns)
        self._prompt_length_N = self._length_N

    def append_path(self, path: npt.NDArray[np.integer]) -> None:
        """Append <PATH_START>, and the paths, whose cells stand one after the other."""
        self.end_prompt(PATH_START)
        self.append(self.row_of_path, self.cell_ids[path])
        self.append(self.with_path, PATH_END)

    def append_texts(self, texts: Sequence[Sequence[str]]) -> None:
        """Append these tokens to each text."""
        ids = self.vocabulary.encode([token for text in texts for token in text])
        self.append(np.repeat(self.all_N, np.array([len(text) for text in texts], dtype=np.int64)), ids)

    def encoded(self) -> EncodedBatch:
        shape = len(self.all_N), int(self._length_N.max(initial=0))
        tokens_NT, end_N = np.full(shape, self.vocabulary.pad_id, dtype=np.int32), np.zeros(len(self.all_N), np.int64)
        for row_P, ids_PK in self._appended:
            _write(row_P, ids_PK, end_N, tokens_NT)
        return EncodedBatch(self.vocabulary, tokens_NT, self._prompt_length_N, self._length_N)


class Format:
    """A way to write tasks and paths as tokens, here with one token a cell of the path."""

    name: str
    end_token = PATH_END  # the last token of every response
    words: tuple[str, ...] = ()  # all tokens but cells and <PATH_START>, <PATH_END>

    def cells(self, height: int, width: int) -> list[str]:
        """Return the tokens of all cells, in index order."""
        check_shape(height, width)
        return [cell_token((row, col)) for row in range(height) for col in range(width)]

    def read_cell(self, reader: TokenReader) -> Cell:
        return reader.cell()

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        """Return all tokens that texts of mazes of this shape may have."""
        return Vocabulary.of([*self.words, PATH_START, PATH_END, *self.cells(height, width)])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0, edges: Sequence[Edge] | None = None) -> Encoded:
        """Return the task as prompt and the path as response; all chance comes from the seed.

        In the formats that list edges, `edges` are written in their order and direction instead.
        """
        check_kind(self.name, isinstance(task.maze, PathStar))
        batch = TaskBatch.from_tasks([task], [path or []])
        texts = TextWriter(self, batch)
        if edges is not None:
            texts.edge_E2 = np.array([list(map(task.maze.index, edge)) for edge in edges], np.int64).reshape(-1, 2)
        self.write(texts, np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64))
        encoded = texts.encoded()
        tokens, prompt = encoded.vocabulary.decode(encoded.tokens_NT[0]), int(encoded.prompt_length_N[0])
        return Encoded(tokens[:prompt], tokens[prompt:])

    def write(self, texts: TextWriter, seed_N: Seeds) -> None:
        """Append the texts of all mazes of a batch."""
        raise NotImplementedError

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """Return what the tokens say, or raise a UserError that names the wrong token. The path may be missing."""
        raise NotImplementedError

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        """Return the path that response tokens say; UserError as in `parse`."""
        reader = TokenReader(tokens, height, width)
        path = self.read_response(reader)
        reader.expect_end()
        return path

    def read_response(self, reader: TokenReader) -> Path:
        path = [self.read_cell(reader)]
        while not reader.skip(PATH_END):
            path.append(self.read_cell(reader))
        return path

    def _read_path(self, reader: TokenReader) -> Path | None:
        """Read <PATH_START> and the response; None if the text ends before either."""
        if not reader.ends():
            reader.expect(PATH_START)
        if reader.is_done:
            return None
        path = self.read_response(reader)
        reader.expect_end()
        return path


class EdgeList(Format):
    """The format of the DFS mazes, as maze-dataset writes it; a wall cell reads back as a cell without passages."""

    name = "edge-list"
    words = (ADJLIST_START, ADJLIST_END, ORIGIN_START, ORIGIN_END, TARGET_START, TARGET_END, EDGE_END)

    def write(self, texts: TextWriter, seed_N: Seeds) -> None:
        batch, ids_C = texts.batch, texts.cell_ids
        is_edge_NC2 = np.stack([batch.cells_NHW & EAST, batch.cells_NHW & SOUTH], axis=-1).astype(bool)
        # Edge 2 * cell leads east from a cell, 2 * cell + 1 south.
        row_E, edge_E = np.divmod(np.flatnonzero(is_edge_NC2), is_edge_NC2[0].size)
        a_E, is_south_E = np.divmod(edge_E, 2)
        b_E = a_E + np.where(is_south_E, batch.width, 1)
        row_E, a_E, b_E = texts.shuffled_edges(row_E, a_E, b_E, seed_N)
        texts.append(texts.all_N, ADJLIST_START)
        texts.append(row_E, ids_C[a_E], ids_C[b_E], EDGE_END)
        texts.append(texts.all_N, ADJLIST_END, ORIGIN_START, ids_C[batch.start_N], ORIGIN_END)
        texts.append(texts.all_N, TARGET_START, ids_C[batch.goal_N], TARGET_END)
        texts.append_path(batch.path)

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        reader = TokenReader(tokens, height, width)
        edges: list[Edge] = []
        reader.expect(ADJLIST_START)
        while not reader.skip(ADJLIST_END):
            a = reader.cell()
            reader.skip(CONNECTOR)
            b = reader.cell()
            if abs(a[0] - b[0]) + abs(a[1] - b[1]) != 1:
                raise UserError(f"token {reader.at} is {cell_token(b)}, which is no neighbour of {cell_token(a)}.")
            reader.expect(EDGE_END)
            edges.append((a, b))
        reader.expect(ORIGIN_START)
        start = reader.cell()
        reader.expect(ORIGIN_END, TARGET_START)
        goal = reader.cell()
        reader.expect(TARGET_END)
        path = self._read_path(reader)
        maze = Maze.from_edges(height or reader.rows, width or reader.columns, edges)
        return Parsed(Task(maze, start, goal), path, edges=tuple(edges))


class PathStarList(Format):
    """The format of path-star graphs; `reverse` writes the path from the goal to the start."""

    words = (STAR_EDGE_END,)

    def __init__(self, reverse: bool = False) -> None:
        self.reverse, self.name = reverse, "path-star-reversed" if reverse else "path-star"

    def cells(self, height: int, width: int) -> list[str]:
        check_kind(self.name, height == 1)
        check_labels(width)
        return [str(label) for label in range(width)]

    def read_cell(self, reader: TokenReader) -> Cell:
        return reader.node()

    def write(self, texts: TextWriter, seed_N: Seeds) -> None:
        batch, ids_V = texts.batch, texts.cell_ids
        before_NV = batch.cells_NHW[:, 0].astype(np.int64)
        row_E, node_E = np.nonzero((before_NV != ABSENT) & (before_NV != np.arange(batch.width)))
        row_E, a_E, b_E = texts.shuffled_edges(row_E, before_NV[row_E, node_E], node_E, seed_N, can_turn=False)
        texts.append(row_E, ids_V[a_E], ids_V[b_E], STAR_EDGE_END)
        texts.append(texts.all_N, ids_V[batch.start_N], ids_V[batch.goal_N])
        last_P = (batch.offset_N1[:-1] + batch.offset_N1[1:] - 1)[texts.row_of_path]
        texts.append_path(batch.path[last_P - np.arange(len(batch.path))] if self.reverse else batch.path)

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        reader = TokenReader(tokens, 1, width)
        pairs: list[Edge] = []
        while not pairs or reader.skip(STAR_EDGE_END):
            pairs.append((reader.node(), reader.node()))
        *edges, (start, goal) = pairs
        path = self._read_path(reader)
        for what, node in (("start", start), ("goal", goal)):
            if not any(node in edge for edge in edges):
                raise UserError(f"the {what} {node[1]} is on no edge of the graph; name one of its nodes.")
        graph = PathStar.from_pairs(width or max(MIN_LABELS, reader.columns), [(a, b) for (_, a), (_, b) in edges])
        return Parsed(Task(graph, start, goal), path, edges=tuple(edges))

    def read_response(self, reader: TokenReader) -> Path:
        path = super().read_response(reader)
        return path[::-1] if self.reverse else path


class WallList(Format):
    """The format of the A* mazes, as Searchformer writes it; its plain texts, without brackets, are read too.

    `with_trace` puts the log of the deterministic A*, whatever found the path, before the plan: `create x y cG cH` (put
    on the open list) and `close x y cG cH` (taken from it), with g and h as cost tokens.
    """

    end_token = END
    words = (BEGIN, END, START, GOAL, WALL_WORD, PLAN, PATH_START)

    def __init__(self, with_trace: bool) -> None:
        self.with_trace, self.name = with_trace, "wall-list-trace" if with_trace else "wall-list"

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        check_shape(height, width)
        trace_words = [CREATE, CLOSE, *(f"c{cost}" for cost in range(height * width + 1))] if self.with_trace else []
        return Vocabulary.of([*self.words, *map(str, range(max(height, width))), *trace_words])

    def write(self, texts: TextWriter, seed_N: Seeds) -> None:
        batch, encode = texts.batch, texts.vocabulary.encode
        wrong_N = (batch.cells_NHW != cells_from_solid(batch.cells_NHW == WALL)).any((1, 2))
        if wrong_N.any():
            raise UserError(f"maze {wrong_N.argmax()} has walls between cells, not for wall-list text; use edge-list.")
        ids = encode([*map(str, range(max(batch.height, batch.width)))])

        def x_y(cell_P: npt.NDArray[np.integer]) -> tuple[Int32, Int32]:
            return ids[cell_P % batch.width], ids[cell_P // batch.width]

        row_P, cell_P = np.nonzero(batch.cells_NHW.reshape(len(batch), -1) == WALL)
        texts.append(texts.all_N, BEGIN, START, *x_y(batch.start_N), GOAL, *x_y(batch.goal_N))
        texts.append(row_P, WALL_WORD, *x_y(cell_P))
        texts.end_prompt(END, PATH_START)
        texts.append(texts.with_path, BEGIN)
        if self.with_trace:
            event_P4, offset_N1 = trace_batch(batch, workers=1)  # one thread, as for all else here
            row_P = np.repeat(texts.all_N, np.diff(offset_N1))
            kept_P = batch.length_N[row_P] > 0
            row_P, (kind_P, cell_P, g_P, h_P) = row_P[kept_P], event_P4[kept_P].T
            kinds = encode([CREATE, CLOSE])  # in the order of their numbers in a trace
            costs = encode([f"c{cost}" for cost in range(batch.height * batch.width + 1)])
            texts.append(row_P, kinds[kind_P], *x_y(cell_P), costs[g_P], costs[h_P])
        texts.append(texts.row_of_path, PLAN, *x_y(batch.path))
        texts.append(texts.with_path, END)

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        reader = TokenReader(tokens, height, width)
        is_bracketed = reader.skip(BEGIN)
        reader.expect(START)
        start = reader.x_y()
        reader.expect(GOAL)
        goal, walls = reader.x_y(), []
        while reader.skip(WALL_WORD):
            walls.append(reader.x_y())
        if is_bracketed:
            reader.expect(END)
        # The response is read when there is one; a prompt may end with <PATH_START>.
        reader.skip(PATH_START)
        trace, path = ([], None) if reader.ends() else self._read_trace_and_path(reader)
        size = max(reader.rows, reader.columns)
        task = Task(Maze.from_walls(height or size, width or size, walls), start, goal)
        return Parsed(task, path, trace=tuple(trace) or None)

    def read_response(self, reader: TokenReader) -> Path:
        return self._read_trace_and_path(reader)[1]

    def _read_trace_and_path(self, reader: TokenReader) -> tuple[list[Event], Path]:
        is_bracketed = reader.skip(BEGIN)
        trace = []
        while kind := reader.skip(CREATE, CLOSE):
            cell, (g,), (h,) = reader.x_y(), *(reader.numbers("a cost", "c{}", 100_000) for _ in range(2))
            trace.append(Event("create" if kind == CREATE else "close", cell, g, h))
        reader.expect(PLAN)
        path = [reader.x_y()]
        while reader.skip(PLAN):
            path.append(reader.x_y())
        if is_bracketed:
            reader.expect(END)
        reader.expect_end()
        return trace, path


class Grid(Format):
    """One token a cell."""

    name = "grid"
    words = (GRID_START, GRID_END, ROW_END, *_MEANING)

    def write(self, texts: TextWriter, seed_N: Seeds) -> None:
        self._write_cells(texts)
        texts.append_path(texts.batch.path)

    def _write_cells(self, texts: TextWriter) -> None:
        batch, encode = texts.batch, texts.vocabulary.encode
        row_end, end = encode([ROW_END, GRID_END])
        ids = np.stack([encode(tokens) for tokens in _GRID_TOKENS])  # by role and value of a cell
        role_NC = np.zeros((len(batch), batch.height * batch.width), dtype=np.int64)
        role_NC[texts.all_N, batch.start_N] += 1
        role_NC[texts.all_N, batch.goal_N] += 2
        # One column more than the maze, for the end of the row.
        ids_NHW = np.full((len(batch), batch.height, batch.width + 1), row_end)
        ids_NHW[:, :, :-1] = ids[role_NC.reshape(batch.cells_NHW.shape), batch.cells_NHW]
        ids_NHW[:, -1, -1] = end
        texts.append(texts.all_N, GRID_START)
        texts.append(np.repeat(texts.all_N, ids_NHW[0].size), ids_NHW.reshape(-1))

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """Return what the text says; the size, if given, must be the text's own."""
        reader = TokenReader(tokens, height, width)
        rows: list[list[tuple[int, tuple[str, ...]]]] = [[]]
        reader.expect(GRID_START)
        while not reader.skip(GRID_END):
            if reader.skip(ROW_END):
                rows.append([])
            else:
                rows[-1].append(reader.take("a cell such as SE, start:N, - or #", _MEANING.get))
        reader.height, reader.width = height or len(rows), width or len(rows[0])
        for number, row in enumerate(rows, start=1):
            if len(row) != reader.width:
                raise UserError(f"row {number} of the text has {len(row)} cells, but {reader.width} are expected.")
        if len(rows) != reader.height:
            raise UserError(f"the text has {len(rows)} rows, but a maze of {height} rows is expected.")
        ends = []
        for role in ("start", "goal"):
            found = [(r, c) for r, row in enumerate(rows) for c, (_, roles) in enumerate(row) if role in roles]
            if len(found) != 1:
                raise UserError(f"{len(found)} cells of the text are marked {role}: put `{role}:` before one.")
            ends += found
        maze = Maze(np.array([[sides for sides, _ in row] for row in rows], dtype=np.uint8))
        return Parsed(Task(maze, *ends), self._read_path(reader))


class CellLabels(Grid):
    """The format of the cell network, as text: a label for each cell instead of the path.

    A shortest path never touches itself, so the set of its cells determines it. A response reads back as the cells in
    reading order, a whole text as the path.
    """

    name = "cell-labels"
    words = (*Grid.words, *LABELS)

    def write(self, texts: TextWriter, seed_N: Seeds) -> None:
        batch = texts.batch
        if any(path and path_through(task, set(path)) != path for task, path in batch):
            raise UserError("this path touches itself, so labels on cells do not determine it; use another format.")
        self._write_cells(texts)
        texts.end_prompt(PATH_START)
        is_on_NC = np.zeros((len(batch), batch.height * batch.width), dtype=np.int64)
        is_on_NC[texts.row_of_path, batch.path] = 1
        label_NC = texts.vocabulary.encode(LABELS)[is_on_NC]
        texts.append(np.repeat(texts.with_path, label_NC.shape[1]), label_NC[texts.with_path].ravel())
        texts.append(texts.with_path, PATH_END)

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        parsed = super().parse(tokens, height=height, width=width)
        return Parsed(parsed.task, path_through(parsed.task, set(parsed.path)) if parsed.path else None)

    def read_response(self, reader: TokenReader) -> Path:
        labels = {"off": False, "on": True}
        cells = np.ndindex(reader.height or 0, reader.width or 0)
        on = [cell for cell in cells if reader.take(f"the label off or on of cell {cell_token(cell)}", labels.get)]
        reader.expect(PATH_END)
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
        problem = f"there is no text format {name!r}: choose one of {known}"
        raise UserError(f"{problem}, or give --plugin with the module that registers it.")
    return _instance(component)


@cache
def _instance(component: type[Format]) -> Format:
    return component()


def check_kind(name: str, is_graph: bool) -> None:
    """Raise UserError for a path-star graph in a built-in format of cells, and for a maze in one of graphs."""
    if is_graph != name.startswith("path-star"):
        kinds, other = ("mazes", "path-star graphs"), "path-star" if is_graph else "edge-list or grid"
        raise UserError(f"{name} text is for {kinds[not is_graph]}, not for {kinds[is_graph]}; use {other}.")


def encode_batch(format_name: str, batch: TaskBatch, seed_N: Seeds) -> EncodedBatch:
    """Return the texts of all tasks and their paths; a path without cells gives a prompt without response."""
    if len(seed_N) != len(batch):
        raise UserError(f"every maze needs a seed for its text: {len(batch)} mazes, {len(seed_N)} seeds.")
    form = format_named(format_name)
    if format_name in FORMATS:
        check_kind(format_name, is_graph=batch.height == 1)
    texts = TextWriter(form, batch)
    if format_name not in FORMATS:
        pairs = zip(batch, seed_N.tolist(), strict=True)
        written = [form.encode(task, path or None, seed=seed) for (task, path), seed in pairs]
        texts.append_texts([each.prompt for each in written])
        texts.end_prompt()
        texts.append_texts([each.response for each in written])
    elif len(batch):
        form.write(texts, np.ascontiguousarray(seed_N, dtype=np.uint64))
    return texts.encoded()


# Kept, since making them takes longer than encoding a small batch.
@lru_cache(maxsize=16)
def _vocabulary(form: Format, height: int, width: int) -> Vocabulary:
    return form.vocabulary(height, width)


@lru_cache(maxsize=16)
def _cell_ids(form: Format, height: int, width: int) -> Int32:
    return _vocabulary(form, height, width).encode(form.cells(height, width))


@njit(nogil=True)
def _write(row_P: Int64, ids_PK: Int32, end_N: Int64, tokens_NT: Int32) -> None:
    for p in range(len(row_P)):
        row = row_P[p]
        end = end_N[row]
        for k in range(ids_PK.shape[1]):
            tokens_NT[row, end + k] = ids_PK[p, k]
        end_N[row] = end + ids_PK.shape[1]


@njit(nogil=True)
def _shuffle(offset_N1: Int64, seed_N: Seeds, order_E: Int64, turned_E: npt.NDArray[np.bool_]) -> None:
    state = np.empty(1, dtype=np.uint64)
    for n in range(len(seed_N)):
        begin, end = offset_N1[n], offset_N1[n + 1]
        begin_stream(state, seed_N[n], _STREAM_OF_TEXT, 0)
        shuffle_first(state, order_E[begin:end], end - begin)
        for i in range(begin, end):
            turned_E[i] = (next_64(state) & _LOWEST_BIT) == _LOWEST_BIT


def prompt_tokens(task: Task) -> list[str]:
    """Return Searchformer's plain prompt: `start x y goal x y wall x y ...`, walls in index order."""
    return FORMATS["wall-list"].encode(task, None).prompt[1:-2]


def plan_tokens(path: Path) -> list[str]:
    """Return Searchformer's plain plan: `plan x y plan x y ...`."""
    return [token for row, col in path for token in (PLAN, str(col), str(row))]


def trace_tokens(trace: Iterable[Event]) -> list[str]:
    """Return Searchformer's plain trace: `create x y cG cH close x y cG cH ...`."""
    return [token for kind, (row, col), g, h in trace for token in (kind, str(col), str(row), f"c{g}", f"c{h}")]
