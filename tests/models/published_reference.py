"""The two published networks written down plainly, from tensors with the published names; nothing of the package.

Shape suffixes: B mazes, T positions, D width, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def random_encoder_decoder(vocabulary: int, width: int, encoder_depth: int, decoder_depth: int, seed: int) -> Weights:
    """Weights of the published encoder-decoder, with its embedding under both of its names."""
    weights = {"wpe.weight": _draw(seed, 1, width), "lm_head.bias": _draw(seed + 1, vocabulary)}
    for stack, depth in (("enc", encoder_depth), ("dec", decoder_depth)):
        weights |= _norm(f"{stack}.ln_f", width, seed)
        for number in range(depth):
            weights |= _block(f"{stack}.layers.{number}", width, seed + 7 * number, cross=stack == "dec")
    embedding = _draw(seed + 2, vocabulary, width)
    return weights | {"wte.weight": embedding, "lm_head.weight": embedding}


def random_gpt2(vocabulary: int, width: int, depth: int, positions: int, seed: int) -> Weights:
    """Weights of GPT-2 as the transformers library names them: matrices are inputs by outputs."""
    weights = _norm("transformer.ln_f", width, seed)
    for number in range(depth):
        block = _block(f"transformer.h.{number}", width, seed + 7 * number, cross=False)
        weights |= {name: tensor.T.contiguous() if tensor.dim() == 2 else tensor for name, tensor in block.items()}
    embedding = _draw(seed + 2, vocabulary, width)
    weights["transformer.wpe.weight"] = _draw(seed + 3, positions, width)
    return weights | {"transformer.wte.weight": embedding, "lm_head.weight": embedding}


def run_gpt2(weights: Weights, tokens_BT: Tensor, heads: int) -> Tensor:
    """Logits [B, T, V]: ReLU, learned positions, no head bias; a position attends to itself and to those before it."""
    length = tokens_BT.shape[1]
    x = weights["transformer.wte.weight"][tokens_BT] + weights["transformer.wpe.weight"][:length]
    mask_TT = torch.ones(length, length).tril().bool()
    for number in range(_depth(weights, "transformer.h")):
        at = f"transformer.h.{number}"
        y = layer_norm(weights, f"{at}.ln_1", x)
        query, key, value = (y @ weights[f"{at}.attn.c_attn.weight"] + weights[f"{at}.attn.c_attn.bias"]).chunk(3, -1)
        mixed = attend(query, key, value, heads, mask_TT, rotary=False)
        x = x + mixed @ weights[f"{at}.attn.c_proj.weight"] + weights[f"{at}.attn.c_proj.bias"]
        y = layer_norm(weights, f"{at}.ln_2", x)
        y = (y @ weights[f"{at}.mlp.c_fc.weight"] + weights[f"{at}.mlp.c_fc.bias"]).clamp(min=0)
        x = x + y @ weights[f"{at}.mlp.c_proj.weight"] + weights[f"{at}.mlp.c_proj.bias"]
    return layer_norm(weights, "transformer.ln_f", x) @ weights["lm_head.weight"].T


def run_encoder_decoder(weights: Weights, tokens_BT: Tensor, heads: int, mask_BTT: Tensor) -> Tensor:
    """Logits [B, T, V]; encoder and decoder positions alike attend to where the mask is True."""
    x = weights["wte.weight"][tokens_BT]
    for number in range(_depth(weights, "enc.layers")):
        at = f"enc.layers.{number}"
        query, key, value = linear(weights, f"{at}.attn.c_attn", layer_norm(weights, f"{at}.ln_1", x)).chunk(3, -1)
        x = x + linear(weights, f"{at}.attn.c_proj", attend(query, key, value, heads, mask_BTT, rotary=True))
        x = x + feed_forward(weights, at, x)
    memory = layer_norm(weights, "enc.ln_f", x)
    x = weights["wpe.weight"].expand(*tokens_BT.shape, -1)
    for number in range(_depth(weights, "dec.layers")):
        at = f"dec.layers.{number}"
        query = linear(weights, f"{at}.attn.c_attn", layer_norm(weights, f"{at}.ln_1", x))
        key, value = linear(weights, f"{at}.attn.c_attn_mem", memory).chunk(2, -1)
        x = x + linear(weights, f"{at}.attn.c_proj", attend(query, key, value, heads, mask_BTT, rotary=True))
        x = x + feed_forward(weights, at, x)
    return linear(weights, "lm_head", layer_norm(weights, "dec.ln_f", x))


def causal_mask(length: int) -> Tensor:
    """The published left-to-right mask: all strictly before, and the first position for everyone, itself too."""
    mask_TT = torch.ones(length, length).tril(-1).bool()
    mask_TT[:, 0] = True
    return mask_TT


def linear(weights: Weights, at: str, x: Tensor) -> Tensor:
    return x @ weights[f"{at}.weight"].T + weights[f"{at}.bias"]


def layer_norm(weights: Weights, at: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return scaled * weights[f"{at}.weight"] + weights[f"{at}.bias"]


def feed_forward(weights: Weights, at: str, x: Tensor) -> Tensor:
    y = linear(weights, f"{at}.mlp.c_fc", layer_norm(weights, f"{at}.ln_2", x))
    y = y * 0.5 * (1 + torch.erf(y / math.sqrt(2)))
    return linear(weights, f"{at}.mlp.c_proj", y)


def attend(query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor, rotary: bool) -> Tensor:
    mixed = []
    parts = (x.chunk(heads, -1) for x in (query, key, value))
    for one_query, one_key, one_value in zip(*parts, strict=True):
        if rotary:
            one_query, one_key = rotated(one_query), rotated(one_key)
        scores = one_query @ one_key.transpose(-1, -2) / math.sqrt(one_query.shape[-1])
        mixed.append(scores.masked_fill(~mask, -math.inf).softmax(-1) @ one_value)
    return torch.cat(mixed, -1)


def rotated(x: Tensor) -> Tensor:
    """Each pair (i, i + half) as a complex number, turned by position * 10000 ** (-i / half)."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] * 10_000.0 ** (-torch.arange(half) / half)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1)


def _depth(weights: Weights, stack: str) -> int:
    return len({name.split(".")[stack.count(".") + 1] for name in weights if name.startswith(f"{stack}.")})


def _draw(seed: int, *shape: int) -> Tensor:
    return 0.4 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _norm(at: str, width: int, seed: int) -> Weights:
    return {f"{at}.weight": 1 + _draw(seed, width), f"{at}.bias": _draw(seed + 1, width)}


def _block(at: str, width: int, seed: int, cross: bool) -> Weights:
    sizes = {"attn.c_proj": (width, width), "mlp.c_fc": (4 * width, width), "mlp.c_proj": (width, 4 * width)}
    if cross:
        sizes |= {"attn.c_attn": (width, width), "attn.c_attn_mem": (2 * width, width)}
    else:
        sizes |= {"attn.c_attn": (3 * width, width)}
    weights = _norm(f"{at}.ln_1", width, seed) | _norm(f"{at}.ln_2", width, seed + 2)
    for number, (name, shape) in enumerate(sizes.items()):
        weights[f"{at}.{name}.weight"] = _draw(100 * seed + number, *shape)
        weights[f"{at}.{name}.bias"] = _draw(100 * seed + 50 + number, shape[0])
    return weights
