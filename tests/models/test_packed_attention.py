"""The CPU kernels of attention against plain torch, alone and within the text models."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from model_cases import any_order, decoder_only, encoder_decoder, hide, left_to_right, make_batch
from torch import Tensor

from clew.models.blocks import Positions, record_attention, use_packed_attention
from clew.models.config import DecoderOnlyConfig
from clew.models.cpu_kernels.attention import Segments, packed_attention
from clew.models.transformers import DecoderOnly

HEADS = 2
KEYS = [5, 61, 16, 33, 1, 17]
QUERIES = {"self": KEYS, "causal": KEYS, "cross": [3, 1, 0, 20, 16, 17]}


def segments(kind: str, head_width: int) -> Segments:
    """Sequences of several lengths; in cross-attention queries attend to different numbers of keys."""
    generator, positions = torch.Generator().manual_seed(0), Positions("rope-fp32", 2 * head_width, 2, 16)
    visible, rotations = [], []
    for queries, keys in zip(QUERIES[kind], KEYS, strict=True):
        visible.append(
            {
                "self": lambda n: torch.full((n,), n),
                "causal": lambda n: torch.arange(1, n + 1),
                "cross": lambda n, most=keys: torch.randint(1, most + 1, (n,), generator=generator),
            }[kind](queries)
        )
    for counts in (QUERIES[kind], KEYS):
        angle = positions.angle(torch.cat([torch.arange(3, 3 + count) for count in counts]))
        rotations += [angle.cos(), angle.sin()]
    starts = (torch.tensor([0, *counts]).cumsum(0) for counts in (QUERIES[kind], KEYS))
    return Segments(*starts, torch.cat(visible), *rotations)


def plain_attention(where: Segments, query_ND: Tensor, key_MD: Tensor, value_MD: Tensor) -> Tensor:
    def rotated(x_ND: Tensor, cos_NP: Tensor, sin_NP: Tensor) -> Tensor:
        first, second = x_ND.unflatten(1, (HEADS, -1)).chunk(2, dim=2)
        cos, sin = cos_NP.to(x_ND.dtype)[:, None], sin_NP.to(x_ND.dtype)[:, None]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=2)

    query_NHE = rotated(query_ND, where.cos_NP, where.sin_NP)
    key_MHE, value_MHE = rotated(key_MD, where.cos_MP, where.sin_MP), value_MD.unflatten(1, (HEADS, -1))
    found = []
    for b in range(len(where.key_start) - 1):
        own, memory = (slice(*start[b : b + 2].tolist()) for start in (where.query_start, where.key_start))
        mask = torch.arange(memory.stop - memory.start) < where.visible_N[own, None]
        parts = (x.transpose(0, 1) for x in (query_NHE[own], key_MHE[memory], value_MHE[memory]))
        found.append(F.scaled_dot_product_attention(*parts, mask).transpose(0, 1).flatten(1))
    return torch.cat(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("head_width", [8, 32])
@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("threads", [1, 2])
def test_values_and_gradients_equal_plain_torch(dtype: torch.dtype, head_width: int, kind: str, threads: int) -> None:
    generator, width = torch.Generator().manual_seed(0), HEADS * head_width
    where = segments(kind, head_width)
    shapes = [(sum(QUERIES[kind]), width), (sum(KEYS), 2 * width)]
    if kind != "cross":
        shapes = [(sum(KEYS), 3 * width)]
    inputs = [torch.randn(shape, dtype=dtype, generator=generator, requires_grad=True) for shape in shapes]
    weight_ND = torch.randn(sum(QUERIES[kind]), width, dtype=dtype, generator=generator)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast = packed_attention(where, HEADS, *inputs)
        fast_grads = torch.autograd.grad((fast * weight_ND).sum(), inputs)
    finally:
        torch.set_num_threads(before)
    parts = inputs[0].chunk(3, 1) if kind != "cross" else (inputs[0], *inputs[1].chunk(2, 1))
    plain = plain_attention(where, *parts)
    plain_grads = torch.autograd.grad((plain * weight_ND).sum(), inputs)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(fast, plain, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(fast_grads, plain_grads, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["decoder-only", "hide", "any order", "causal", "strictly causal"])
def test_models_have_the_same_loss_and_gradients_in_every_form(dtype: torch.dtype, name: str) -> None:
    """The kernels, plain torch where it is needed, and plain torch at every position."""
    batch = make_batch(6, 9, 20, seed=0)
    model = (decoder_only() if name == "decoder-only" else encoder_decoder(causal="causal" in name)).to(dtype)
    if name == "strictly causal":
        model.config = replace(model.config, attend_self=False)
    case = {"hide": lambda: hide(batch, 0.5, 0), "any order": lambda: any_order(batch, 0)}.get(
        name, lambda: left_to_right(batch)
    )()
    found = []
    for packed, naive in ((True, False), (False, False), (False, True)):
        model.naive = naive
        model.zero_grad()
        with patch("clew.models.transformers.use_packed_attention", lambda *_, use=packed: use):
            loss = F.cross_entropy(model(case.batch, case.order_BT, case.query_BT), batch.tokens_BT[case.query_BT])
        loss.backward()
        found.append((loss.detach(), {key: parameter.grad.clone() for key, parameter in model.named_parameters()}))
    for other in found[1:]:  # plain torch rotates in float32 in any case
        assert float(found[0][0]) == pytest.approx(float(other[0]), rel=1e-6)
        torch.testing.assert_close(found[0][1], other[1], rtol=1e-4, atol=1e-5)


def test_a_masked_key_has_no_influence_and_no_gradient() -> None:
    where = segments("causal", 8)
    joined = torch.randn(sum(KEYS), 6 * 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    mixed = packed_attention(where, HEADS, joined)
    (gradient,) = torch.autograd.grad(mixed[5 + 30].sum(), joined)  # the second sequence's token 30
    assert (gradient[5 : 5 + 31, 32:].abs().amax(1) > 0).all()
    others = torch.cat([gradient[:5], gradient[5 + 31 :]])
    assert torch.equal(others, torch.zeros_like(others))


def test_large_scores_do_not_overflow() -> None:
    where = segments("self", 8)
    joined = 100 * torch.randn(sum(KEYS), 6 * 8, generator=torch.Generator().manual_seed(0))
    plain = plain_attention(where, *joined.chunk(3, 1))
    torch.testing.assert_close(packed_attention(where, HEADS, joined), plain, rtol=1e-4, atol=1e-2)


def test_plain_torch_is_used_where_the_kernels_cannot_be() -> None:
    model = decoder_only()
    weight = model.embedding.weight
    assert use_packed_attention(model.positions, weight)
    assert not use_packed_attention(model.positions, weight.to("meta"))
    assert not use_packed_attention(model.positions, weight.bfloat16())
    assert not use_packed_attention(decoder_only(positions="rope-fp16").positions, weight)
    assert not use_packed_attention(DecoderOnly(DecoderOnlyConfig(8, 12, 2, depth=1)).positions, weight)  # width 6
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not use_packed_attention(model.positions, weight)
    with record_attention():
        assert not use_packed_attention(model.positions, weight)
