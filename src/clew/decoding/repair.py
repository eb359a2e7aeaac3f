"""Repair: decode, check the path against its maze, hide what is wrong and decode again.

    decoder = Repair(Threshold(), rounds=4, margin=1)

A path is valid if it begins at the start, moves between neighbours through open sides, and ends at the goal.
Everything from the first to the last position that breaks a rule is hidden again, with a margin that doubles from
round to round, and the inner decoder fills the gap. From the second round on, everything after the first wrong
position is hidden, the end token included, because the length may be wrong. The true path is never used.

Shape suffixes: B, N mazes, F positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from clew.decoding.codec import Codec
from clew.decoding.state import Decoder, DecodingState, Step
from clew.decoding.text_decoders import Threshold
from clew.errors import UserError
from clew.mazes.maze import Task
from clew.models.config import Model
from clew.tokenization.wall_list import BEGIN

TOKENS_PER_CELL = {"edge-list": 1, "grid": 1, "path-star": 1, "wall-list": 3}


@dataclass(frozen=True)
class Repair:
    """Run another decoder, and then up to `rounds` repairs of its paths."""

    inner: Decoder = field(default_factory=Threshold)
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

    def steps(self, model: Model, state: DecodingState, row_N: Tensor) -> Iterator[Step]:
        codec, tasks = state.codec, state.tasks
        assert codec is not None and tasks is not None, "a repair needs the maze"  # noqa: PT018
        check_repairable(codec)
        yield from self.inner.steps(model, state, row_N)
        for number in range(self.rounds):
            gaps: dict[int, range] = {}
            for row in row_N.tolist():
                length = int(state.length_B[row])
                response = state.token_BR[row, :length].tolist()
                if wrong := wrong_positions(codec, tasks[row][0], response):
                    margin = self.margin * 2**number * TOKENS_PER_CELL[codec.format_name]
                    last = length - 1 if number else min(length - 1, max(wrong) + margin)
                    gaps[row] = range(max(0, min(wrong) - margin), last + 1)
            if not gaps:
                return
            pairs = [(row, position) for row, positions in gaps.items() for position in positions]
            row_F, position_F = torch.tensor(pairs, device=row_N.device).T
            yield state.hide(row_F, position_F)
            row_N = torch.tensor(list(gaps), device=row_N.device)
            yield from self.inner.steps(model, state, row_N)


def check_repairable(codec: Codec) -> None:
    """Raise a UserError if responses of this format cannot be checked cell by cell."""
    if codec.format_name not in TOKENS_PER_CELL:
        reasons = {"wall-list-trace": "with a search trace", "path-star-reversed": "from the goal to the start"}
        reason = reasons.get(codec.format_name, f"of the format {codec.format_name}")
        raise UserError(f"a response {reason} cannot be repaired; use another decoder.")


def wrong_positions(codec: Codec, task: Task, response: list[int]) -> list[int]:
    """Return the positions of a response that break the rules of a valid path, in order."""
    assert codec.vocabulary is not None
    per_cell = TOKENS_PER_CELL[codec.format_name]
    first = 1 if codec.format_name == "wall-list" else 0  # such responses begin with the token bos
    ended = bool(response) and response[-1] == codec.end(task.maze.height, task.maze.width)
    texts = codec.vocabulary.decode(response[:-1] if ended else response)
    groups = [tuple(texts[i : i + per_cell]) for i in range(first, len(texts), per_cell)]
    cells = [codec.cell_named(group, task.maze.height, task.maze.width) for group in groups]

    wrong_cells = {i for i, cell in enumerate(cells) if cell is None}
    for i, (here, there) in enumerate(pairwise(cells)):
        if here is not None and there is not None and not task.maze.is_open(here, there):
            wrong_cells |= {i, i + 1}
    if cells and cells[0] != task.start:
        wrong_cells.add(0)
    if cells and cells[-1] != task.goal:
        wrong_cells.add(len(cells) - 1)
    wrong = {first + i * per_cell + k for i in wrong_cells for k in range(len(groups[i]))}
    if not (ended and cells and cells[-1] == task.goal):
        wrong.add(len(response) - 1)  # the path may end too early or too late
    if first and texts[:1] != [BEGIN]:
        wrong.add(0)
    return sorted(wrong)
