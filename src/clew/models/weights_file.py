"""Read the tensors of a weights file that somebody else made, without running anything that is in it.

    file = read_weights(Path("last.ckpt"))
    file.tensors["model.lm_head.weight"], file.hyper_parameters["n_head"]

Read are safetensors, state dicts saved with torch.save, and Lightning checkpoints. Files of torch.save are pickles,
which can name any function to be called. They are read with `torch.load(weights_only=True)` alone, which refuses all
but tensors and plain values, and are mapped into memory, so the optimizer state of a large checkpoint is not loaded.

Lightning also saves how the model was made. In the checkpoints of the published code these are OmegaConf objects and a
tokenizer. Their classes are not imported: an empty placeholder takes the place of each object.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from clew.errors import UserError

CHECKPOINT_SUFFIXES = (".ckpt", ".pt", ".pth", ".bin")
# Classes whose objects may stand beside the tensors, and that placeholders replace.
_REPLACED = re.compile(
    r"omegaconf\.\w[\w.]*|recipe\.\w[\w.]*|typing\.Any|collections\.defaultdict|builtins\.(dict|list|int|float|str|bool)"
)


@dataclass(frozen=True)
class WeightsFile:
    """Tensors by name, on the CPU, and what Lightning says of how the model was made."""

    tensors: dict[str, Tensor]
    hyper_parameters: dict[str, Any] = field(default_factory=dict)


def read_weights(path: Path) -> WeightsFile:
    """Return what the file holds; UserError if it is not whole, or holds more than tensors and plain values."""
    if not path.is_file():
        raise UserError(f"there is no file {path}; give the path of a safetensors file or a PyTorch checkpoint.")
    with open(path, "rb") as file:
        zipped = file.read(2) == b"PK"
    is_checkpoint = zipped or path.suffix in CHECKPOINT_SUFFIXES
    return _read_checkpoint(path, zipped) if is_checkpoint else _read_safetensors(path)


def _read_safetensors(path: Path) -> WeightsFile:
    try:
        return WeightsFile(load_file(path))
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read as safetensors ({error}); it may be cut off, or of another kind: a checkpoint of "
            f"torch.save must be named {', '.join(CHECKPOINT_SUFFIXES)}."
        ) from None


def _read_checkpoint(path: Path, zipped: bool) -> WeightsFile:
    try:
        found = _load_tensors(path, zipped)
    except MemoryError:
        raise
    except Exception as error:  # whatever bytes make the reader raise
        # Torch names what it refuses; its advice to allow it is not for files of strangers.
        refused = re.search(r"(?:GLOBAL|function) (\S+)", str(error))
        if refused:
            raise UserError(
                f"{path} holds {refused[1][:100]!r}, which is no tensor and could run code, so it is not read; if you "
                'made it, save its tensors alone, torch.save(checkpoint["state_dict"], "weights.pt"), and convert that.'
            ) from None
        said = (str(error) or type(error).__name__)[:150]
        raise UserError(
            f"{path} cannot be read as a PyTorch checkpoint ({said!r}); it may be cut off: get the whole file."
        ) from None
    found = found if isinstance(found, dict) else {}
    state = found.get("state_dict", found)
    hyper_parameters = found.get("hyper_parameters")
    tensors = {
        name: tensor
        for name, tensor in (state.items() if isinstance(state, dict) else ())
        if isinstance(name, str) and isinstance(tensor, Tensor)
    }
    if not tensors:
        raise UserError(f"{path} holds no state dict (tensors by name); give a checkpoint of a model.")
    check_size(path, max(tensors.values(), key=Tensor.numel))
    return WeightsFile(tensors, hyper_parameters if isinstance(hyper_parameters, dict) else {})


def check_size(path: Path, *tensors: Tensor) -> None:
    """UserError if the file is smaller than the tensors together: one of few numbers can claim any shape."""
    if sum(tensor.numel() * tensor.element_size() for tensor in tensors) > path.stat().st_size:
        raise UserError(f"{path} is smaller than the tensors that it names; get the whole file.")


def _load_tensors(path: Path, zipped: bool) -> Any:
    # A file that is not zipped is of an old torch, and cannot be mapped.
    names = torch.serialization.get_unsafe_globals_in_checkpoint(path) if zipped else []
    placeholders: list[Any] = [_placeholder(name) for name in names if _REPLACED.fullmatch(name)]
    with warnings.catch_warnings(), torch.serialization.safe_globals(placeholders):
        warnings.simplefilter("ignore")
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)


class _Placeholder:
    """Takes the place of an object of another class, and forgets all about it."""

    def __new__(cls, *args: Any) -> _Placeholder:
        return object.__new__(cls)

    def __init__(self, *args: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


def _placeholder(name: str) -> Callable[..., Any]:
    """What stands for the class of this name; torch finds it by its module and name."""
    module, _, own = name.rpartition(".")
    if name == "collections.defaultdict":

        def stand_in(*args: Any) -> Any:
            return {}  # entries are set in it, which the reader allows in a plain dict only

        stand_in.__module__, stand_in.__name__, stand_in.__qualname__ = module, own, own
        return stand_in
    return type(own, (_Placeholder,), {"__module__": module, "__qualname__": own})
