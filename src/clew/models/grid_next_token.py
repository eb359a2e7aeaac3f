"""Next token on the cells of a maze: the rival of the grid-pointer model, on the same input.

    model = GridNextToken(GridNextTokenConfig())
    logits_QC = model(batch, rank_BT, ask_BT)      # asked step t is predicted from steps 0 .. t-1

The cells are encoded as in the grid-pointer model (the code is inherited, so whatever makes one encoder better makes
the other better), but they never hear of the path. A causal decoder then reads the path. Its input at step t is the
encoded vector of the cell before, at step t-1, with a projection of sincos(t); it looks at the steps so far and at the
cells, and points at the next cell or at the end. The default has as many parameters as the default grid-pointer.

It can only read from left to right, so a question with any other order is refused. For step-by-step use the cells are
encoded once, and kept with what was read:

    reading = model.begin(batch)
    logits_B1C = model.extend(reading, none_B1)     # the first step; "no cell before" is written as the number of cells
    logits_B1C = model.extend(reading, token_B1)    # each next step, from the token before it

Shape suffixes: B mazes, N cells, T steps, S new steps, K steps read so far, Q asked steps of the whole batch, C classes
(N cells and the end), D width, H heads, E head dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.data.batch import Batch, GridBatch
from clew.errors import UserError
from clew.models.blocks import KeysAndValues
from clew.models.config import check_positive
from clew.models.grid_layers import Attention, FeedForward, attend, norm, sincos
from clew.models.grid_pointer import GridPointer, GridPointerConfig


@dataclass(frozen=True)
class GridNextTokenConfig(GridPointerConfig):
    """Sizes of a next-token model on cells; `query_blocks` is the depth of its decoder."""

    # The hidden layer of the decoder's feed-forward, in widths. Its blocks have two attentions where those of the
    # grid-pointer have one, so with half of its hidden layer they have as many parameters.
    decoder_expansion: int = 2

    causal: ClassVar[bool] = True  # what decoders ask for: it sees only what stands to the left

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, ("decoder_expansion",))

    def forward_flops(self, batch: Batch, rank_BT: Tensor, ask_BT: Tensor) -> float:
        """Floating-point operations of the matrix products of one forward pass over what is needed."""
        assert isinstance(batch, GridBatch)
        cells, square = batch.cells_BHW[0].numel(), self.width**2
        nothing = torch.zeros_like(ask_BT)
        # A grid-pointer that is asked nothing encodes the cells and makes their keys and values, as here.
        encoding = super().forward_flops(batch, rank_BT, nothing)
        steps_B = steps_read(ask_BT).double()
        pairs = float((steps_B * (steps_B + 1) / 2).sum())
        steps, asked = float(steps_B.sum()), float(ask_BT.sum())
        block = (2 * 6 + 4 * self.decoder_expansion) * square * steps + 4 * self.width * (pairs + cells * steps)
        entering = 2 * 2 * square * steps
        pointing = 2 * square * asked + 2 * self.width * (cells + 1) * asked
        return encoding + entering + self.query_blocks * block + pointing


@dataclass
class Reading:
    """What is known of some mazes while their paths are read."""

    vectors_BCD: Tensor  # the encoded cells, and zero for no cell
    keys_BCD: Tensor  # what is pointed at: the cells and the end
    cells: list[KeysAndValues]  # of each block, from the cells; made by the block when it first reads
    steps: list[KeysAndValues]  # of each block, from the steps read so far
    count: int = 0  # steps read so far

    def keep(self, rows: Tensor) -> None:
        """Forget all mazes but these."""
        self.vectors_BCD, self.keys_BCD = self.vectors_BCD[rows], self.keys_BCD[rows]
        self.cells, self.steps = _rows(self.cells, rows), _rows(self.steps, rows)


def _rows(blocks: list[KeysAndValues], rows: Tensor) -> list[KeysAndValues]:
    kept = []
    for block in blocks:
        assert block.key_BHKE is not None
        assert block.value_BHKE is not None
        kept.append(KeysAndValues(block.key_BHKE[rows], block.value_BHKE[rows]))
    return kept


class PathBlock(nn.Module):
    """A step looks at the steps so far, then at the cells, then thinks."""

    def __init__(self, config: GridNextTokenConfig) -> None:
        super().__init__()
        self.path_attention = Attention(config.width, config.heads)
        self.cell_attention = Attention(config.width, config.heads)
        self.feed_forward = FeedForward(config.width, config.decoder_expansion)

    def forward(self, x_BSD: Tensor, cells_BND: Tensor, cells: KeysAndValues, steps: KeysAndValues) -> Tensor:
        normed_BSD = norm(x_BSD)
        key_BHKE, value_BHKE = steps.append(*self.path_attention.keys_and_values(normed_BSD))
        new, known = x_BSD.shape[1], key_BHKE.shape[2]
        assert new in (1, known), "steps are read all at once from the first, or one at a time"
        query_BHSE = self.path_attention.queries(normed_BSD).transpose(1, 2)
        found_BSD = attend(query_BHSE, key_BHKE, value_BHKE, causal=new == known)
        x_BSD = x_BSD + self.path_attention.out(found_BSD)
        if cells.key_BHKE is None or cells.value_BHKE is None:
            cells.append(*self.cell_attention.keys_and_values(cells_BND))
        assert cells.key_BHKE is not None
        assert cells.value_BHKE is not None
        query_BHSE = self.cell_attention.queries(norm(x_BSD)).transpose(1, 2)
        x_BSD = x_BSD + self.cell_attention.out(attend(query_BHSE, cells.key_BHKE, cells.value_BHKE))
        out_BSD: Tensor = x_BSD + self.feed_forward(norm(x_BSD))
        return out_BSD


class GridNextToken(GridPointer):
    """See the module's docstring.

    Of the parent it has the encoder, the weights that point and two projections: `query_in` takes sincos(t) into a step
    as there, and `step_in` takes the cell before into it, where the parent's takes a step into its cell.
    """

    def __init__(self, config: GridNextTokenConfig) -> None:
        super().__init__(config)
        self.query_blocks = nn.ModuleList(PathBlock(config) for _ in range(config.query_blocks))

    def forward(self, batch: GridBatch, rank_BT: Tensor, ask_BT: Tensor) -> Tensor:
        check_left_to_right(rank_BT, ask_BT)
        # At least one step, so that a batch without questions still gives every weight a zero gradient.
        length = max(int(steps_read(ask_BT).max()), 1)
        none = batch.cells_BHW[0].numel()
        # What stands at padding has no meaning, and need not be a cell.
        token_BT = batch.tokens_BT.masked_fill(rank_BT < 0, none)
        before_BT = F.pad(token_BT, (1, 0), value=none)[:, :length]
        logits_BTC = self.extend(self.begin(batch), before_BT)
        return logits_BTC[ask_BT[:, :length]]

    def begin(self, batch: GridBatch) -> Reading:
        """Encode the cells, of which alone the mazes are made up so far."""
        cells_BND = self.encode(batch, torch.zeros_like(batch.valid_BT))
        keys_BND = self.pointer_key(cells_BND)
        end_B1D = self.end_key.expand(len(keys_BND), 1, -1).to(keys_BND.dtype)
        return Reading(
            vectors_BCD=F.pad(cells_BND, (0, 0, 0, 1)),
            keys_BCD=torch.cat([keys_BND, end_B1D], dim=1),
            cells=[KeysAndValues() for _ in self.query_blocks],
            steps=[KeysAndValues() for _ in self.query_blocks],
        )

    def extend(self, reading: Reading, before_BS: Tensor) -> Tensor:
        """Logits over the cells and the end for the next steps, from the tokens before each of them."""
        place_BSD = before_BS[..., None].expand(-1, -1, self.config.width)
        came_BSD = reading.vectors_BCD.gather(1, place_BSD)
        step_S = torch.arange(reading.count, reading.count + before_BS.shape[1], device=before_BS.device)
        when_SD = sincos(step_S, self.config.width).to(came_BSD.dtype)
        x_BSD: Tensor = self.step_in(came_BSD) + self.query_in(when_SD.expand_as(came_BSD))
        cells_BND = reading.vectors_BCD[:, :-1]
        for block, cells, steps in zip(self.query_blocks, reading.cells, reading.steps, strict=True):
            x_BSD = block(x_BSD, cells_BND, cells, steps)
        reading.count += before_BS.shape[1]
        pointer_BSD = self.pointer_query(norm(x_BSD))
        logits_BSC: Tensor = pointer_BSD @ reading.keys_BCD.transpose(1, 2) * self.config.width**-0.5
        return logits_BSC


def steps_read(ask_BT: Tensor) -> Tensor:
    """How many steps of each maze are needed: those up to the last that is asked."""
    place_T = torch.arange(1, ask_BT.shape[1] + 1, device=ask_BT.device)
    return (ask_BT * place_T).amax(1)


def check_left_to_right(rank_BT: Tensor, ask_BT: Tensor) -> None:
    """UserError unless every asked step may see exactly the steps to its left; the first one sees none."""
    earlier, later = rank_BT[:, :-1], rank_BT[:, 1:]
    in_order = (later < 0) | ((earlier >= 0) & (later >= earlier))
    if not bool(in_order.all() & ((later > earlier) | ~ask_BT[:, 1:]).all()):
        raise UserError(
            "a grid-next-token model can only be asked from left to right, but this objective hides steps in another "
            "order; train it with next-token, or use a grid-pointer model."
        )
