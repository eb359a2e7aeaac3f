"""Weights that the published code made, loaded into Clew's models; docs/models.md says what is read, and how.

    model = load_published("mlmu.safetensors", heads=4)      # an EncoderDecoder, or a DecoderOnly
    reorder_ids(model, published_tokens("astar", 10, 10), vocabulary)
    save_file(to_published(model.state_dict()), "back.safetensors")

A pickle can call any function, so files of torch.save are read with `torch.load(weights_only=True)` alone. Empty
placeholders replace the OmegaConf objects and the tokenizer in the published Lightning checkpoints.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clew.errors import UserError
from clew.files import from_plain, read_json
from clew.models.build import build_model, build_without_memory, check_tensors, read_tensors
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.models.transformers import DecoderOnly, EncoderDecoder
from clew.tokenization.tokens import PAD, SPECIAL_TOKENS, Vocabulary

DEFAULT_HEADS = 4
CHECKPOINT_SUFFIXES = (".ckpt", ".pt", ".pth", ".bin")
TextModel = EncoderDecoder | DecoderOnly
TextConfig = EncoderDecoderConfig | DecoderOnlyConfig

_PREFIXES = ("w.", "model.", "module.", "_orig_mod.")
# Classes that placeholders replace.
_REPLACED = re.compile(
    r"omegaconf\.\w[\w.]*|recipe\.\w[\w.]*|typing\.Any|collections\.defaultdict|builtins\.(dict|list|int|float|str|bool)"
)
# The parts of our parameters' names that are others in the published models.
_NAMES = {"encoder": "enc.layers", "encoder_norm": "enc.ln_f", "decoder": "dec.layers", "decoder_norm": "dec.ln_f"}
_NAMES |= {"blocks": "transformer.h", "norm": "transformer.ln_f", "positions": "transformer", "table": "wpe"}
_NAMES |= {"embedding": "lm_head", "head_bias": "lm_head.bias", "attention_norm": "ln_1", "feed_forward_norm": "ln_2"}
_NAMES |= {"query": "attn.c_attn", "memory_key_value": "attn.c_attn_mem", "query_key_value": "attn.c_attn"}
_NAMES |= {"attention_out": "attn.c_proj", "feed_forward": "mlp", "up": "c_fc", "down": "c_proj"}
# Copies of the head's weight, and constants that older versions of transformers save.
_TIED = ("wte.weight", "transformer.wte.weight")
_CONSTANT = re.compile(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)")


@dataclass(frozen=True)
class Sidecar:
    """Fields of the JSON file of the same name beside the weights, at its top or under `config`."""

    heads: int | None = None
    grid: int | None = None  # rows and columns of the mazes
    vocab: tuple[str, ...] = ()  # the tokens in the order of their ids


def read_sidecar(path: Path) -> Sidecar:
    sidecar = path.with_suffix(".json")
    value = read_json(sidecar) if sidecar.is_file() else {}
    value = value if isinstance(value, dict) else {}
    config = value["config"] if isinstance(value.get("config"), dict) else value
    given = {"heads": config.get("heads"), "grid": config.get("grid"), "vocab": value.get("vocab") or []}
    return from_plain(Sidecar, given, str(sidecar))


def load_published(
    path: Path | str, heads: int | None = None, *, causal: bool | None = None, bos_id: int | None = None
) -> TextModel:
    """Load a model from a file with published names; UserError if the file is not one complete model.

    `causal` says whether an encoder-decoder was trained from left to right; None reads it from a Lightning checkpoint.
    `bos_id` is the token that a decoder-only model puts before each sequence.
    """
    path = Path(path)
    found, made = read_weights(path)
    tensors = _deduplicate(without_prefix(found))
    for name, supported in (("attn_sink", False), ("stack_enc_dec", True)):
        if made.get(name, supported) is not supported:
            raise UserError(f"the model of {path} was made with {name}={made[name]}, which our models do not have.")
    if heads is None:
        stored = made.get("n_head", made.get("num_attention_heads"))
        heads = (stored if type(stored) is int else read_sidecar(path).heads) or DEFAULT_HEADS
    causal = made.get("train_mode") == "ar" if causal is None else causal
    config = _read_config(tensors, heads, causal, bos_id, made.get("activation_function", "relu"))
    own = build_without_memory(config).state_dict()
    check_tensors(to_published(own), tensors, path)
    model = build_model(config, seed=0)
    assert isinstance(model, EncoderDecoder | DecoderOnly)
    for name, shaped in own.items():
        tensor = tensors[_published_name(name)].float()
        own[name] = (tensor.T if _is_turned(name, tensor) else tensor).reshape(shaped.shape)
    model.load_state_dict(own)
    return model


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a file and the hyper-parameters of a Lightning checkpoint.

    UserError if it is damaged or holds more than tensors and plain values.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}; give the path of a safetensors file or a PyTorch checkpoint.")
    with open(path, "rb") as file:
        zipped = file.read(2) == b"PK"
    if not zipped and path.suffix not in CHECKPOINT_SUFFIXES:
        return read_tensors(path), {}
    try:
        found = _load_pickle(path, zipped)
    except MemoryError:
        raise
    except Exception as error:  # damaged files raise anything
        # Torch names what it refuses; its advice to allow it is not for downloaded files.
        if refused := re.search(r"(?:GLOBAL|function) (\S+)", str(error)):
            raise UserError(
                f"{path} holds {refused[1][:100]!r}, which is no tensor and could run code, so it is not read; if you "
                'made it, save its tensors alone, torch.save(checkpoint["state_dict"], "weights.pt"), and convert that.'
            ) from None
        message = (str(error) or type(error).__name__)[:150]
        raise UserError(
            f"{path} cannot be read as a PyTorch checkpoint ({message!r}); it may be cut off: get the whole file."
        ) from None
    found = found if isinstance(found, dict) else {}
    state, made = found.get("state_dict", found), found.get("hyper_parameters")
    items = state.items() if isinstance(state, dict) else ()
    tensors = {str(name): tensor for name, tensor in items if isinstance(tensor, Tensor)}
    if not tensors:
        raise UserError(f"{path} holds no state dict (tensors by name); give a checkpoint of a model.")
    for tensor in tensors.values():  # with strides of 0, a tensor of few stored values can claim any shape
        if tensor.layout is torch.strided and tensor.nbytes > tensor.untyped_storage().nbytes():
            raise UserError(f"{path} is smaller than the tensors that it names; get the whole file.")
    return tensors, made if isinstance(made, dict) else {}


def _load_pickle(path: Path, zipped: bool) -> Any:
    # A file that is not zipped is of an old torch, and cannot be mapped.
    names = torch.serialization.get_unsafe_globals_in_checkpoint(path) if zipped else []
    placeholders: list[Any] = [_placeholder(name) for name in names if _REPLACED.fullmatch(name)]
    with warnings.catch_warnings(), torch.serialization.safe_globals(placeholders):
        warnings.simplefilter("ignore")
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)


def _placeholder(name: str) -> type:
    """Return a stand-in without state for the class of this name; torch finds it by its module and name."""
    module, _, own = name.rpartition(".")
    # Entries are set in a defaultdict, which the reader allows in a plain dict only.
    is_dict = name == "collections.defaultdict"
    methods: dict[str, Any] = {
        "__new__": lambda cls, *args: {} if is_dict else object.__new__(cls),
        "__init__": lambda self, *args: None,
        "__setstate__": lambda self, state: None,
    }
    return type(own, (), {"__module__": module, "__qualname__": own, **methods})


def without_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with a known prefix, without it; if there are none, all of them."""
    for prefix in _PREFIXES:
        prefixed = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        if prefixed:
            return without_prefix(prefixed)
    return dict(tensors)


