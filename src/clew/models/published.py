"""Weights that the published code made, in our models.

    model = load_published("mlmu.safetensors", heads=4)      # an EncoderDecoder, or a DecoderOnly
    reorder_ids(model, published_tokens("astar", 10, 10), vocabulary)
    save_file(to_published(model), "back.safetensors")       # of an EncoderDecoder

The published MLM-U encoder-decoder calls its parts `enc.layers.N.attn.c_attn` (queries, keys and values stacked),
`dec.layers.N.attn.c_attn` (queries), `dec.layers.N.attn.c_attn_mem` (keys and values of the memory), `wpe` (the
decoder's one input vector) and `lm_head` (the embedding too). The published decoder-only model is GPT-2 of the
transformers library: `transformer.h.N...`, matrices transposed, learned positions, no bias in the head.

All names may begin with `w.`, `model.` (Lightning), `module.` (DDP) or `_orig_mod.` (torch.compile); tensors beside
them that do not are then ignored. Sizes are read from the shapes. The number of heads is in no shape: it is given, or
what a Lightning checkpoint says, or what a JSON file of the same name beside the weights says (see Beside).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clew.errors import UserError
from clew.files import read_json
from clew.models.build import build_model
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.models.decoder_only import DecoderOnly
from clew.models.encoder_decoder import EncoderDecoder
from clew.models.weights_file import check_size, read_weights
from clew.tokenization.format import format_named
from clew.tokenization.vocabulary import PAD, SPECIAL_TOKENS, Vocabulary

DEFAULT_HEADS = 4
PREFIXES = ("w.", "model.", "module.", "_orig_mod.")
TextModel = EncoderDecoder | DecoderOnly
TextConfig = EncoderDecoderConfig | DecoderOnlyConfig


@dataclass(frozen=True)
class Beside:
    """What a JSON file beside the weights may say, here or under `config`, that the weights do not."""

    heads: int | None = None
    grid: int | None = None  # rows and columns of the mazes
    vocab: list[str] | None = None  # the tokens in the order of their ids


# Ours, then theirs; each stands for a weight and a bias.
_BLOCK = {
    "attention_norm": "ln_1",
    "attention_out": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
}
_SELF_BLOCK = _BLOCK | {"query_key_value": "attn.c_attn"}
_CROSS_BLOCK = _BLOCK | {"query": "attn.c_attn", "memory_key_value": "attn.c_attn_mem"}
# Copies of the head's weight, and constants that older versions of transformers save.
_TIED = ("wte.weight", "transformer.wte.weight")
_CONSTANT = re.compile(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)")


def load_published(
    path: Path | str, heads: int | None = None, *, causal: bool | None = None, bos_id: int | None = None
) -> TextModel:
    """The model in a file with published names; UserError if it is not one, whole and of one piece.

    `causal` says whether an encoder-decoder was trained from left to right; if None, it was if a Lightning checkpoint
    says so. `bos_id` is the token that a decoder-only model puts before each sequence.
    """
    path = Path(path)
    file = read_weights(path)
    tensors = _without_copies(without_prefix(file.tensors))
    made = file.hyper_parameters
    for name, supported in (("attn_sink", False), ("stack_enc_dec", True)):
        if made.get(name, supported) is not supported:
            raise UserError(f"the model of {path} was made with {name}={made[name]}, which our models do not have.")
    if heads is None:
        said = made.get("n_head", made.get("num_attention_heads"))
        heads = said if type(said) is int else read_beside(path).heads
    heads = DEFAULT_HEADS if heads is None else heads
    config: TextConfig
    if any(name.startswith("transformer.") for name in tensors):
        activation = made.get("activation_function", "relu")
        config = _infer_decoder_only(tensors, heads, bos_id, activation)
    else:
        causal = made.get("train_mode") == "ar" if causal is None else causal
        config = infer_config(tensors, heads, causal)
    check_size(path, *tensors.values())
    state = from_published(tensors, config)
    model = build_model(config, seed=0)
    assert isinstance(model, EncoderDecoder | DecoderOnly)
    model.load_state_dict(state)
    return model


def without_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a known prefix, without it; if there are none, all of them."""
    for prefix in PREFIXES:
        prefixed = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        if prefixed:
            return without_prefix(prefixed)
    return dict(tensors)


