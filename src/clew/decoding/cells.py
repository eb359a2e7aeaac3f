"""Decoders for cell networks, which predict for each cell whether it is on the path (clew.models.cell_network).

    decoded = decode(model, codec.decoding_state(tasks), decoder_named("one-pass"))
    on_LHW = loop_probabilities(model, task)      # the prediction after each loop of one pass

A walk turns labels into a path: from the start, each step goes to the unvisited open neighbour with the highest
probability, until the goal or a dead end. A step of these decoders fills positions that are cells (row-major index)
with the label 1.

Shape suffixes: B mazes, N some of them, C cells of a maze, F filled positions, L loops, H rows, W columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from clew.data.batch import cell_batch
from clew.decoding.codec import RULED_OUT, CellState, Probabilities, Step
from clew.errors import UserError
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Task, TaskBatch
from clew.models.cell_network import OFF, ON, CellNetwork, Stop
from clew.models.config import Model

SURE = 0.5  # a neighbour is certainly next if it alone is above this probability


@dataclass(frozen=True)
class CellWalk:
    """Walk over the labels, and query the model again where it helps."""

    # "never" walks over the labels of one pass. "doubt" walks while exactly one next cell is above 0.5; otherwise it
    # takes the best one, makes the walk visible and queries again. "cell" queries after every cell.
    query: Literal["never", "doubt", "cell"] = "doubt"
    origin: Literal["start", "goal"] = "start"
    # How often a walk that misses its goal returns to its last fork, labels what follows as off, and queries again.
    rounds: int = 0
    # As in clew.models.cell_network.Stop; chosen on mazes of the training split (benchmarks/early_stop.py).
    loops: float = 4.0
    tolerance: float = 0.1
    every: int = 4

    any_order = for_cells = True

    def __post_init__(self) -> None:
        ranges = {"rounds": (0, 10_000), "loops": (1e-3, 1000), "tolerance": (0, 0.999), "every": (1, 10_000)}
        for name, (low, high) in ranges.items():
            if not low <= (value := getattr(self, name)) <= high:
                raise UserError(f"a walk with {name} {value:g} is impossible; use {low:g} to {high:,g}.")

    def steps(self, model: Model, state: CellState, row_N: Tensor) -> Iterator[Step]:
        first_B, last_B = state.prompt.start_B.tolist(), state.prompt.goal_B.tolist()
        if self.origin == "goal":
            first_B, last_B = last_B, first_B
        width, sides_BC = state.prompt.cells_BHW.shape[2], state.prompt.cells_BHW.flatten(1).tolist()
        walks: dict[int, list[int]] = {row: [] for row in row_N.tolist()}
        rounds = dict.fromkeys(walks, self.rounds)
        while len(row_N):
            rows = row_N.tolist()
            found = state.query(model, row_N, Stop(self.loops, self.tolerance, self.every))
            on = dict(zip(rows, found, strict=True))
            again, new, undone = [], [], []
            for row, on_C in zip(rows, found.tolist(), strict=True):
                walk, sides_C = walks[row], sides_BC[row]
                begin = len(walk)
                walk += [] if walk else [first_B[row]]
                is_over = _walk_on(sides_C, width, walk, last_B[row], on_C, self.query)
                new.append((row, walk[begin:]))
                state.paths[row] = walk[::-1] if self.origin == "goal" else walk[:]
                if not is_over:
                    state.show(row, walk, ON)
                    again.append(row)
                elif walk[-1] != last_B[row] and rounds[row]:
                    backwards = range(len(walk) - 1, -1, -1)
                    fork = next((k for k in backwards if _onward(sides_C, width, walk[k], set(walk), on_C)), None)
                    if fork is not None:
                        state.show(row, walk[fork + 1 :], OFF)
                        undone.append((row, walk[fork + 1 :]))
                        walks[row] = walk[: fork + 1] if self.query != "never" else []
                        rounds[row] -= 1
                        again.append(row)
            yield state.fill(new, on)
            if undone:
                yield replace(state.fill(undone, on), hidden=True)
            row_N = torch.tensor(again, dtype=torch.int64, device=row_N.device)


def _walk_on(sides_C: list[int], width: int, walk: list[int], last: int, on_C: list[float], query: str) -> bool:
    """Walk to `last`, a dead end, or one cell past the first doubt, and return whether the walk is over."""
    visited = set(walk)
    while walk[-1] != last and (near := _onward(sides_C, width, walk[-1], visited, on_C)):
        walk.append(max(near, key=on_C.__getitem__))
        visited.add(walk[-1])
        is_doubt = query == "cell" or (query == "doubt" and sum(on_C[cell] > SURE for cell in near) != 1)
        if is_doubt and walk[-1] != last:
            return False
    return True


def _onward(sides_C: list[int], width: int, here: int, visited: set[int], on_C: list[float]) -> list[int]:
    """Return the open neighbours that are neither visited nor ruled out."""
    near = ((NORTH, here - width), (SOUTH, here + width), (WEST, here - 1), (EAST, here + 1))
    open_sides = (cell for side, cell in near if sides_C[here] & side)
    return [cell for cell in open_sides if cell not in visited and on_C[cell] != RULED_OUT]


def loop_probabilities(model: Model, task: Task, loops: int | None = None) -> Probabilities:
    """Return the probability that each cell is on the path after each loop, by default the config's, [L, H, W]."""
    if not isinstance(model, CellNetwork):
        raise UserError("only cell networks predict in loops; use a model of that kind, such as cells-dfs.")
    device = next(model.parameters()).device
    batch = cell_batch(TaskBatch.from_tasks([task], [[]]), np.arange(1)).to(device)
    height, width = task.maze.cells.shape
    count = loops or max(1, math.ceil(model.config.loops(height, width)))
    with torch.no_grad():
        embedding_CD = model.embed(batch, torch.zeros_like(batch.valid_BT))
        state_CD, one_B = torch.zeros_like(embedding_CD), torch.ones_like(batch.start_B)
        on_LN = torch.zeros(count, height * width)
        for loop in range(count):
            state_CD = model.run_loops(batch, embedding_CD, state_CD, one_B)
            on_LN[loop, batch.valid_BT[0].cpu()] = model.read(state_CD).float().softmax(-1)[:, ON].cpu()
    found: Probabilities = on_LN.numpy().reshape(count, height, width)
    return found
