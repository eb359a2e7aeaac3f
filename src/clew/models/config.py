"""Configs of all models, their kinds and the paper's sizes, and the interface of every model; imports no torch.

    config = EncoderDecoderConfig(vocabulary=128, width=128, encoder_depth=20, decoder_depth=20, heads=4)
    config = sized_config("encoder-decoder", "8m", vocabulary=128)      # the same
    write_json("model.json", to_json(config));  config = from_json(read_json("model.json"))

A model maps (batch, order_BT, query_BT) to logits at the queries. Position q is predicted from the positions k with
0 <= order[k] < order[q]; order -1 is padding. Tokens that a query does not attend to never change its logits.

`clew.register("model", KIND)` adds a kind from outside the package: an nn.Module made from an instance of its `Config`,
a frozen dataclass, with such a forward pass.

Shape suffixes: B mazes, T positions, Q queries of the whole batch in row-major order, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

from clew.errors import UserError
from clew.files import from_plain, to_plain
from clew.registry import registered, registered_names, unknown_component
from clew.tokenization.format import format_named

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clew.data.batch import Batch, CellBatch

Json: TypeAlias = dict[str, Any]
ModelConfig: TypeAlias = Hashable  # a config of any kind
Precision = Literal["fp32", "bf16", "fp16"]
Activation = Literal["gelu", "relu"]
PositionChoice = Literal["rope-fp32", "rope-fp16", "learned", "none"]
Initialization = Literal["gpt-2", "lookup", "pytorch"]


class Model(Protocol):
    """Tokens in, logits out; never a loss."""

    def __call__(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        """Return logits [Q, V] for the True positions of `query_BT`, in the order of `query_BT.nonzero()`."""


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Run matrix products in the precision; no effect for fp32."""
    import torch

    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16 if precision == "bf16" else torch.float16)


# Width, heads and depth of the paper's models, named after their rounded parameter counts, and of one for laptops.
SIZES = {"tiny": (64, 4, 8), "3m": (128, 4, 14), "8m": (128, 4, 40), "25m": (256, 4, 32)}

# A damaged config must not describe a model that takes minutes to refuse, or sizes beyond 64 bits.
_BLOCKS, _WIDTH, _TOKENS = (1, 1000), (1, 1 << 16), (1, 1 << 30)