def _without_copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The embedding once, as lm_head.weight, and no constants."""
    kept = {name: tensor for name, tensor in tensors.items() if not _CONSTANT.fullmatch(name)}
    for name in _TIED:
        if (copy := kept.pop(name, None)) is None:
            continue
        head = kept.setdefault("lm_head.weight", copy)
        if head.shape != copy.shape or not torch.equal(head, copy):
            raise UserError(
                f"{name} and lm_head.weight differ, but in the published models the embedding is the head's weight; "
                "these are the weights of another model."
            )
    return kept


def infer_config(tensors: Mapping[str, Tensor], heads: int, causal: bool = False) -> EncoderDecoderConfig:
    """The sizes that the names and shapes tell; UserError if these are no weights of the published encoder-decoder."""
    encoder_depth, decoder_depth = _depth(tensors, "enc.layers"), _depth(tensors, "dec.layers")
    if "lm_head.weight" not in tensors or not encoder_depth or not decoder_depth:
        raise UserError(
            "these weights do not have the names of the published MLM-U encoder-decoder (enc.layers.N..., "
            "dec.layers.N..., lm_head.weight) or of GPT-2 (transformer.h.N...); rename them first."
        )
    vocabulary, width = _embedding_shape(tensors)
    return EncoderDecoderConfig(
        vocabulary,
        width,
        heads,
        encoder_depth=encoder_depth,
        decoder_depth=decoder_depth,
        causal=causal,
        attend_self=not causal,
    )


def _infer_decoder_only(
    tensors: Mapping[str, Tensor], heads: int, bos_id: int | None, activation: Any
) -> DecoderOnlyConfig:
    depth, positions = _depth(tensors, "transformer.h"), tensors.get("transformer.wpe.weight")
    if "lm_head.weight" not in tensors or not depth or positions is None or positions.dim() != 2:
        raise UserError(
            "these weights lack transformer.wte.weight, transformer.wpe.weight or transformer.h.0..., so they are not "
            "those of a whole GPT-2; get the whole file."
        )
    vocabulary, width = _embedding_shape(tensors)
    return DecoderOnlyConfig(
        vocabulary,
        width,
        heads,
        "learned",
        max_length=len(positions),
        activation=activation,
        head_bias=False,
        depth=depth,
        bos_id=bos_id,
    )


def _depth(tensors: Mapping[str, Tensor], stack: str) -> int:
    numbers = {int(found[1]) for name in tensors if (found := re.match(rf"{stack}\.(\d{{1,6}})\.", name))}
    depth = max(numbers, default=-1) + 1
    # A stack cannot have more blocks than there are tensors; a made-up number would build a giant.
    if depth > len(tensors):
        raise UserError("some blocks of these weights are missing; get the whole file.")
    return depth


def _embedding_shape(tensors: Mapping[str, Tensor]) -> tuple[int, int]:
    embedding = tensors["lm_head.weight"]
    if embedding.dim() != 2:
        raise UserError(f"lm_head.weight has the shape {list(embedding.shape)}, but it must be vocabulary by width.")
    vocabulary, width = embedding.shape
    return vocabulary, width


def read_beside(path: Path) -> Beside:
    """What the JSON file of the same name beside the weights says."""
    beside = path.with_suffix(".json")
    if not beside.is_file():
        return Beside()
    told: Any = read_json(beside)
    told = told if isinstance(told, dict) else {}
    config = told.get("config") if isinstance(told.get("config"), dict) else told

    def number(name: str) -> int | None:
        value = config.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise UserError(f"{beside} says {name} {value!r}, but that must be a whole number; correct it.")
        return value

    tokens = told.get("vocab")
    if tokens is not None and not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
        raise UserError(f"the vocab of {beside} must be a list of words; correct it, or remove it.")
    return Beside(number("heads"), number("grid"), tokens)


def from_published(tensors: Mapping[str, Tensor], config: TextConfig) -> dict[str, Tensor]:
    """Our names for the published tensors, checked against the shapes that the config needs."""
    names = published_names(config)
    with torch.device("meta"):  # shapes without memory
        ours = build_model(config, seed=0).state_dict()
    missing, unknown = sorted(set(names.values()) - set(tensors)), sorted(set(tensors) - set(names.values()))
    if missing:
        raise UserError(f"the weights lack {missing[0]} ({len(missing)} missing in all); get the whole file.")
    if unknown:
        raise UserError(f"the weights have {unknown[0]!r}, which the published model does not; remove it.")
    state = {}
    for name, theirs in names.items():
        tensor = tensors[theirs]
        shape = tuple(ours[name].shape)
        if name == "query":
            shape = (1, *shape)
        elif _is_transposed(config, name):
            shape = shape[::-1]
        if tuple(tensor.shape) != shape:
            raise UserError(
                f"{theirs} has the shape {list(tensor.shape)}, but the rest of the weights needs {list(shape)}; "
                "these are not the weights of one model."
            )
        if tensor.layout is not torch.strided or tensor.is_meta or not tensor.is_floating_point():
            raise UserError(f"{theirs} holds {tensor.dtype}, not floating-point numbers; save the weights as float32.")
        if not bool(torch.isfinite(tensor).all()):
            raise UserError(f"{theirs} holds numbers that are not finite; get weights from an earlier checkpoint.")
        tensor = tensor.T if _is_transposed(config, name) else tensor
        state[name] = tensor.float().reshape(ours[name].shape)
    return state


def to_published(model: EncoderDecoder) -> dict[str, Tensor]:
    """The weights of `model` under the published names, without a prefix; the ids of the tokens stay ours."""
    config = model.config
    if not config.rotary or config.activation != "gelu" or not config.head_bias:
        raise UserError(
            f"the published model has RoPE, GELU and a head with bias, so weights with {config.positions} positions, "
            f"{config.activation} and head_bias={config.head_bias} do not fit it."
        )
    state = model.state_dict()
    names = published_names(config)
    return {theirs: state[ours].view(1, -1) if ours == "query" else state[ours] for ours, theirs in names.items()}


def published_names(config: TextConfig) -> dict[str, str]:
    """Our parameters' names, and the published ones."""
    if isinstance(config, DecoderOnlyConfig):
        pairs = {"norm": "transformer.ln_f"} | _stack("blocks", config.depth, "transformer.h", _SELF_BLOCK)
        alone = {"positions.table.weight": "transformer.wpe.weight"}
    else:
        pairs = {"encoder_norm": "enc.ln_f", "decoder_norm": "dec.ln_f"}
        pairs |= _stack("encoder", config.encoder_depth, "enc.layers", _SELF_BLOCK)
        pairs |= _stack("decoder", config.decoder_depth, "dec.layers", _CROSS_BLOCK)
        alone = {"head_bias": "lm_head.bias", "query": "wpe.weight"}
    names = {f"{ours}.{part}": f"{theirs}.{part}" for ours, theirs in pairs.items() for part in ("weight", "bias")}
    return names | {"embedding.weight": "lm_head.weight"} | alone


