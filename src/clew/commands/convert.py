"""`clew convert WEIGHTS --out RUN`: make a run folder of weights that the published code made."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from clew.commands import print_line
from clew.errors import UserError

# The text that the published models of a family read.
FORMAT_OF = {"dfs": "edge-list", "astar": "wall-list"}


def convert(
    weights: Path,  # the file; its tensors have the published names (enc.layers.0.attn.c_attn.weight, ...)
    *,
    out: Path,  # the run folder to make
    size: int | None = None,  # rows and columns of the mazes that the model was trained on
    family: str = "dfs",  # the mazes that the model was trained on: dfs, or astar (the A* mazes)
    heads: int | None = None,  # attention heads; by default those in a Lightning checkpoint or the JSON file, or 4
    # what it was trained with (default: that of a Lightning checkpoint, else mlm-u, and next-token for GPT-2)
    objective: Literal["mlm-u", "next-token"] | None = None,
) -> None:
    """Make a run folder of a published model, to evaluate it or solve mazes with it.

    For example: clew convert last.ckpt --size 20 --out runs/published-dfs-20

    Reads Lightning checkpoints, state dicts of torch.save and safetensors, without running code in them. A JSON file of
    the same name beside the weights may give heads, grid (the size) and vocab (the tokens in the order of their ids).
    """
    if not weights.is_file():  # before torch is imported
        raise UserError(f"there is no file {weights}; give the weights to convert.")

    from clew.data.config import DataConfig
    from clew.mazes.generate import canonical_family
    from clew.models.build import count_parameters
    from clew.models.config import DecoderOnlyConfig, published_tokens
    from clew.models.published import load_published, read_sidecar, reorder_ids
    from clew.objectives.config import ObjectiveConfig
    from clew.tokenization.format import format_named
    from clew.tokenization.tokens import padded_size
    from clew.training.checkpoint import begin_run, locked_run, write_checkpoint
    from clew.training.config import Budget, TrainConfig

    family = canonical_family(family)
    if family not in FORMAT_OF:
        raise UserError(f"there are no published models of {family} mazes; use --family dfs or astar.")
    sidecar = read_sidecar(weights)
    size = sidecar.grid if size is None else size
    if size is None:
        raise UserError("the weights do not have the size of their mazes; give --size, rows and columns.")
    data = DataConfig(family=family, sizes=(size,), format=FORMAT_OF[family])
    model = load_published(weights, heads, causal=objective and objective == "next-token", bos_id=data.bos_id)
    is_gpt = isinstance(model.config, DecoderOnlyConfig)
    if is_gpt and (family != "dfs" or objective == "mlm-u"):
        raise UserError("the published GPT-2 reads dfs mazes, with next-token; leave out --family and --objective.")
    tokens = sidecar.vocab or published_tokens(family, size, size)
    expected = padded_size(len(tokens))
    if not sidecar.vocab and model.config.vocabulary != expected:
        raise UserError(
            f"the weights have {model.config.vocabulary} ids, but published models of {size}x{size} {family} mazes "
            f"have {expected}; give the --size and --family that the model was trained on."
        )
    reorder_ids(model, tokens, format_named(data.format).vocabulary(size, size))
    name = "next-token" if is_gpt or model.config.causal else "mlm-u"  # type: ignore[union-attr]
    # How it was trained is not known: the budget and the optimizer of this config are the defaults, and mean nothing.
    config = TrainConfig(data, model.config, Budget(steps=1), ObjectiveConfig(name))
    with locked_run(out):
        begin_run(out, config, resume="never")
        state = {"step": 0, "best": None, "converted_from": weights.name}
        write_checkpoint(out, 0, {"model": model.state_dict()}, state)
    kind = "a decoder-only model" if is_gpt else "an encoder-decoder"
    print_line(f"{out}: {kind} with {count_parameters(model):,} parameters for {size}x{size} {family} mazes")
