"""`clew convert WEIGHTS --out RUN`: make a run folder of weights that carry the published implementation's names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from clew.errors import UserError

# The text that the published models of a family read.
FORMAT_OF: dict[str, Literal["edge-list", "wall-list"]] = {"dfs": "edge-list", "walls": "wall-list"}


def convert(
    weights: Annotated[Path, tyro.conf.Positional],
    out: Path,
    size: int | None = None,
    family: Literal["dfs", "walls"] = "dfs",
    heads: int | None = None,
) -> None:
    """Make a run folder of a published MLM-U encoder-decoder, to evaluate it or solve mazes with it.

    For example: clew convert mlmu-dfs-20.safetensors --size 20 --out runs/published-dfs-20

    A JSON file of the same name beside the weights may say heads, grid (the size of the mazes) and vocab. Pickled
    checkpoints are never read: save their weights as safetensors first.

    Args:
        weights: a safetensors file whose tensors have the published names (enc.layers.0.attn.c_attn.weight, ...).
        out: the run folder to make.
        size: rows and columns of the mazes that the model was trained on.
        family: the mazes that the model was trained on: dfs, or walls (the A* mazes).
        heads: attention heads, which the weights do not tell; what the JSON file says, or else 4.
    """
    from clew.models.build import count_parameters
    from clew.models.published import load_published, read_beside
    from clew.text.format import format_named
    from clew.training.checkpoint import model_tensors, write_checkpoint
    from clew.training.config import Budget, DataConfig, TrainConfig
    from clew.training.run_folder import RunFolder

    beside = read_beside(weights)
    side = size if size is not None else beside.grid
    if side is None:
        raise UserError("the weights do not tell for which mazes they are; give --size, their rows and columns.")
    model = load_published(weights, heads)
    # How it was trained is not known: the budget and the optimizer of this config are the defaults, and mean nothing.
    config = TrainConfig(
        data=DataConfig(source="stream", family=family, sizes=(side,), format=FORMAT_OF[family]),
        model=model.config,
        budget=Budget(steps=1),
    )
    tokens = format_named(config.data.format).vocabulary(side, side).to_json()
    if beside.vocab is not None and beside.vocab != tokens:
        raise UserError(
            f"the vocabulary in {weights.with_suffix('.json')} is not that of {side}x{side} {family} mazes; "
            "give the --size and --family that the model was trained on."
        )
    folder = RunFolder(out)
    with folder.locked():
        folder.begin(config, resume="never")
        state = {"step": 0, "best": None, "converted_from": weights.name}
        write_checkpoint(folder.checkpoints, 0, {"model": model_tensors(model)}, state)
    print(f"{out}: an encoder-decoder with {count_parameters(model):,} parameters for {side}x{side} {family} mazes")
