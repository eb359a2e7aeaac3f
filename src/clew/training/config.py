"""Everything that a training run depends on, as one tree of dataclasses; imports no torch.

    config = TrainConfig(data=DataConfig(family="dfs", sizes=(10,)), model=..., budget=Budget(epochs=3000))

A TrainConfig is checked when it is made: pairs that cannot work (a decoder-only model with MLM-U, a text model with
labels of cells) raise a UserError before anything is built.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from clew.data.config import CELL_LABELS, DataConfig
from clew.errors import UserError
from clew.files import from_plain, to_plain
from clew.models.config import CONFIGS, EncoderDecoderConfig, ModelConfig, from_json, kind_of, to_json
from clew.objectives.config import OBJECTIVES, ObjectiveConfig

OptimizerKind = Literal["adamw", "muon"]
ScheduleKind = Literal["one-cycle", "cosine", "constant-then-decay"]
# Objectives that reveal the response from left to right, the only order of a causal model.
LEFT_TO_RIGHT = ("next-token", "trace")


def _check(what: str, config: Any, kinds: Any = None, **ranges: tuple[float, float]) -> None:
    """Raise UserError unless each field is in its range, or None, and `kind` among the kinds."""
    if kinds and config.kind not in get_args(kinds):
        raise UserError(f"{what} {config.kind!r} is unknown: use one of {', '.join(get_args(kinds))}.")
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if value is not None and not low <= value <= high:
            raise UserError(f"{what} {name} is {value}; use a number from {low:g} to {high:g}.")


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its settings; the defaults are those of the paper's text for MLM-U."""

    kind: OptimizerKind = "adamw"  # adamw, or muon for matrices with adamw for the rest
    lr: float = 1e-3  # the highest learning rate of AdamW's parameters
    beta1: float = 0.9  # AdamW's decay of the mean gradient
    beta2: float = 0.999  # AdamW's decay of the squared gradient
    eps: float = 1e-8  # AdamW's constant in the denominator
    weight_decay: float = 0.0  # of matrices only
    muon_lr: float = 0.02  # with muon: the highest learning rate of the matrices
    muon_momentum: float = 0.95  # the momentum of Muon
    muon_steps: int = 5  # Newton-Schulz steps of Muon

    def __post_init__(self) -> None:
        rate, decay = (0, 10), (0, 0.99999)
        _check("the optimizer", self, OptimizerKind, lr=rate, muon_lr=rate, weight_decay=rate, eps=(1e-20, 1))
        _check("the optimizer's", self, beta1=decay, beta2=decay, muon_momentum=decay, muon_steps=(1, 100))


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate over a run; the defaults are the published code's, without its cycle of beta1.

    - one-cycle: along a cosine from `start` up to 1 during `warmup`, then along a cosine down to `end`; step for step
      torch's OneCycleLR;
    - cosine: along a line up to 1 during `warmup`, then along a cosine down to `end`;
    - constant-then-decay: along a line up to 1 during `warmup`, constant, and along a line down to `end` during the
      last `decay`; `power` above 1 makes it fall faster at first: (remaining share of the decay) ** power.
    """

    kind: ScheduleKind = "one-cycle"  # the shape of the learning rate over the budget
    warmup: float = 0.05  # the share of the budget in which the learning rate rises
    decay: float = 0.2  # the share of the budget at the end in which constant-then-decay falls
    power: float = 1.0  # the exponent of the decay of constant-then-decay
    start: float = 1 / 25  # the first learning rate, as a share of the highest
    end: float = 1 / 625  # the last learning rate, as a share of the highest
    # With one-cycle: AdamW's beta1 falls from 0.95 to 0.85 while the rate rises, and rises again while the rate falls.
    # Torch's OneCycleLR does so by default, whatever beta1 the optimizer has.
    cycle_beta1: bool = False

    def __post_init__(self) -> None:
        share = (0, 1)
        _check("the schedule", self, ScheduleKind, warmup=share, decay=share, start=share, end=share, power=(1e-9, 10))
        if self.cycle_beta1 and self.kind != "one-cycle":
            raise UserError(f"the schedule {self.kind!r} has no cycle for beta1: use one-cycle, or leave it off.")
        if self.kind == "constant-then-decay" and self.warmup + self.decay > 1:
            total = f"warmup {self.warmup} and decay {self.decay}"
            raise UserError(f"the schedule's {total} exceed the whole: lower one of them.")


@dataclass(frozen=True)
class Budget:
    """The length of a run: exactly one of the three. Minutes are those of training alone, without evaluation."""

    steps: int | None = None  # the budget in optimizer steps
    epochs: int | None = None  # the budget in epochs of a dataset
    minutes: float | None = None  # the budget in minutes of training, without evaluation

    def __post_init__(self) -> None:
        given = [value for value in (self.steps, self.epochs, self.minutes) if value is not None]
        if len(given) != 1 or not 0 < given[0] < math.inf:
            raise UserError("a run's budget is a number above 0 of either steps, epochs or minutes; give exactly one.")


@dataclass(frozen=True)
class TrainConfig:
    """A whole run; clew.paper.configs has those of the paper."""

    data: DataConfig
    model: ModelConfig
    budget: Budget
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    batch_size: int = 128  # mazes a step, over all processes and micro-batches
    # The most mazes that a process puts through one forward and backward pass; fewer need less memory, and the
    # gradient of the step stays the same. By default all of its share.
    micro_batch: int | None = None
    clip: float | None = 1.0  # the largest norm of the gradient, to which larger ones are scaled down; none: no limit
    ema: float | None = None  # the decay of an average of the weights, which is then evaluated instead of the weights
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"  # of matrix products in training and evaluation
    compile: bool = False  # compile the model with torch.compile
    # A run, or a folder of weights, to begin with instead of random weights: continue with other mazes or settings.
    start_from: str = ""
    seed: int = 0  # of the first weights, the masks and the order of a dataset's mazes, which have data.seed
    evaluate_every: int = 1000  # steps between two evaluations on held-out mazes; the last step is always evaluated
    held_out: int = 2000  # held-out mazes of an evaluation; 0 for none
    log_every: int = 10  # steps between two lines of metrics.jsonl, each about all steps since the one before
    checkpoint_every: int = 1000  # steps between two checkpoints; the last step always has one
    keep_last: int = 2  # how many of the last checkpoints are kept, besides the best
    device: Literal["auto", "cpu", "cuda"] = "auto"  # where to train; auto takes a GPU if there is one
    parallel: Literal["ddp"] = "ddp"  # with several processes: each has all weights, and the gradients are summed
    timeout_hours: float = 4.0  # how long one of several processes waits for the others
    # CPU threads, by default as many as torch chooses. Runs are equal bit for bit only with equal numbers of threads.
    threads: int | None = None

    def __post_init__(self) -> None:
        count, positive = (1, 1e18), (1e-9, 1e9)
        _check("the run's", self, batch_size=count, micro_batch=count, threads=count, held_out=(0, 1e18))
        _check("the run's", self, evaluate_every=count, log_every=count, checkpoint_every=count, keep_last=count)
        _check("the run's", self, clip=positive, timeout_hours=positive, seed=(0, 2**63 - 1), ema=(0, 1 - 1e-9))
        if self.parallel != "ddp":
            raise UserError(f"parallel {self.parallel!r} is gone, since every process has all weights; use ddp.")
        if self.budget.epochs is not None and self.data.source == "stream":
            raise UserError("a stream of fresh mazes has no epochs; give the budget in steps or minutes.")
        if problem := self._problem():
            raise UserError(f"{problem}.")

    def _problem(self) -> str:
        """Return why objective, model and format do not go together; "" if they do, as plug-ins with everything."""
        objective, form, kind = self.objective.name, self.data.format, kind_of(self.model)
        needed, cells, ids = self.objective.required_format, kind == "cell-network", vocabulary_of(self.model)
        hides_any = objective in OBJECTIVES and objective not in LEFT_TO_RIGHT
        if needed not in (None, form):
            return f"objective {objective!r} needs the format {needed}, not {form}; change one of them"
        if needed is None and form == "wall-list-trace":
            return f"objective {objective!r} would learn the search trace too; use trace, or wall-list"
        if kind in CONFIGS and cells != (form == CELL_LABELS):
            reads = f"the format {CELL_LABELS}" if cells else "a text format (edge-list, wall-list)"
            return f"a {kind} model reads {reads}, not {form}; change the model or the format"
        if kind == "decoder-only" and hides_any:
            other = "use next-token or trace, or an encoder-decoder model"
            return f"a decoder-only model predicts from left to right only, not with {objective!r}; {other}"
        if isinstance(self.model, EncoderDecoderConfig) and self.model.causal and hides_any and objective != "ordered":
            return f"a causal encoder attends to the left only, not with {objective!r}; turn causal off"
        if cells and objective in ("trace", "any-order"):
            return f"a cell network has no order of tokens for {objective!r}; use mlm-u, ordered or next-token"
        if ids is not None and ids < (wanted := self.data.vocabulary):
            return f"the model's vocabulary of {ids} is too small for these mazes, which need {wanted}"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, the model's kind among them."""
        plain = {f.name: to_plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return plain | {"model": to_json(self.model)}

    @classmethod
    def from_json(cls, value: Any, where: str = "the config") -> Self:
        """Return the config that `to_json` wrote; UserError if it is anything else."""
        return from_plain(cls, _current(value), where, {"model": from_json, "objective": ObjectiveConfig.from_json})


def _current(value: Any) -> Any:
    """Return the config of an older version in the fields of this one."""
    if not isinstance(value, dict):
        return value
    value = {name: item for name, item in value.items() if name != "explosion"}  # stopped runs on large gradients
    if isinstance(value.get("data"), dict):
        value["data"] = {name: item for name, item in value["data"].items() if name != "tail"}  # end tokens
    match value:  # before 0.2: the number of micro-batches a process
        case {"accumulation": int(count), "batch_size": int(batch_size)} if count >= 1 and "micro_batch" not in value:
            del value["accumulation"]
            value["micro_batch"] = None if count == 1 else -(-batch_size // count)
    return value


def vocabulary_of(model: ModelConfig) -> int | None:
    """Return the vocabulary size of a model that reads tokens; None for one that reads cells."""
    return getattr(model, "vocabulary", None)


def with_vocabulary(model: Any, data: DataConfig) -> Any:
    """Return a text model's config with the vocabulary of these mazes; any other as it is."""
    if vocabulary_of(model) is None:
        return model
    bos = {"bos_id": data.bos_id} if getattr(model, "bos_id", None) is not None else {}
    return dataclasses.replace(model, vocabulary=data.vocabulary, **bos)
