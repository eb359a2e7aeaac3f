"""Cell network: recurrent message passing between cells that predicts one label a cell, on the path or not.

    config = CellNetworkConfig(width=64, loops_per_side=1.5, base_loops=4)
    logits_Q2 = build_model(config, seed=0)(batch, order_BT, query_BT)      # batch is a clew.data.batch.CellBatch

A shortest path never touches itself, so the set of its cells determines it. The response is therefore one label a cell,
and every mask objective applies unchanged. No weight depends on the size of the maze.

The embedding e_i of a cell is the sum of embeddings of its open sides, of its role (plain, start, goal) and of its
visible label (hidden, off, on), and, with `offsets`, of a two-layer map of its signed row and column offsets to the
goal and to the start.

A loop is x = norm(x) + e, followed by `steps` message steps x = x + out(m), all loops with the same weights. With
n = norm(x), a_i = self n_i, h_j = neighbour n_j and a bias b_s for each side s, the hidden units of cell i are

    sum units   m = relu(a_i + b_self)^2 + sum over open neighbours j at side s of relu(a_i + h_j + b_s)^2
    max units   m = relu(a_i + max over open neighbours j at side s of (h_j + b_s))^2

followed by an RMS norm with eps 1. Sums alone cannot take the minimum that a shortest path needs. Messages never
cross a wall, so cells that the start cannot reach are left out.

In training, half of the mazes start from zero and are read after a random number of loops; the other half start from
the state after a random number of loops without gradients (warm start), so that the model learns to hold its
solution.

Shape suffixes: B mazes, N cells of a maze (height * width), C reachable cells of all mazes, G mazes in the order of
their loops, M reachable cells of these mazes, D width, F hidden units, Q queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.data.batch import CellBatch
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.models.config import CellNetworkConfig
from clew.models.cpu_kernels import use_cpu_kernel
from clew.models.cpu_kernels.message_passing import NORM_EPS, Weights, recurrent_loops, threads_for_groups

PLAIN, START, GOAL = range(3)
OFF, ON = range(2)
HIDDEN = 0  # a visible label has its own number plus one
SIDE_CODES = 16  # sets of open sides; a wall cell has none and is never reached


@dataclass(frozen=True)
class Stop:
    """When the loops of an evaluation end: after at most `loops` times those of the config.

    Every `every` loops, first after half of the config's, the probabilities are read, and a maze stops when all are
    within `tolerance` of 0 or 1, or none has changed by more than `tolerance`. A tolerance of 0 runs all loops.
    """

    loops: float = 1.0
    tolerance: float = 0.0
    every: int = 4


class Packed(NamedTuple):
    """The reachable cells of some mazes of a batch, one maze after another."""

    index_M: Tensor  # of each cell among the reachable cells of the batch
    neighbour_M4: Tensor  # int32; row of the open neighbour on each side, -1 where there is none
    size_G: list[int]

    def maximum(self, value_M: Tensor) -> Tensor:
        """Return the largest of these nonnegative values in each maze."""
        maze_M = torch.arange(len(self.size_G)).repeat_interleave(torch.tensor(self.size_G)).to(value_M.device)
        return value_M.new_zeros(len(self.size_G)).scatter_reduce(0, maze_M, value_M, "amax")


class MessageStep(nn.Module):
    """One exchange of messages between open neighbours; starts as the identity."""

    def __init__(self, config: CellNetworkConfig) -> None:
        super().__init__()
        self.self_map = nn.Linear(config.width, config.hidden, bias=False)
        self.neighbour_map = nn.Linear(config.width, config.hidden, bias=False)
        self.self_bias = nn.Parameter(torch.zeros(config.sum_units))
        self.side_bias = nn.Parameter(config.side_bias * torch.randn(4, config.hidden))
        self.out = nn.Linear(config.hidden, config.width, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(self, x_MD: Tensor, neighbour_M4: Tensor) -> Tensor:
        """Return what the CPU kernel computes, in plain torch."""
        normed_MD = rms_norm(x_MD)
        self_MF, neighbour_MF = self.self_map(normed_MD), self.neighbour_map(normed_MD)
        # The last row stands for a closed side.
        neighbour_MF = torch.cat([neighbour_MF, torch.zeros_like(neighbour_MF[:1])])
        open_M41 = (neighbour_M4 >= 0)[..., None]
        neighbour_M4F = neighbour_MF[neighbour_M4.long()] + self.side_bias
        k = len(self.self_bias)
        sums_MF = (F.relu(self_MF[:, None, :k] + neighbour_M4F[..., :k]).square() * open_M41).sum(1)
        sums_MF = sums_MF + F.relu(self_MF[:, :k] + self.self_bias).square()
        max_MF = neighbour_M4F[..., k:].masked_fill(~open_M41, -1e30).amax(1)
        message_MF = torch.cat([sums_MF, F.relu(self_MF[:, k:] + max_MF).square()], dim=1)
        message_MF = message_MF * (message_MF.square().mean(1, keepdim=True) + 1).rsqrt()
        out_MD: Tensor = x_MD + self.out(message_MF)
        return out_MD


class CellNetwork(nn.Module):
    """See the module's docstring."""

    adamw_parameters = ("head.weight", "offset_in.weight")  # matrices that Muon does not update
    threads = staticmethod(threads_for_groups)  # the training loop runs in this context

    def __init__(self, config: CellNetworkConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.sides = nn.Embedding(SIDE_CODES, width)
        self.roles = nn.Embedding(3, width)
        self.labels = nn.Embedding(3, width)
        if config.offsets:
            self.offset_in = nn.Linear(12, width, bias=False)
            self.offset_out = nn.Linear(width, width, bias=False)
        self.message_steps = nn.ModuleList(MessageStep(config) for _ in range(config.steps))
        self.readout = nn.Linear(width, config.hidden)
        self.head = nn.Linear(config.hidden, 1)
        nn.init.zeros_(self.head.weight)

    @threads_for_groups()
    def forward(self, batch: CellBatch, order_BT: Tensor, query_BT: Tensor, stop: Stop | None = None) -> Tensor:
        """Return logits [Q, 2] of the labels off and on; `stop` limits the loops in evaluation."""
        assert not (order_BT > 1).any(), "a cell network predicts all hidden labels at once"
        embedding_CD = self.embed(batch, order_BT == 0)
        state_CD = torch.zeros_like(embedding_CD)
        if self.training:
            free_B, loops_B = self.config.training_loops(batch)
            if bool(free_B.any()):
                with torch.no_grad():
                    state_CD = self.run_loops(batch, embedding_CD, state_CD, free_B)
            state_CD = self.run_loops(batch, embedding_CD, state_CD, loops_B)
        else:
            state_CD = self.run_to_stop(batch, embedding_CD, state_CD, stop or Stop())
        return self.read(state_CD[query_BT[batch.valid_BT]])

    def run_to_stop(self, batch: CellBatch, embedding_CD: Tensor, state_CD: Tensor, stop: Stop) -> Tensor:
        """Return the state when the probabilities of each maze have settled, or after the last loop."""
        usual = self.config.loops(*batch.cells_BHW.shape[1:])
        most = max(1, math.ceil(stop.loops * usual))
        if stop.tolerance == 0:
            return self.run_loops(batch, embedding_CD, state_CD, torch.full_like(batch.start_B, most))
        active_G, before_C, done = torch.arange(len(batch), device=state_CD.device), None, 0
        packed = pack(batch, active_G)
        while True:
            # Reading costs most of a loop, so the first half of the usual loops is run without it.
            loops = min(stop.every if done else max(stop.every, usual // 2), most - done)
            done += loops
            state_CD = self._run_packed(state_CD, embedding_CD, packed, [loops] * len(active_G))
            if done == most:
                return state_CD
            # What is left of each maze: its largest doubt, or its largest change, whichever is smaller.
            on_M = self.read(state_CD[packed.index_M])[:, ON].sigmoid().float()
            left_G = packed.maximum(torch.minimum(on_M, 1 - on_M))
            if before_C is not None:
                left_G = torch.minimum(left_G, packed.maximum((on_M - before_C[packed.index_M]).abs()))
            before_C = on_M.new_zeros(len(state_CD)).index_copy(0, packed.index_M, on_M)
            active = left_G > stop.tolerance
            if not bool(active.any()):
                return state_CD
            if not bool(active.all()):
                active_G = active_G[active]
                packed = pack(batch, active_G)

    def read(self, state_QD: Tensor) -> Tensor:
        """Return logits of the labels off and on."""
        on_Q1 = self.head(F.relu(self.readout(rms_norm(state_QD))).square())
        return torch.cat([torch.zeros_like(on_Q1), on_Q1], dim=-1)

    def embed(self, batch: CellBatch, visible_BN: Tensor) -> Tensor:
        """Return the embedding of every reachable cell, [C, D]."""
        maze_C, cell_C = batch.valid_BT.nonzero(as_tuple=True)
        sides_C = batch.cells_BHW.flatten(1)[maze_C, cell_C].long()
        role_C = torch.where(cell_C == batch.start_B[maze_C], START, PLAIN)
        role_C = torch.where(cell_C == batch.goal_B[maze_C], GOAL, role_C)
        label_C = torch.where(visible_BN, batch.tokens_BT + 1, HIDDEN)[maze_C, cell_C]
        x_CD: Tensor = self.sides(sides_C) + self.roles(role_C) + self.labels(label_C)
        if self.config.offsets:
            features = offset_features(batch, maze_C, cell_C).to(x_CD.dtype)
            x_CD = x_CD + self.offset_out(F.relu(self.offset_in(features)).square())
        return x_CD

    def run_loops(self, batch: CellBatch, embedding_CD: Tensor, state_CD: Tensor, loops_B: Tensor) -> Tensor:
        """Return the state after this many loops of each maze."""
        # Mazes with the most loops come first, so that the active ones are contiguous.
        loops_G, order_G = loops_B.sort(descending=True, stable=True)
        packed = pack(batch, order_G[: int((loops_G > 0).sum())])
        return self._run_packed(state_CD, embedding_CD, packed, loops_G[: len(packed.size_G)].tolist())

    def _run_packed(self, state_CD: Tensor, embedding_CD: Tensor, packed: Packed, loops_G: list[int]) -> Tensor:
        """Return the state after falling numbers of loops of the packed mazes."""
        x_MD, embedding_MD = (y_CD.index_select(0, packed.index_M) for y_CD in (state_CD, embedding_CD))
        steps = cast(list[MessageStep], list(self.message_steps))
        if use_cpu_kernel(x_MD):
            weights = Weights(
                torch.stack([torch.cat([step.self_map.weight, step.neighbour_map.weight]) for step in steps]),
                torch.stack([step.self_bias for step in steps]),
                torch.stack([step.side_bias for step in steps]),
                torch.stack([step.out.weight for step in steps]),
            )
            x_MD = recurrent_loops(x_MD, embedding_MD, packed.neighbour_M4, loops_G, packed.size_G, weights)
        else:
            x_MD = plain_loops(x_MD, embedding_MD, packed, loops_G, steps)
        return state_CD.to(x_MD.dtype).index_copy(0, packed.index_M, x_MD)


def plain_loops(
    x_MD: Tensor, embedding_MD: Tensor, packed: Packed, loops_G: list[int], steps: list[MessageStep]
) -> Tensor:
    """Return what `recurrent_loops` computes, in plain torch: for GPUs, autocast and tests."""
    stopped = []
    for loop in range(loops_G[0]):
        active = sum(packed.size_G[: sum(loops > loop for loops in loops_G)])
        if active < len(x_MD):
            stopped.append(x_MD[active:])
            x_MD = x_MD[:active]
        x_MD = rms_norm(x_MD) + embedding_MD[:active]
        for step in steps:
            x_MD = step(x_MD, packed.neighbour_M4[:active])
    return torch.cat([x_MD, *reversed(stopped)])


def rms_norm(x: Tensor) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + NORM_EPS).rsqrt()


def pack(batch: CellBatch, order_G: Tensor) -> Packed:
    """Return the reachable cells of these mazes of a batch."""
    _, height, width = batch.cells_BHW.shape
    cells = height * width
    valid_GN = batch.valid_BT.index_select(0, order_G)
    row, cell = valid_GN.nonzero(as_tuple=True)
    row_of = torch.full((len(order_G), cells), -1, dtype=torch.int32, device=row.device)
    row_of[row, cell] = torch.arange(len(row), dtype=torch.int32, device=row.device)
    sides_M = batch.cells_BHW.flatten(1).index_select(0, order_G)[row, cell]
    neighbours = [
        torch.where((sides_M & side) != 0, row_of[row, (cell + move).clamp(0, cells - 1)], -1)
        for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1))
    ]
    index_BN = (batch.valid_BT.flatten().cumsum(0) - 1).view_as(batch.valid_BT)
    return Packed(index_BN[order_G[row], cell], torch.stack(neighbours, dim=1), valid_GN.sum(1).tolist())


def offset_features(batch: CellBatch, maze_C: Tensor, cell_C: Tensor) -> Tensor:
    """Return sign, tanh(o / 2) and tanh(o / 6) of the row and column offsets o to goal and start, [C, 12]."""
    width = batch.cells_BHW.shape[2]
    offsets = []
    for end_B in (batch.goal_B, batch.start_B):
        end_C = end_B[maze_C]
        offsets += [end_C // width - cell_C // width, end_C % width - cell_C % width]
    offset_C4 = torch.stack(offsets, dim=-1).float()
    return torch.cat([offset_C4.sign(), (offset_C4 / 2).tanh(), (offset_C4 / 6).tanh()], dim=-1)
