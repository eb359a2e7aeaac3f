"""The grid-pointer model: the cells are the only tokens, and every step of the path points at one of them.

A cell's embedding is the sum of its open sides, its role (plain, start, goal, wall) and, where the path visits it at
a visible step t, a projection of sincos(t). An encoder makes the cells talk: along open passages (passage mixing),
and all with all (attention with axial 2-D RoPE). Every asked step t is a query, a projection of sincos(t), that
reads the cells through cross-attention and then points: its logits are dot products with the cells' keys and with one
learned key that means "the path is over". No weight depends on the size of the maze, so one set of weights serves
every size.

The encoder is a few blocks that are run over and over (loops) with the same weights. Each loop begins with the normed
state and the embedding, so that it does the same thing however many have gone before. What a cell can know grows with
every step along the passages, and start and goal can only hear of each other once half of the path's steps are done,
so the loops grow with the number of cells, as the longest paths do. In training each maze is read after a loop of its
own choice among the last third, so that the model learns to hold what it has found.

Shape suffixes: B mazes, A mazes that ask something, N cells (height * width), T steps, Q asked steps, P places for them
(asked.py), D width, C classes (N cells and the end).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from clew.data.batch import Batch, GridBatch
from clew.errors import UserError
from clew.models.asked import Packed, pack
from clew.models.config import check_positive
from clew.models.grid_layers import Attention, FeedForward, attend, axial_rope, norm, sincos
from clew.models.passage_loops import walk
from clew.models.passages import PassageStep, by_hand

PLAIN, START, GOAL, SOLID = range(4)
SIDE_CODES = 17  # sixteen sets of open sides, and the wall cell
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2  # its multiples, modulo 1, are spread evenly
# The loops of a pass that goes on from the one before: this share of all loops, and no fewer than so many. Where that
# does not save half of them, a pass begins from nothing: many passes one after the other are many more loops than the
# model was trained for, and on small mazes that can cost accuracy (docs/experiments-log.md, no. 27).
AGAIN, FEWEST_AGAIN, MOST_AGAIN = 0.1, 8, 0.5


@dataclass(frozen=True)
class GridPointerConfig:
    """Sizes of a grid-pointer model."""

    width: int = 64
    heads: int = 4
    # A block is `hops` steps along open passages, then attention over all cells, if wanted.
    blocks: int = 1
    hops: int = 2
    attention: bool = False
    # How often the blocks are run: twice, and this often for each cell of the maze. 0.2 is 22 times at 10x10.
    loops_per_cell: float = 0.2
    query_blocks: int = 2
    # The hidden layer of a passage step, and of a feed-forward, in widths.
    hop_expansion: int = 2
    expansion: int = 4

    def __post_init__(self) -> None:
        check_positive(self, ("width", "heads", "blocks", "query_blocks", "hop_expansion", "expansion"))
        if self.hops < 0 or self.hops + self.attention == 0:
            raise UserError("a block without steps along passages and without attention does nothing; give it one.")
        if self.width % (4 * self.heads):
            raise UserError(
                f"a width of {self.width} does not give each of {self.heads} heads a multiple of 4, which the RoPE of "
                "rows and columns needs; change the width or the heads."
            )
        if not 0 <= self.loops_per_cell <= 100:
            raise UserError(f"loops_per_cell is {self.loops_per_cell}; use a number from 0 to 100.")

    def loops(self, height: int, width: int) -> int:
        """How often the blocks are run for a maze of this shape."""
        return 2 + math.ceil(self.loops_per_cell * height * width - 1e-9)

    def loops_in_training(self, batch: GridBatch) -> Tensor:
        """How often the blocks are run for each maze in training: all the times, or up to a third less.

        A maze's own number chooses, so it depends neither on the other mazes of the batch nor on the number of
        processes that share them.
        """
        loops = self.loops(*batch.cells_BHW.shape[1:])
        share_B = (batch.index_B.double() * GOLDEN_RATIO) % 1
        loops_B: Tensor = (loops * (2 + share_B) / 3).long().clamp(max=loops - 1) + 1
        return loops_B

    def forward_flops(self, batch: Batch, rank_BT: Tensor, ask_BT: Tensor) -> float:
        """Floating-point operations of the matrix products of one forward pass of training over what is needed."""
        assert isinstance(batch, GridBatch)
        mazes = len(batch.cells_BHW)
        cells, square = batch.cells_BHW[0].numel(), self.width**2
        block = self.hops * 2 * 3 * self.hop_expansion * square * cells
        if self.attention:
            block += (2 * 4 + 4 * self.expansion) * square * cells + 4 * self.width * cells**2
        asked = float(ask_BT.sum())
        reading = self.query_blocks * (
            4 * square * cells * mazes + ((4 + 4 * self.expansion) * square + 4 * self.width * cells) * asked
        )
        pointing = 2 * square * (cells * mazes + 2 * asked) + 2 * self.width * (cells + 1) * asked
        return float(self.loops_in_training(batch).sum()) * self.blocks * block + reading + pointing


Looped = tuple[list[int], Tensor]  # the loops of each maze, falling, and the embedding


class Block(nn.Module):
    """Some steps along open passages, then attention over all cells."""

    def __init__(self, config: GridPointerConfig) -> None:
        super().__init__()
        self.hops = nn.ModuleList(PassageStep(config.width, config.hop_expansion) for _ in range(config.hops))
        self.attention = Attention(config.width, config.heads) if config.attention else None
        self.feed_forward = FeedForward(config.width, config.expansion) if config.attention else None

    def forward(self, x_BND: Tensor, cells_BHW: Tensor, rope: Tensor, looped: Looped | None = None) -> Tensor:
        """Once, or, as passage_loops.py can without attention, all loops."""
        if looped is not None:
            steps = cast(Iterable[PassageStep], self.hops)
            return walk(x_BND, cells_BHW, [step.weights() for step in steps], *looped)
        for hop in self.hops:
            x_BND = hop(x_BND, cells_BHW)
        if self.attention is not None and self.feed_forward is not None:
            normed = norm(x_BND)
            x_BND = x_BND + self.attention(normed, normed, rope, rope)
            x_BND = x_BND + self.feed_forward(norm(x_BND))
        return x_BND


class QueryBlock(nn.Module):
    """Asked steps read the cells; they never see each other, so each is answered as if it were asked alone."""

    def __init__(self, config: GridPointerConfig) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads)
        self.feed_forward = FeedForward(config.width, config.expansion)

    def forward(self, query_PD: Tensor, cells_AND: Tensor, packed: Packed) -> Tensor:
        packs = zip(
            packed.places(self.attention.queries(norm(query_PD))),
            *map(packed.mazes, self.attention.keys_and_values(cells_AND)),
            strict=True,
        )
        found_PD = torch.cat([attend(q.transpose(1, 2), k, v).flatten(0, 1) for q, k, v in packs])
        query_PD = query_PD + self.attention.out(found_PD)
        out_PD: Tensor = query_PD + self.feed_forward(norm(query_PD))
        return out_PD


class GridPointer(nn.Module):
    """See the module's docstring."""

    def __init__(self, config: GridPointerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.side_embedding = nn.Embedding(SIDE_CODES, width)
        self.role_embedding = nn.Embedding(4, width)
        self.step_in = nn.Linear(width, width, bias=False)  # what a visible step adds to its cell
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.query_in = nn.Linear(width, width, bias=False)
        self.query_blocks = nn.ModuleList(QueryBlock(config) for _ in range(config.query_blocks))
        self.pointer_query = nn.Linear(width, width, bias=False)
        self.pointer_key = nn.Linear(width, width, bias=False)
        self.end_key = nn.Parameter(torch.zeros(width))

    def forward(self, batch: GridBatch, rank_BT: Tensor, ask_BT: Tensor) -> Tensor:
        # No cell may know what a query must not: only the two ranks of masked objectives can be answered at once.
        assert not (rank_BT > 1).any(), "a grid-pointer model answers all hidden steps at once"
        return self.answer(self.encode(batch, rank_BT == 0), ask_BT)

    def go_on(
        self, batch: GridBatch, rank_BT: Tensor, ask_BT: Tensor, state_BND: Tensor, fresh_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The logits of a later pass over the same mazes, and the state for the next one.

        Most of what the cells know is still true when a few more steps are visible, so mazes that are not fresh go on
        with the state of their last pass, for a few loops.
        """
        loops = self.config.loops(*batch.cells_BHW.shape[1:])
        few = max(FEWEST_AGAIN, math.ceil(AGAIN * loops))
        if few > MOST_AGAIN * loops:
            fresh_B = torch.ones_like(fresh_B)
        loops_B = torch.where(fresh_B, loops, few)
        state_BND = torch.where(fresh_B[:, None, None], 0.0, state_BND)
        state_BND = self.think(batch, self.embed(batch, rank_BT == 0), state_BND, loops_B)
        return self.answer(norm(state_BND), ask_BT), state_BND

    def answer(self, cells_BND: Tensor, ask_BT: Tensor) -> Tensor:
        """Logits [Q, C] over the cells and the end, at the asked steps."""
        packed = pack(ask_BT)
        cells_AND = cells_BND.index_select(0, packed.order_A)
        query_PD = self.query_in(sincos(packed.step_P, self.config.width).to(cells_BND.dtype))
        for block in self.query_blocks:
            query_PD = block(query_PD, cells_AND, packed)
        query_PD = self.pointer_query(norm(query_PD))
        keys_AND = self.pointer_key(cells_AND)
        keys_ACD = torch.cat([keys_AND, self.end_key.expand(len(keys_AND), 1, -1)], dim=1)
        packs = zip(packed.places(query_PD), packed.mazes(keys_ACD), strict=True)
        logits_PC = torch.cat([(query @ keys.transpose(1, 2)).flatten(0, 1) for query, keys in packs])
        logits_QC: Tensor = logits_PC.index_select(0, packed.place_Q) * self.config.width**-0.5
        return logits_QC

    def encode(self, batch: GridBatch, visible_BT: Tensor) -> Tensor:
        """What the cells know once they have talked, the visible steps among it."""
        embedded_BND = self.embed(batch, visible_BT)
        if self.training:
            loops_B = self.config.loops_in_training(batch)
        else:
            loops_B = torch.full_like(batch.start_B, self.config.loops(*batch.cells_BHW.shape[1:]))
        return norm(self.think(batch, embedded_BND, torch.zeros_like(embedded_BND), loops_B))

    def think(self, batch: GridBatch, embedded_BND: Tensor, state_BND: Tensor, loops_B: Tensor) -> Tensor:
        """Run the blocks over each maze so many times; the state that each comes to."""
        # The mazes with the most loops come first, so that those that still loop lie side by side.
        loops_B, order_B = loops_B.sort(descending=True, stable=True)
        x_BND, embedded_BND, cells_BHW = (
            tensor.index_select(0, order_B) for tensor in (state_BND, embedded_BND, batch.cells_BHW)
        )
        _, height, width = cells_BHW.shape
        rope = axial_rope(height, width, self.config.width // self.config.heads, x_BND.device)
        if by_hand(x_BND) and self.config.blocks == 1 and not self.config.attention:
            x_BND = self.blocks[0](x_BND, cells_BHW, rope, (loops_B.tolist(), embedded_BND))
        else:
            x_BND = self.plain_loops(x_BND, embedded_BND, cells_BHW, rope, loops_B)
        return x_BND.index_select(0, order_B.argsort())

    def plain_loops(
        self, x_BND: Tensor, embedded_BND: Tensor, cells_BHW: Tensor, rope: Tensor, loops_B: Tensor
    ) -> Tensor:
        """One loop after the other, of mazes whose loops fall."""
        loop_L = torch.arange(int(loops_B[0]), device=loops_B.device)
        stopped = []
        for count in (loops_B > loop_L[:, None]).sum(1).tolist():  # mazes that still loop
            if count < len(x_BND):
                stopped.append(x_BND[count:])
                x_BND, embedded_BND, cells_BHW = x_BND[:count], embedded_BND[:count], cells_BHW[:count]
            x_BND = norm(x_BND) + embedded_BND
            for block in self.blocks:
                x_BND = block(x_BND, cells_BHW, rope)
        return torch.cat([x_BND, *reversed(stopped)])

    def embed(self, batch: GridBatch, visible_BT: Tensor) -> Tensor:
        cells_BN = batch.cells_BHW.flatten(1).long()
        role_BN = torch.where(cells_BN == SIDE_CODES - 1, SOLID, PLAIN)
        role_BN = role_BN.scatter(1, batch.start_B[:, None], START).scatter(1, batch.goal_B[:, None], GOAL)
        x_BND = self.side_embedding(cells_BN) + self.role_embedding(role_BN)
        # The end of the path is no cell: a visible end tells the model nothing that a cell could carry.
        count = cells_BN.shape[1]
        row, step = (visible_BT & (batch.tokens_BT < count)).nonzero(as_tuple=True)
        told = self.step_in(sincos(step, self.config.width))
        place = row * count + batch.tokens_BT[row, step]
        embedded: Tensor = x_BND.flatten(0, 1).index_add(0, place, told.to(x_BND.dtype)).view_as(x_BND)
        return embedded
