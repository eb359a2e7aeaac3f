"""Attention of text models, as weights on the cells of the maze.

    weight_SHW = attention_on_cells(model, codec, task, path)     # for each step of the path, [H, W]

A text model reads a cell wherever the prompt names it, so the weights of all its tokens are added up. They are means
over the heads of the layers that predict the path: the decoder of an encoder-decoder, all layers of a decoder-only
model. A model that is trained from left to right attends to the path before the step too; one that predicts all hidden
tokens at once sees nothing of the path, as in its first pass.

Shape suffixes: S steps of the path, T positions of the sequence, H and W rows and columns of the maze.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from clew.decoding.codec import Codec
from clew.errors import UserError
from clew.mazes.maze import Path, Task, TaskBatch
from clew.models.blocks import record_attention
from clew.models.config import Model
from clew.models.transformers import DecoderOnly, EncoderDecoder


@torch.inference_mode()
def attention_on_cells(model: Model, codec: Codec, task: Task, path: Path) -> npt.NDArray[np.float32]:
    """Return how much the prediction of each step of a path attends to each cell, [S, H, W]."""
    if not isinstance(model, (EncoderDecoder, DecoderOnly)):
        raise UserError("only text models have attention; use a model such as text-dfs-4-mlmu.")
    batch = codec.encode(TaskBatch.from_tasks([task], [path]))
    tokens = [codec.token_text(token) for token in batch.tokens_BT[0].tolist()]
    height, width = task.maze.cells.shape
    cells = [codec.cell_named((token,), height, width) for token in tokens]
    response_T = batch.response_BT[0]
    steps = [t for t in response_T.nonzero().flatten().tolist() if cells[t] is not None]
    if len(steps) != len(path):
        raise UserError(
            f"{codec.format_name} has several tokens a cell; attention is drawn of edge-list and path-star."
        )
    from_left = isinstance(model, DecoderOnly) or model.config.causal
    order_BT = batch.response_BT.long() * (batch.response_BT.cumsum(1) if from_left else 1)
    naive, model.naive = model.naive, True  # all positions, in their order
    try:
        with record_attention() as layers:
            model(batch, order_BT, batch.response_BT)
    finally:
        model.naive = naive
    if isinstance(model, EncoderDecoder):
        layers = layers[-len(model.decoder) :]
    mean_TT = torch.stack([weight_BHTT[0].mean(0) for weight_BHTT in layers]).mean(0)
    if isinstance(model, DecoderOnly):
        # Token t is predicted at the position of token t - 1; with a token before the sequence, all move by one.
        mean_TT = mean_TT[:-1] if model.config.bos_id is None else mean_TT[1:, 1:]
        steps = [t - 1 for t in steps]
    found_SHW = np.zeros((len(steps), height, width), dtype=np.float32)
    for number, step in enumerate(steps):
        for weight, cell in zip(mean_TT[step].tolist(), cells, strict=False):
            if cell is not None:
                found_SHW[(number, *cell)] += weight
    return found_SHW