def _deduplicate(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Keep the embedding once, as lm_head.weight, and no constants."""
    kept = {name: tensor for name, tensor in tensors.items() if not _CONSTANT.fullmatch(name)}
    for name in _TIED:
        if (copy := kept.pop(name, None)) is None:
            continue
        head = kept.setdefault("lm_head.weight", copy)
        if not torch.equal(head, copy):
            raise UserError(
                f"{name} and lm_head.weight differ, but in the published models the embedding is the head's weight; "
                "these are the weights of another model."
            )
    return kept


def _read_config(
    tensors: Mapping[str, Tensor], heads: int, causal: bool, bos_id: int | None, activation: Any
) -> TextConfig:
    """Return the config that the names and shapes of the tensors describe."""
    gpt2, encoder, decoder = (_depth(tensors, stack) for stack in ("transformer.h", "enc.layers", "dec.layers"))
    embedding, positions = tensors.get("lm_head.weight"), tensors.get("transformer.wpe.weight")
    if embedding is None or embedding.dim() != 2 or not ((encoder and decoder) or (gpt2 and positions is not None)):
        raise UserError(
            "these weights do not have the names of the published MLM-U encoder-decoder (enc.layers.N..., "
            "dec.layers.N..., lm_head.weight) or of GPT-2 (transformer.h.N..., transformer.wte.weight, "
            "transformer.wpe.weight); get the whole file, or rename them first."
        )
    sizes: dict[str, Any] = {"vocabulary": embedding.shape[0], "width": embedding.shape[1], "heads": heads}
    if positions is None or not gpt2:
        sizes |= {"encoder_depth": encoder, "decoder_depth": decoder}
        return EncoderDecoderConfig(**sizes, causal=causal, attend_self=not causal)
    sizes |= {"positions": "learned", "max_length": len(positions) if positions.dim() else 0, "depth": gpt2}
    return DecoderOnlyConfig(**sizes, bos_id=bos_id, activation=activation, head_bias=False)


def _depth(tensors: Mapping[str, Tensor], stack: str) -> int:
    numbers = {int(found[1]) for name in tensors if (found := re.match(rf"{stack}\.(\d{{1,6}})\.", name))}
    return max(numbers, default=-1) + 1


def to_published(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state dict of our model under the published names, without a prefix; the token ids stay ours."""
    return {
        _published_name(name): tensor.T if _is_turned(name, tensor) else tensor[None] if name == "query" else tensor
        for name, tensor in state.items()
    }


def _published_name(name: str) -> str:
    return "wpe.weight" if name == "query" else ".".join(_NAMES.get(part, part) for part in name.split("."))


def _is_turned(name: str, tensor: Tensor) -> bool:
    """Return whether a weight is transposed in the published model, as in GPT-2's blocks."""
    return name.startswith("blocks.") and tensor.dim() == 2


@torch.no_grad()
def reorder_ids(model: TextModel, tokens: Sequence[str], vocabulary: Vocabulary) -> None:
    """Permute the ids of a model, and its logits, from the order of `tokens` to that of `vocabulary`.

    UserError if `tokens` lack one, or have one that cannot occur in such mazes.
    """
    id_of = {PAD if token == "pad" else token: number for number, token in enumerate(tokens)}
    ids = model.config.vocabulary
    if len(id_of) != len(tokens):
        raise UserError("the vocabulary of the weights has a token twice, so its ids are not known; correct it.")
    if (count := max(len(tokens), len(vocabulary.tokens))) > ids:
        raise UserError(f"the weights have {ids} ids, too few for a vocabulary of {count}; check --size and --family.")
    missing = [token for token in vocabulary.tokens if token not in SPECIAL_TOKENS and token not in id_of]
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