@dataclass(frozen=True)
class TransformerConfig:
    """Options of all text models."""

    vocabulary: int  # token ids; follows the mazes
    width: int = 128  # width of the residual stream
    heads: int = 4  # attention heads of each block
    positions: PositionChoice = "rope-fp32"  # position encoding
    max_length: int = 4096  # the longest sequence; read by learned positions alone
    init: Initialization = "gpt-2"  # see clew.models.blocks
    activation: Activation = "gelu"  # of the feed-forward layers
    head_bias: bool = True  # whether the output layer has a bias

    def __post_init__(self) -> None:
        _check_limits(self, vocabulary=_TOKENS, width=_WIDTH, heads=_WIDTH, max_length=_TOKENS)
        if self.width % self.heads:
            raise UserError(f"a width of {self.width} cannot be shared among {self.heads} heads; choose a multiple.")
        for name, choices in (("positions", PositionChoice), ("init", Initialization), ("activation", Activation)):
            if (value := getattr(self, name)) not in get_args(choices):
                raise UserError(f"a model's {name} cannot be {value!r}; choose one of {', '.join(get_args(choices))}.")
        if self.rotary and (head := self.width // self.heads) % 2:
            raise UserError(f"RoPE rotates pairs, but a head's width, {head}, is odd; change the width or the heads.")

    @property
    def rotary(self) -> bool:
        """Whether positions rotate queries and keys."""
        return self.positions.startswith("rope")

    def cache_bytes(self, length: int) -> int:
        """Return the bytes of cached keys and values for a sequence of this many tokens, in float32."""
        return 0

    def decoding_bytes(self, length: int) -> int:
        """Return the estimated bytes for decoding one sequence of this many tokens: the cache and one block's work.

        A block holds 21 to 36 numbers for each token and unit of width, measured on a CPU with widths of 128.
        """
        return self.cache_bytes(length) + 32 * self.width * length * 4


@dataclass(frozen=True)
class EncoderDecoderConfig(TransformerConfig):
    """The paper's MLM-U model; see clew.models.transformers."""

    encoder_depth: int = 20  # blocks of the encoder
    decoder_depth: int = 20  # blocks of the decoder
    # A causal encoder: the paper's next-token baseline on this architecture. MLM-U needs it off.
    causal: bool = False
    # With `causal`: whether a token of the encoder attends to itself. In the published code it does not.
    attend_self: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_limits(self, encoder_depth=_BLOCKS, decoder_depth=_BLOCKS)
        if not self.attend_self and not self.causal:
            raise UserError("attend_self can be turned off in a causal encoder only; set causal, or leave it on.")

    def forward_flops(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float:
        """Return the floating-point operations of the necessary matrix products of one forward pass."""
        keys_B, queries_B = attended(order_BT, query_BT).sum(1).double(), query_BT.sum(1).double()
        pairs_B = keys_B * (keys_B + 1) / 2 if self.causal else keys_B**2
        encoder = self.encoder_depth * (12 * self.width * keys_B + 2 * pairs_B)
        decoder = self.decoder_depth * (2 * self.width * keys_B + 10 * self.width * queries_B + 2 * keys_B * queries_B)
        return 2 * self.width * float((encoder + decoder + self.vocabulary * queries_B).sum())


@dataclass(frozen=True)
class DecoderOnlyConfig(TransformerConfig):
    """A next-token model; see clew.models.transformers."""

    depth: int = 40  # blocks
    # The id of a token before every sequence, at position 0, as in the published code; None for none.
    bos_id: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_limits(self, depth=_BLOCKS)
        if self.bos_id is not None and not 0 <= self.bos_id < self.vocabulary:
            raise UserError(f"bos_id is {self.bos_id}, but the vocabulary has the ids 0 to {self.vocabulary - 1}.")

    def cache_bytes(self, length: int) -> int:
        return 2 * self.depth * self.width * length * 4

    def forward_flops(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float:
        """Return the floating-point operations of the necessary matrix products of one forward pass."""
        keys_B, queries_B = attended(order_BT, query_BT).sum(1).double(), query_BT.sum(1).double()
        keys_B = keys_B + (self.bos_id is not None)
        trunk = self.depth * (12 * self.width * keys_B + keys_B * (keys_B + 1))
        return 2 * self.width * float((trunk + self.vocabulary * queries_B).sum())


@dataclass(frozen=True)
class CellNetworkConfig:
    """Sizes of a cell network."""

    width: int = 64  # width of the state of a cell
    hidden: int = 128  # hidden units of a message step
    # Message steps in a loop, each with weights of its own.
    steps: int = 2
    # The share of the hidden units that are maxima; the others are sums.
    max_units: float = 0.75
    # Whether a cell knows its offsets to start and goal. Perfect mazes do not need them.
    offsets: bool = True
    # Loops of a maze: base_loops + loops_per_side * its longer side + loops_per_cell * its cells.
    base_loops: int = 4
    loops_per_side: float = 1.5  # loops for each cell of the longer side
    loops_per_cell: float = 0.0  # loops for each cell of the maze
    # In training a maze has at least this many loops for each cell of its path: messages must cross it and come back.
    loops_per_step: float = 1.0
    # Standard deviation of the initial side biases; it makes directions differ from the beginning.
    side_bias: float = 0.7
    # The share of the mazes of a training step that start from the state after some loops without gradients.
    warm_start: float = 0.5

    def __post_init__(self) -> None:
        _check_limits(self, width=_WIDTH, hidden=_WIDTH, steps=_BLOCKS, max_units=(0, 1), base_loops=(1, 10_000))
        _check_limits(self, loops_per_side=(0, 100), loops_per_cell=(0, 100), loops_per_step=(0, 100))
        _check_limits(self, side_bias=(0, 10), warm_start=(0, 1))

    @property
    def sum_units(self) -> int:
        return self.hidden - round(self.max_units * self.hidden)

    def loops(self, height: int, width: int) -> int:
        """Return the loops of a maze of this shape."""
        more = self.loops_per_side * max(height, width) + self.loops_per_cell * height * width
        return self.base_loops + math.ceil(more - 1e-9)

    def training_loops(self, batch: CellBatch) -> tuple[Tensor, Tensor]:
        """Return the loops without and with gradients of each maze of a training batch.

        A function of the maze's number alone, so that it does not depend on how a batch is split over processes.
        """
        loops_B = (batch.tokens_BT.sum(1) * self.loops_per_step).clamp(min=self.loops(*batch.cells_BHW.shape[1:]))
        # Multiples of an irrational number are equidistributed modulo 1: one for each random choice.
        fractions = (math.sqrt(5) - 1) / 2, math.sqrt(2) - 1, math.sqrt(3) - 1
        first_B, second_B, third_B = ((batch.index_B.double() * fraction) % 1 for fraction in fractions)
        warm_B = first_B < self.warm_start
        free_B = (second_B * loops_B).masked_fill(~warm_B, 0).long()
        return free_B, ((2 / 3 + third_B / 3).masked_fill(warm_B, 1 / 2) * loops_B).ceil().long()

    def forward_flops(self, batch: CellBatch, order_BT: Tensor, query_BT: Tensor) -> float:
        """Return the floating-point operations of the matrix products of one forward pass of training.

        Loops without gradients count a third, because `training_flops` multiplies by three for the backward pass.
        """
        free_B, loops_B = self.training_loops(batch)
        cells_B = batch.valid_BT.sum(1)
        a_cell = self.steps * 2 * 3 * self.hidden * self.width
        readout = 2 * (self.width + 1) * self.hidden
        return float(((loops_B + free_B / 3) * cells_B).sum()) * a_cell + float(cells_B.sum()) * readout


def attended(order_BT: Tensor, query_BT: Tensor) -> Tensor:
    """Return a mask of the tokens that some query of their maze attends to, at least those of order 0."""
    limit_B1 = order_BT.masked_fill(~query_BT, 1).amax(dim=1, keepdim=True).clamp(min=1)
    return (order_BT >= 0) & (order_BT < limit_B1)


def _check_limits(config: object, **limits: tuple[float, float]) -> None:
    """Raise UserError if one of these fields is below its lower or above its upper limit."""
    for name, (low, high) in limits.items():
        if not low <= (value := getattr(config, name)) <= high:
            raise UserError(f"a model's {name} is {value}; use a number from {low} to {high}.")


CONFIGS: dict[str, type[Any]] = {
    "encoder-decoder": EncoderDecoderConfig,
    "decoder-only": DecoderOnlyConfig,
    "cell-network": CellNetworkConfig,
}


def config_class(kind: str) -> type[Any]:
    """Return the dataclass of the configs of a kind, built in or registered."""
    if kind in CONFIGS:
        return CONFIGS[kind]
    network = registered("model", kind)
    if network is None:
        raise unknown_component("model", kind, CONFIGS)
    made: type[Any] | None = getattr(network, "Config", None)
    if made is None or not dataclasses.is_dataclass(made):
        raise UserError(f"the model {kind!r} has no dataclass `Config`; add it to the class that is registered.")
    return made


def kind_of(config: ModelConfig) -> str:
    """Return the name of a config's kind."""
    for kind in (*CONFIGS, *registered_names("model")):
        if config_class(kind) is type(config):
            return kind
    raise UserError(f"{type(config).__name__} is the config of no built-in or registered model.")


def sized_config(kind: str, size: str, vocabulary: int, **changes: Any) -> EncoderDecoderConfig | DecoderOnlyConfig:
    """Return the config of a text model of one of the paper's sizes (`3m`, `8m`, `25m`) or `tiny`, with changes."""
    width, heads, depth = SIZES[size]
    sizes = {"width": width, "heads": heads}
    if kind == "decoder-only":
        return DecoderOnlyConfig(vocabulary, **sizes | {"depth": depth} | changes)
    halves = {"encoder_depth": depth // 2, "decoder_depth": depth // 2}
    return EncoderDecoderConfig(vocabulary, **sizes | halves | changes)


def change_kind(plain: Json, kind: str) -> Json:
    """Return the fields of another kind of model: those that both have as they are, the rest at defaults or null."""
    made = config_class(kind)
    names = [field.name for field in dataclasses.fields(made)]
    return {"kind": kind} | {name: plain.get(name, to_plain(getattr(made, name, None))) for name in names}


def published_tokens(family: str, height: int, width: int) -> list[str]:
    """Return the tokens of the published models in the order of their ids.

    For DFS mazes these are ours. For A* mazes: four words, then numbers, costs (0 to cells - 1, for search traces) and
    words of Searchformer's vocabulary, sorted as strings.
    """
    if family == "dfs":
        return list(format_named("edge-list").vocabulary(height, width).tokens)
    words = ["start", "goal", "wall", "create", "close", "plan", *(f"c{cost}" for cost in range(height * width))]
    return ["pad", "bos", "eos", "<PATH_START>", *sorted([*words, *map(str, range(max(height, width)))])]


def to_json(config: ModelConfig) -> Json:
    """Return a config as JSON values, its kind first."""
    plain: Json = {"kind": kind_of(config)} | to_plain(config)
    return plain


def from_json(value: Any) -> ModelConfig:
    """Return the config that `to_json` wrote; UserError if a field is missing, unknown or of the wrong type."""
    if not isinstance(value, dict) or "kind" not in value:
        raise UserError(f"the model's config names no kind; it must have a kind, one of {', '.join(CONFIGS)}.")
    given = {name: field for name, field in value.items() if name != "kind"}
    if value["kind"] in ("encoder-decoder", "decoder-only") and "start" in given:
        given["init"] = given.pop("start")  # the name before version 0.2
    config: ModelConfig = from_plain(config_class(str(value["kind"])), given, f"the {value['kind']} model")
    return config
