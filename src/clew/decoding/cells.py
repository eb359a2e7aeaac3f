"""Decoders for models that predict one label a cell (clew.models.cell_network).

    decoded = decode(model, codec.canvas(tasks), decoder_named("one-pass"))

A walk turns labels into a path: from the start, each step goes to the unvisited open neighbour that is most probably
on the path, until the goal or a dead end. `OnePass` walks over the labels of one pass. `Walk` stops at a doubt, makes
what it has walked visible, and asks again. `Backtrack` repairs walks that end without reaching the goal.

A step of these decoders fills places that are cells (row-major index) with labels: 1 on the path, 0 off it. The
response is the path: its cells in order and the end token.

Shape suffixes: B mazes, N some of them, C cells of a maze, F filled places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol, cast

import numba
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clew.data.batch import CellBatch
from clew.decoding.state import Canvas, Step
from clew.errors import UserError
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.models.cell_network import OFF, ON, CellNetwork, Stop
from clew.models.config import Model

_ASK = {"never": 0, "doubt": 1, "cell": 2}
RULED_OUT = -1.0  # in the place of the probability of a cell that is visibly off the path
SURE = 0.5  # a neighbour is sure to be next if it alone is above this probability


class CellState:
    """The visible labels and the paths so far."""

    def __init__(self, canvas: Canvas) -> None:
        assert isinstance(canvas.prompt, CellBatch)
        self.batch: CellBatch = canvas.prompt
        self.label_BC = torch.zeros_like(self.batch.tokens_BT)
        self.visible_BC = torch.zeros_like(self.batch.valid_BT)
        self.paths: list[list[int]] = [[] for _ in range(len(canvas))]

    def probabilities(self, model: Model, row_N: Tensor, stop: Stop) -> npt.NDArray[np.float32]:
        """Return the probability that each cell of these mazes is on the path, or RULED_OUT, [N, C]."""
        batch = self.batch.rows(row_N)
        visible_NC = self.visible_BC[row_N] & batch.valid_BT
        batch = replace(batch, tokens_BT=self.label_BC[row_N])
        order_NC = torch.where(visible_NC, 0, torch.where(batch.valid_BT, 1, -1))
        logits = cast(CellNetwork, model)(batch, order_NC, order_NC == 1, stop)
        on_NC = torch.where(visible_NC, self.label_BC[row_N].float(), 0.0)
        on_NC[order_NC == 1] = logits.float().softmax(-1)[:, ON]
        on_NC[visible_NC & (batch.tokens_BT == OFF)] = RULED_OUT
        found: npt.NDArray[np.float32] = on_NC.cpu().numpy()
        return found

    def show(self, row: int, cells: list[int], label: int) -> None:
        """Make these labels visible."""
        self.label_BC[row, cells] = label
        self.visible_BC[row, cells] = True


class CellDecoder(Protocol):
    """A way to label the cells of mazes; each is a frozen dataclass whose fields are its options."""

    def cell_steps(self, model: Model, state: CellState, row_N: Tensor) -> Iterator[Step]:
        """Label the cells of these mazes, leave the paths in the state, and yield every step."""
        ...


@dataclass(frozen=True)
class CellWalk:
    """Walk over the labels, and ask again where it helps.

    - `ask`: "never" walks over the labels of one pass. "doubt" walks while exactly one next cell is sure; otherwise
      it commits the best one, makes the walk visible and asks again. "cell" asks after every cell: next token.
    - `origin`: the walk goes from the start to the goal, or from the goal to the start.
    - `rounds`: how often a walk that ends without reaching its goal goes back to its last fork, labels what followed
      off, and asks again (repair).
    - `loops`, `tolerance`: when the loops of a pass end, as in clew.models.cell_network.Stop.
    """

    ask: Literal["never", "doubt", "cell"] = "doubt"
    origin: Literal["start", "goal"] = "start"
    rounds: int = 0
    loops: float = 1.0
    tolerance: float = 0.0

    any_order = True

    def __post_init__(self) -> None:
        if self.ask not in _ASK or self.origin not in ("start", "goal"):
            raise UserError(
                f"a walk from the {self.origin} that asks at every {self.ask} is impossible; "
                f"use origin=start or goal, and ask={' or '.join(_ASK)}."
            )
        if not 0 <= self.rounds <= 10_000:
            raise UserError(f"{self.rounds} rounds of repair are impossible; use 0 to 10,000.")
        if not (0 < self.loops <= 1000 and 0 <= self.tolerance < 1):
            raise UserError(
                f"loops {self.loops} and tolerance {self.tolerance} are impossible; "
                "use loops above 0 and up to 1000, and a tolerance from 0 to just below 1."
            )

    def cell_steps(self, model: Model, state: CellState, row_N: Tensor) -> Iterator[Step]:
        reverse = self.origin == "goal"
        goal_B = (state.batch.start_B if reverse else state.batch.goal_B).tolist()
        walks: dict[int, list[int]] = {row: [] for row in row_N.tolist()}
        rounds = dict.fromkeys(walks, self.rounds)
        while len(row_N):
            on_NC = state.probabilities(model, row_N, Stop(self.loops, self.tolerance))
            again, filled, undone = [], [], []
            for on_C, row in zip(on_NC, row_N.tolist(), strict=True):
                before = len(walks[row])
                walks[row], over = _walk(state, row, walks[row], on_C, reverse, self.ask)
                filled.append((row, walks[row][before:], on_C))
                state.paths[row] = walks[row][::-1] if reverse else walks[row]
                if not over:
                    state.show(row, walks[row], ON)
                    again.append(row)
                elif walks[row][-1] != goal_B[row] and rounds[row]:
                    fork = _last_fork(state.batch.cells_BHW[row].cpu().numpy(), np.array(walks[row]), on_C)
                    if fork >= 0:
                        state.show(row, walks[row][fork + 1 :], OFF)
                        undone.append((row, walks[row][fork + 1 :], on_C))
                        walks[row] = walks[row][: fork + 1] if self.ask != "never" else []
                        rounds[row] -= 1
                        again.append(row)
            yield _filled(filled, row_N.device)
            if undone:
                yield replace(_filled(undone, row_N.device), hides=True)
            row_N = torch.tensor(again, dtype=torch.int64, device=row_N.device)


def _walk(
    state: CellState, row: int, walked: list[int], on_C: npt.NDArray[np.float32], reverse: bool, ask: str
) -> tuple[list[int], bool]:
    """Continue a walk; the walk, and whether it is over."""
    batch = state.batch
    first, last = int(batch.start_B[row]), int(batch.goal_B[row])
    if reverse:
        first, last = last, first
    cells_HW = batch.cells_BHW[row].cpu().numpy()
    path, over = _continue_walk(cells_HW, np.array(walked or [first], dtype=np.int64), last, on_C, _ASK[ask])
    return path.tolist(), bool(over)


@numba.njit(cache=True)
def _continue_walk(
    cells_HW: np.ndarray, walked: np.ndarray, last: int, on_C: np.ndarray, ask: int
) -> tuple[np.ndarray, bool]:
    """Walk to `last` or a dead end; with `ask` 1 no further than one cell past the first doubt, with 2 by one cell."""
    width = cells_HW.shape[1]
    flat = cells_HW.ravel()
    visited = np.zeros(flat.size, dtype=np.bool_)
    path = np.empty(flat.size, dtype=np.int64)
    length = len(walked)
    for i in range(length):
        path[i] = walked[i]
        visited[walked[i]] = True
    while path[length - 1] != last:
        here = path[length - 1]
        best, sure = -1, 0
        for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
            there = here + move
            if flat[here] & side and not visited[there] and on_C[there] != RULED_OUT:
                sure += on_C[there] > SURE
                if best < 0 or on_C[there] > on_C[best]:
                    best = there
        if best < 0:
            break
        path[length] = best
        visited[best] = True
        length += 1
        if best != last and (ask == 2 or (ask == 1 and sure != 1)):
            return path[:length], False
    return path[:length], True


@numba.njit(cache=True)
def _last_fork(cells_HW: np.ndarray, path: np.ndarray, on_C: np.ndarray) -> int:
    """Return the place of the last cell with an open neighbour that was neither visited nor ruled out, or -1."""
    width = cells_HW.shape[1]
    flat = cells_HW.ravel()
    visited = np.zeros(flat.size, dtype=np.bool_)
    visited[path] = True
    for k in range(len(path) - 1, -1, -1):
        for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
            there = path[k] + move
            if flat[path[k]] & side and not visited[there] and on_C[there] != RULED_OUT:
                return k
    return -1


def _filled(walked: list[tuple[int, list[int], npt.NDArray[np.float32]]], device: torch.device) -> Step:
    """A step that labels these cells as on the path."""
    row_F = torch.tensor([row for row, cells, _ in walked for _ in cells], dtype=torch.int64, device=device)
    cell_F = torch.tensor([cell for _, cells, _ in walked for cell in cells], dtype=torch.int64, device=device)
    confidence = [float(on_C[cell]) for _, cells, on_C in walked for cell in cells]
    return Step(row_F, cell_F, torch.full_like(cell_F, ON), torch.tensor(confidence, device=device))
