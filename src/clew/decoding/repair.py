"""Decode, check the path against its maze, hide what is wrong and try again.

    decoder = Repair(Threshold(), rounds=4, margin=1)

A path is sound if it begins at the start, goes from neighbour to neighbour through open sides, and ends at the goal.
Everything from the first place that breaks this rule to the last is hidden again, with a margin around it that grows
from round to round, and the inner decoder fills the hole from what is left on both sides. From the second round on the
end is hidden too, and all that comes after the first wrong place: perhaps the length was wrong. It needs nothing but
the maze: the true path is never looked at.

Shape suffixes: B, N mazes, F places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from clew.decoding.codec import Codec
from clew.decoding.decode import Decoder
from clew.decoding.state import Answers, Step
from clew.errors import UserError
from clew.mazes.maze import Cell, Task
from clew.models.config import Model
from clew.tokenization.tokens import cell_token
from clew.tokenization.wall_list import BEGIN, PLAN


@dataclass(frozen=True)
class Repair:
    """Another decoder, and up to `rounds` repairs of what it wrote."""

    inner: Decoder
    rounds: int = 4
    margin: int = 1

    any_order = True

    def __post_init__(self) -> None:
        if isinstance(self.inner, Repair):
            raise UserError("a repair cannot repair a repair; give it another inner decoder.")
        if self.rounds < 1 or self.margin < 0:
            raise UserError(
                f"{self.rounds} rounds with a margin of {self.margin} repair nothing; use 1 or more rounds, and a "
                "margin of 0 or more."
            )

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        codec, tasks = answers.canvas.codec, answers.canvas.tasks
        assert codec is not None, "to repair a path its maze must be known"
        assert tasks is not None, "to repair a path its maze must be known"
        check_repairable(codec)
        yield from self.inner.steps(model, answers, row_N)
        mazes = {row: tasks[row][0] for row in row_N.tolist()}
        for number in range(self.rounds):
            holes = {}
            for row in row_N.tolist():
                limit = int(answers.limit_B[row])
                response = answers.token_BR[row, :limit].tolist()
                if wrong := wrong_places(codec, mazes[row], response):
                    margin = self.margin * 2**number * tokens_a_cell(codec)
                    last = limit - 1 if number else min(limit - 1, max(wrong) + margin)
                    holes[row] = range(max(0, min(wrong) - margin), last + 1)
            if not holes:
                return
            pairs = [(row, place) for row, places in holes.items() for place in places]
            row_F, place_F = torch.tensor(pairs, device=row_N.device).T
            yield answers.hide(row_F, place_F)
            row_N = torch.tensor(list(holes), device=row_N.device)
            yield from self.inner.steps(model, answers, row_N)


def check_repairable(codec: Codec) -> None:
    if codec.form in ("wall-list-trace", "path-star-reversed"):
        what = "with a search trace" if codec.form == "wall-list-trace" else "from the goal to the start"
        raise UserError(f"a response {what} cannot be repaired; use another decoder.")


def tokens_a_cell(codec: Codec) -> int:
    return 3 if codec.form == "wall-list" else 1


def wrong_places(codec: Codec, task: Task, response: list[int]) -> list[int]:
    """The places of a response that break the rules of a sound path, in order."""
    width = tokens_a_cell(codec)
    offset = 1 if codec.form == "wall-list" else 0  # such responses begin with a word of their own
    ended = bool(response) and response[-1] == codec.end(task.maze.height, task.maze.width)
    body = response[:-1] if ended else response
    cells = [_cell(codec, task, body[i : i + width]) for i in range(offset, len(body), width)]
    wrong: set[int] = set()

    def blame(step: int) -> None:
        first = offset + step * width
        wrong.update(range(first, min(first + width, len(body))))

    for step, cell in enumerate(cells):
        if cell is None:
            blame(step)
    for step, (here, there) in enumerate(pairwise(cells)):
        if here is not None and there is not None and not task.maze.is_open(here, there):
            blame(step)
            blame(step + 1)
    if cells and cells[0] != task.start:
        blame(0)
    if cells and cells[-1] != task.goal:
        blame(len(cells) - 1)
    if not (ended and cells and cells[-1] == task.goal):
        wrong.add(len(response) - 1)  # perhaps the path only ends too early or too late
    if offset and (codec.vocabulary is None or codec.vocabulary.decode(body[:1]) != [BEGIN]):
        wrong.add(0)
    return sorted(wrong)


def _cell(codec: Codec, task: Task, tokens: list[int]) -> Cell | None:
    """The cell that the tokens of one step say, or None if they say none."""
    height, width = task.maze.height, task.maze.width
    assert codec.vocabulary is not None, "a repair is for text models"
    return _cell_names(codec.form, height, width).get(tuple(codec.vocabulary.decode(tokens)))


@lru_cache(maxsize=8)
def _cell_names(form: str, height: int, width: int) -> dict[tuple[str, ...], Cell]:
    """The words of one step, for every cell of a maze."""
    cells = [(row, col) for row in range(height) for col in range(width)]
    if form.startswith("path-star"):
        return {(str(col),): (row, col) for row, col in cells}
    if form == "wall-list":
        return {(PLAN, str(col), str(row)): (row, col) for row, col in cells}
    return {(cell_token(cell),): cell for cell in cells}
