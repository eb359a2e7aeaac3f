"""The wall-list format: a maze as the list of its wall cells, as Searchformer writes it.

A sequence for a model is

    bos start 0 1 goal 2 0 wall 1 0 wall 1 1 eos <PATH_START> bos plan 0 1 plan 0 2 ... eos

on one line, one token a number or word; cells are x y. With a trace, the log of the A* search stands before the
plan: `create x y cG cH` (put on the open list) and `close x y cG cH` (taken from it), with g and h as cost tokens.
The plain texts of Searchformer are the same without the bracketing words: a prompt `start ... wall ...`, a trace
`create ...`, a plan `plan ...`. `parse` reads both, with or without trace and plan.

The text does not tell the maze's size. Where `parse` is not told a side, it takes the smallest square that holds all
coordinates of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clew.errors import UserError
from clew.mazes.maze import MIN_SIDE, Cell, Maze, Path, Task, check_shape
from clew.mazes.solvers import Event, astar
from clew.tokenization.tokens import PATH_START, Encoded, Parsed, TokenReader, Vocabulary, cell_token, check_grid

BEGIN, END = "bos", "eos"
START, GOAL, WALL_WORD, PLAN, CREATE, CLOSE = "start", "goal", "wall", "plan", "create", "close"


@dataclass(frozen=True)
class WallList:
    """The format of the A* mazes; `with_trace` puts the log of the search before the plan."""

    with_trace: bool
    end_token: str = END

    @property
    def name(self) -> str:
        return "wall-list-trace" if self.with_trace else "wall-list"

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        check_shape(height, width)
        words = [BEGIN, END, START, GOAL, WALL_WORD, PLAN, PATH_START, *map(str, range(max(height, width)))]
        if self.with_trace:
            words += [CREATE, CLOSE, *(f"c{cost}" for cost in range(height * width + 1))]
        return Vocabulary.of(words)

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        """Return the task and its path; the trace is that of the deterministic A*, whatever found the path."""
        check_grid(task, self.name)
        prompt = [BEGIN, *prompt_tokens(task), END, PATH_START]
        if path is None:
            return Encoded(prompt, [])
        trace = trace_tokens(astar(task).trace) if self.with_trace else []
        return Encoded(prompt, [BEGIN, *trace, *plan_tokens(path), END])

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        reader = TokenReader(tokens)
        start, goal, walls = _parse_prompt(reader, height, width)
        # The response is read when there is one; a prompt may end with <PATH_START>.
        reader.skip(PATH_START)
        trace, path = ([], []) if reader.is_done else _parse_response(reader, height, width)
        cells = [start, goal, *walls, *path, *(step.cell for step in trace)]
        side = max(MIN_SIDE, 1 + max(max(cell) for cell in cells))
        maze = Maze.from_walls(height or side, width or side, walls)
        return Parsed(Task(maze, start, goal), path or None, trace=tuple(trace) or None)

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        return _parse_response(TokenReader(tokens), height, width)[1]


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


def _parse_prompt(reader: TokenReader, height: int | None, width: int | None) -> tuple[Cell, Cell, list[Cell]]:
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
    if bracketed:
        if not reader.skip(END):
            reader.fail(f"{WALL_WORD} or {END}")
    elif not reader.is_done and reader.peek() not in (PATH_START, BEGIN, CREATE, PLAN):
        reader.fail(f"{WALL_WORD}, {CREATE}, {PLAN} or the end of the text")
    return start, goal, walls


def _parse_response(reader: TokenReader, height: int | None, width: int | None) -> tuple[list[Event], Path]:
    bracketed = reader.skip(BEGIN)
    trace: list[Event] = []
    path: Path = []
    while (word := reader.peek()) in (CREATE, CLOSE) and not path:
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
