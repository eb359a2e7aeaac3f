"""Decoders for models that predict one label a cell (clew.models.cell_network).

    decoded = decode(model, script.canvas(tasks), decoder_named("one-pass"))

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
from clew.decoding.answers import Step
from clew.decoding.canvas import Canvas
from clew.errors import UserError
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.models.cell_network import OFF, ON, CellNetwork, Stop
from clew.models.interface import Model

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
class _Stopping:
    """Options of every decoder: when the loops of a pass end, as in clew.models.cell_network.Stop."""

    loops: float = 1.0
    tolerance: float = 0.0

    any_order = True

    def __post_init__(self) -> None:
        if not (0 < self.loops <= 1000 and 0 <= self.tolerance < 1):
            raise UserError(
                f"loops {self.loops} and tolerance {self.tolerance} are impossible; "
                "use loops above 0 and up to 1000, and a tolerance from 0 to just below 1."
            )

    @property
    def stop(self) -> Stop:
        return Stop(self.loops, self.tolerance)


@dataclass(frozen=True)
class OnePass(_Stopping):
    """One pass; a walk over its labels."""

    def cell_steps(self, model: Model, state: CellState, row_N: Tensor) -> Iterator[Step]:
        on_NC = state.probabilities(model, row_N, self.stop)
        for i, row in enumerate(row_N.tolist()):
            state.paths[row], _ = _walk(state, row, [], on_NC[i], reverse=False, ask="never")
        yield _labelled(state, row_N, on_NC)


@dataclass(frozen=True)
class Walk(_Stopping):
    """Walk while exactly one next cell is sure; otherwise commit the best one, make the walk visible and ask again.

    With `origin="goal"` the walk goes from the goal to the start. With `ask="cell"` every cell takes a pass of its
    own: next token.
    """

    origin: Literal["start", "goal"] = "start"
    ask: Literal["doubt", "cell"] = "doubt"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ask not in ("doubt", "cell"):
            raise UserError(f"a walk cannot ask at every {self.ask!r}; use doubt or cell.")
        if self.origin not in ("start", "goal"):
            raise UserError(f"a walk cannot begin at {self.origin!r}; use start or goal.")

    def cell_steps(self, model: Model, state: CellState, row_N: Tensor) -> Iterator[Step]:
        walks: dict[int, list[int]] = {row: [] for row in row_N.tolist()}
        while len(row_N):
            on_NC = state.probabilities(model, row_N, self.stop)
            doubtful, filled = [], []
            for i, row in enumerate(row_N.tolist()):
                before = len(walks[row])
                walks[row], over = _walk(state, row, walks[row], on_NC[i], self.origin == "goal", self.ask)
                filled.append(_filled(row, walks[row][before:], ON, on_NC[i]))
                if over:
                    state.paths[row] = walks[row][::-1] if self.origin == "goal" else walks[row]
                else:
                    state.show(row, walks[row], ON)
                    doubtful.append(row)
            yield _joined(filled, row_N.device)
            row_N = torch.tensor(doubtful, dtype=torch.int64, device=row_N.device)


@dataclass(frozen=True)
class Backtrack(_Stopping):
    """One pass; a walk that misses the goal goes back to its last fork, labels what followed off, and asks again."""

    rounds: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 1:
            raise UserError(f"{self.rounds} rounds repair nothing; use 1 or more.")

    def cell_steps(self, model: Model, state: CellState, row_N: Tensor) -> Iterator[Step]:
        goal_B = state.batch.goal_B.tolist()
        for number in range(self.rounds + 1):
            on_NC = state.probabilities(model, row_N, self.stop)
            failed = []
            for i, row in enumerate(row_N.tolist()):
                state.paths[row], _ = _walk(state, row, [], on_NC[i], reverse=False, ask="never")
                if state.paths[row][-1] != goal_B[row]:
                    failed.append((row, i))
            yield _labelled(state, row_N, on_NC)
            if not failed or number == self.rounds:
                return
            again = []
            for row, i in failed:
                fork = _last_fork(state.batch.cells_BHW[row].cpu().numpy(), np.array(state.paths[row]), on_NC[i])
                if fork >= 0:
                    state.show(row, state.paths[row][fork + 1 :], OFF)
                    again.append(row)
            row_N = torch.tensor(again, dtype=torch.int64, device=row_N.device)
            if not again:
                return


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


def _filled(
    row: int, cells: list[int], label: int, on_C: npt.NDArray[np.float32]
) -> tuple[int, list[int], int, list[float]]:
    return row, cells, label, [float(on_C[c] if label == ON else 1 - on_C[c]) for c in cells]


def _labelled(state: CellState, row_N: Tensor, on_NC: npt.NDArray[np.float32]) -> Step:
    """A step that labels the cells of each maze's walk."""
    rows = row_N.tolist()
    return _joined([_filled(row, state.paths[row], ON, on_NC[i]) for i, row in enumerate(rows)], row_N.device)


def _joined(filled: list[tuple[int, list[int], int, list[float]]], device: torch.device) -> Step:
    rows = [row for row, cells, _, _ in filled for _ in cells]
    cells = [cell for _, some, _, _ in filled for cell in some]
    labels = [label for _, some, label, _ in filled for _ in some]
    confidence = [c for *_, some in filled for c in some]
    as_int = {"dtype": torch.int64, "device": device}
    return Step(
        torch.tensor(rows, **as_int),  # type: ignore[arg-type]
        torch.tensor(cells, **as_int),  # type: ignore[arg-type]
        torch.tensor(labels, **as_int),  # type: ignore[arg-type]
        torch.tensor(confidence, dtype=torch.float32, device=device),
    )
