"""Parameters by name, and sharded tensors made whole: what everything that is saved by name needs.

for name, parameter in named_parameters(model): ...    # the names of the bare model
whole(tensor)                                          # a DTensor's full value; collective, all ranks must call
copy_into(tensor, whole_tensor)                        # and back into the shards

Checkpoints: a folder of safetensors and one JSON, there wholly or not at all; and models loaded from them.

    checkpoints/00001000/model.safetensors       the weights by name
                         optimizer.safetensors   its state by parameter name
                         ema.safetensors         the average of the weights, if the run keeps one
                         state.json              step, seconds, and whatever else the loop goes on from

    path = write_checkpoint(run / "checkpoints", step, {"model": weights, ...}, state)
    model, config = load_model("runs/x", which="best")

The folder is written under another name, flushed to the disk and then renamed, so a kill or a full disk at any moment
leaves the older checkpoints as they were. Nothing in it depends on the number of processes, and none of it is pickle.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from clew.errors import UserError
from clew.files import read_json, write_json
from clew.models.build import build_model
from clew.training.config import TrainConfig
from clew.training.named_tensors import bare_model, bare_name, copy_into, whole

# What DDP and torch.compile put before the names of the model that they wrap.


CONFIG_FILE = "config.json"
CHECKPOINTS = "checkpoints"
STATE_FILE = "state.json"
MODEL_FILE = "model.safetensors"
_UNFINISHED, _DISCARDED = ".unfinished-", ".discarded-"


def checkpoint_name(step: int) -> str:
    """Names sort as their steps do."""
    return f"{step:08d}"


def steps_saved(checkpoints: Path) -> list[int]:
    """The steps that have a checkpoint, rising."""
    if not checkpoints.is_dir():
        return []
    return sorted(int(p.name) for p in checkpoints.iterdir() if p.name.isdigit() and (p / STATE_FILE).is_file())


def latest_checkpoint(run: str | Path) -> Path | None:
    """The newest checkpoint of a run, if it has any."""
    checkpoints = Path(run) / CHECKPOINTS
    steps = steps_saved(checkpoints)
    return checkpoints / checkpoint_name(steps[-1]) if steps else None


def write_checkpoint(
    checkpoints: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Write NAME.safetensors for each entry of `tensors`, and state.json; the checkpoint's folder."""
    final = checkpoints / checkpoint_name(step)
    last = latest_checkpoint(checkpoints.parent)
    temporary = checkpoints / f"{_UNFINISHED}{secrets.token_hex(6)}"
    try:
        checkpoints.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        for name, named in tensors.items():
            # The bytes first: the library's own writer reports a full disk as an error of its own kind.
            data = safetensors.torch.save({key: tensor.cpu().contiguous() for key, tensor in named.items()})
            with open(temporary / f"{name}.safetensors", "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        write_json(temporary / STATE_FILE, dict(state))  # flushes itself, and then the folder
        if final.exists():  # this very step was saved by a run that was then resumed from an older one
            discard(final)
        os.rename(temporary, final)
        _flush_folder(checkpoints)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        kept = f"the last good one, {last}, is untouched" if last else "there is none before it"
        raise UserError(
            f"the disk is full, so the checkpoint of step {step} could not be written ({kept}); make room and run the "
            "same command again to go on."
        ) from None
    return final


def discard(checkpoint: Path) -> None:
    """Remove a checkpoint, which at no moment is half there under its own name."""
    doomed = checkpoint.with_name(f"{_DISCARDED}{secrets.token_hex(6)}")
    os.rename(checkpoint, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(checkpoints: Path) -> None:
    """Remove what a kill left of checkpoints that were being written or discarded."""
    if checkpoints.is_dir():
        for path in checkpoints.iterdir():
            if path.name.startswith((_UNFINISHED, _DISCARDED)):
                shutil.rmtree(path, ignore_errors=True)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing, so the checkpoint cannot be used; take an older one.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged ({error}), so the checkpoint cannot be used; take an older one.") from None


def read_state(checkpoint: Path) -> dict[str, Any]:
    """What state.json says."""
    try:
        state = read_json(checkpoint / STATE_FILE)
    except FileNotFoundError:
        raise UserError(f"{checkpoint} is no checkpoint: it has no {STATE_FILE}.") from None
    if not isinstance(state, dict) or not isinstance(state.get("step"), int):
        raise UserError(f"{checkpoint / STATE_FILE} is not the state of a run; take another checkpoint.")
    return state


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The weights by name; sharded ones are gathered, so every process must call this."""
    return {bare_name(name): whole(tensor).detach() for name, tensor in bare_model(model).state_dict().items()}


def load_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor], where: Path | str) -> None:
    """Write weights into a model, sharded or not; UserError if they are of another one."""
    own = {bare_name(name): tensor for name, tensor in bare_model(model).state_dict().items()}
    if odd := sorted(own.keys() ^ tensors.keys()):
        raise UserError(f"{where} holds the weights of another model (see {odd[0]!r}); use it with its own config.")
    for name, tensor in own.items():
        if tensor.shape != tensors[name].shape:
            raise UserError(
                f"{where} holds {name!r} of shape {list(tensors[name].shape)}, but the model needs "
                f"{list(tensor.shape)}; use it with its own config."
            )
    for name, tensor in own.items():
        copy_into(tensor, tensors[name])


def load_config(run: str | Path) -> TrainConfig:
    """The config that a run was started with."""
    path = Path(run) / CONFIG_FILE
    if not path.is_file():
        raise UserError(f"{run} is not the folder of a run: it has no {CONFIG_FILE}; train one with `clew train`.")
    return TrainConfig.from_json(read_json(path), str(path))


def find_checkpoint(run: str | Path, which: Literal["best", "last"] | int = "best") -> Path:
    """A checkpoint of a run: the best on held-out mazes (the last if none was evaluated), the last, or of a step."""
    last = latest_checkpoint(run)
    if last is None:
        raise UserError(f"{run} holds no checkpoint yet; let it train for longer.")
    if which == "last":
        return last
    best = read_state(last).get("best")
    step = which if which != "best" else best["step"] if best else int(last.name)
    found = last.with_name(checkpoint_name(step))
    if not found.is_dir():
        saved = ", ".join(map(str, steps_saved(last.parent)))
        raise UserError(f"{run} holds no checkpoint of step {step}; it holds {saved}.")
    return found


def load_model(
    run: str | Path, which: Literal["best", "last"] | int = "best", ema: bool = True
) -> tuple[nn.Module, TrainConfig]:
    """A trained model, ready to answer, on the CPU, and its config; the average of its weights if it has one."""
    config = load_config(run)
    checkpoint = find_checkpoint(run, which)
    model = build_model(config.model, seed=0)
    path = checkpoint / MODEL_FILE
    load_model_tensors(model, read_tensors(path), path)
    average = checkpoint / "ema.safetensors"
    if ema and average.is_file():
        load_average(model, read_tensors(average))
    return model.eval(), config


def load_start(model: nn.Module, source: str | Path) -> None:
    """Write the weights of a run, or of a folder with a model.safetensors, into a fresh model."""
    folder = Path(source)
    if (folder / CONFIG_FILE).is_file():
        tensors = model_tensors(load_model(folder)[0])
    elif (folder / MODEL_FILE).is_file():
        tensors = read_tensors(folder / MODEL_FILE)
    else:
        raise UserError(f"{source} is neither a run nor a folder of weights, so there is nothing to start from in it.")
    load_model_tensors(model, tensors, folder)


@torch.no_grad()
def load_average(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put the averaged weights of ema.safetensors into a model."""
    prefix = "average."
    weights = dict(model.named_parameters())
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            weights[name.removeprefix(prefix)].copy_(tensor)