def _stack(ours: str, depth: int, theirs: str, block: Mapping[str, str]) -> dict[str, str]:
    return {f"{ours}.{n}.{name}": f"{theirs}.{n}.{block[name]}" for n in range(depth) for name in block}


def _is_transposed(config: TextConfig, name: str) -> bool:
    """GPT-2 of transformers has the matrices of its blocks as inputs by outputs."""
    is_block = isinstance(config, DecoderOnlyConfig) and name.startswith("blocks.")
    return is_block and name.endswith(".weight") and "norm" not in name


def published_tokens(family: str, height: int, width: int) -> list[str]:
    """The tokens of the published models in the order of their ids.

    For DFS mazes these are ours. For A* mazes: four words, then numbers, costs (0 to cells - 1, for search traces) and
    words of Searchformer's vocabulary, sorted as strings.
    """
    if family == "dfs":
        return list(format_named("edge-list").vocabulary(height, width).tokens)
    words = ["start", "goal", "wall", "create", "close", "plan"]
    numbers = [str(number) for number in range(max(height, width))]
    costs = [f"c{cost}" for cost in range(height * width)]
    return ["pad", "bos", "eos", "<PATH_START>", *sorted([*words, *numbers, *costs])]


@torch.no_grad()
def reorder_ids(model: TextModel, tokens: Sequence[str], vocabulary: Vocabulary) -> None:
    """Permute the ids of a model from the order of `tokens` to that of `vocabulary`; the logits are permuted with them.

    Ids that stand for nothing in `vocabulary` get what is left. UserError if `tokens` lack one, or have one that is of
    no use in such mazes.
    """
    id_of = {PAD if token == "pad" else token: number for number, token in enumerate(tokens)}
    ids = model.config.vocabulary
    if len(id_of) != len(tokens):
        raise UserError("the vocabulary of the weights has a token twice, so its ids are not known; correct it.")
    if (count := max(len(tokens), len(vocabulary.tokens))) > ids:
        raise UserError(f"the weights have {ids} ids, too few for a vocabulary of {count}; check --size and --family.")
    needed = [token for token in vocabulary.tokens if token not in SPECIAL_TOKENS]
    missing = [token for token in needed if token not in id_of]
    foreign = [t for t in id_of if t not in vocabulary.id_of and not re.fullmatch(r"create|close|c\d+", t)]
    if missing or foreign:
        problem = f"lacks {missing[0]!r}" if missing else f"has {foreign[0]!r}"
        raise UserError(
            f"the vocabulary of the weights {problem}, so it is not that of these mazes; give the size and family that "
            "the model was trained on."
        )
    theirs = [id_of.get(token) for token in vocabulary.tokens] + [None] * (ids - len(vocabulary.tokens))
    left = iter(sorted(set(range(ids)) - set(theirs)))
    order = torch.tensor([next(left) if number is None else number for number in theirs])
    for parameter in (model.embedding.weight, model.head_bias):
        if parameter is not None:
            parameter.copy_(parameter[order])
