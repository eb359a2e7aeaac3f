"""Our encoder-decoder with the published implementation's weights gives the published implementation's numbers."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from clew.data.batch import TokenBatch
from clew.models.published import load_published

FOLDER = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def golden():
    return load_file(FOLDER / "mlmu-tiny.safetensors")


@pytest.fixture(params=[False, True], ids=["fast", "naive"])
def model(request):
    model = load_published(FOLDER / "mlmu-tiny.safetensors")
    model.naive = request.param
    return model


@torch.no_grad()
def test_logits_and_loss(golden, model):
    valid, path, hidden = (golden[name].bool() for name in ("attention_mask", "path_mask", "hidden"))
    batch = TokenBatch(golden["input_ids"], valid, path, torch.arange(len(valid)))
    logits = model(batch, torch.where(valid, hidden.long(), -1), hidden)
    torch.testing.assert_close(logits, golden["logits"][hidden], atol=1e-5, rtol=0)
    loss = F.cross_entropy(logits, golden["input_ids"][hidden]).item()
    assert loss == pytest.approx(golden["loss"].item(), abs=1e-5)
    assert loss == pytest.approx(json.loads((FOLDER / "mlmu-tiny.json").read_text())["loss"], abs=1e-5)


@torch.no_grad()
def test_greedy_tokens_from_left_to_right(golden, model):
    tokens, path = golden["input_ids"].clone(), golden["path_mask"].bool()
    first = path.int().argmax(1)
    position = torch.arange(tokens.shape[1])
    for now in range(int(first.min()), tokens.shape[1]):
        query = (position == now) & (now >= first)[:, None]
        order = (position >= torch.maximum(first, torch.tensor(now))[:, None]).long()
        batch = TokenBatch(tokens, torch.ones_like(path), path, torch.arange(len(tokens)))
        tokens[query] = model(batch, order, query).argmax(-1)
    assert torch.equal(tokens, golden["greedy"])
