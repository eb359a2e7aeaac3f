"""Run folders, and checkpoints: safetensors and one JSON, written wholly or not at all, with checksums.

    config.json                                  fully resolved: all that is needed to run it again
    metrics.jsonl                                a line for every few steps and for every evaluation
    checkpoints/00001000/model.safetensors       the weights by name
                         optimizer.safetensors   its state by parameter name
                         ema.safetensors         the average of the weights, if the run keeps one
                         state.json              step, seconds, ..., and the SHA-256 of each file

    model, config = load_model("runs/x", which="best")

A checkpoint is written under another name, flushed to the disk and then renamed, so a kill or a full disk leaves the
older ones as they were. Nothing in it depends on the number of processes. Those without checksums are read unchecked.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from torch import Tensor, nn

from clew.errors import UserError, os_error_sentence, report_error
from clew.files import atomic_write, json_checksum, open_own, read_json, sync_folder, write_json
from clew.models import build
from clew.models.build import CHECKSUMS, WEIGHTS_FILE, WEIGHTS_JSON, read_tensors
from clew.training.callbacks import cut_metrics
from clew.training.config import TrainConfig

if sys.platform != "win32":
    import fcntl

CONFIG_FILE, CHECKPOINTS, STATE_FILE = "config.json", "checkpoints", "state.json"
Resume = Literal["auto", "never"]
Tensors = Mapping[str, Tensor]
# Fields that a resumed run may change: the length of the run, how often it reports, and the machine.
FREE_FIELDS = {"budget", "evaluate_every", "held_out", "log_every", "checkpoint_every", "keep_last"}
FREE_FIELDS |= {"micro_batch", "compile", "device", "parallel", "threads", "timeout_hours"}


def saved_checkpoints(run: str | Path) -> dict[int, Path]:
    """Return the checkpoints of a run by step, the oldest first."""
    found = [path.parent for path in (Path(run) / CHECKPOINTS).glob(f"*/{STATE_FILE}")]
    return dict(sorted((int(p.name), p) for p in found if p.name.isascii() and p.name.isdigit()))


def latest_checkpoint(run: str | Path) -> Path | None:
    return next(reversed(saved_checkpoints(run).values()), None)


def write_checkpoint(run: Path, step: int, tensors: Mapping[str, Tensors], state: Mapping[str, Any]) -> Path:
    """Write NAME.safetensors for each entry of `tensors`, and state.json; return the folder.

    If the step has a checkpoint, its state is replaced: an evaluation came after it.
    """
    final = run / CHECKPOINTS / f"{step:08d}"
    if final.exists():
        _write_state(final, state, read_state(final).get(CHECKSUMS, {}))
        return final
    for name, named in tensors.items():
        if odd := [key for key, tensor in named.items() if not torch.isfinite(tensor).all()]:
            raise UserError(
                f"{odd[0]!r} of the {name} is not finite after step {step}, so nothing was written; the last good "
                f"checkpoint is {latest_checkpoint(run) or 'none'}: train from it with a lower --optimizer.lr."
            )
    temporary, checksums = final.with_name(f".{secrets.token_hex(6)}"), {}
    try:
        temporary.mkdir(parents=True)
        for name, named in tensors.items():
            # The bytes first: the library's own writer reports a full disk as an error of its own kind.
            data = safetensors.torch.save({key: tensor.cpu().contiguous() for key, tensor in named.items()})
            checksums[f"{name}.safetensors"] = hashlib.sha256(data).hexdigest()
            with atomic_write(temporary / f"{name}.safetensors", "wb") as file:
                file.write(data)
        _write_state(temporary, state, checksums)
        os.rename(temporary, final)
        sync_folder(final.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        error.filename, error.filename2 = str(final), None
        raise
    return final


def _write_state(checkpoint: Path, state: Mapping[str, Any], checksums: Mapping[str, str]) -> None:
    write_json(checkpoint / STATE_FILE, {**state, CHECKSUMS: {**checksums, STATE_FILE: json_checksum(state)}})


def prune(run: Path, keep_last: int, best: int | None) -> None:
    """Remove all checkpoints but the newest few and the best; at no moment is one half there under its own name."""
    for step, path in list(saved_checkpoints(run).items())[:-keep_last]:
        if step != best:
            hidden = path.with_name(f".{secrets.token_hex(6)}")
            os.rename(path, hidden)
            shutil.rmtree(hidden, ignore_errors=True)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Return the state, with the checksums of all files; UserError if it is damaged."""
    path = checkpoint / STATE_FILE
    state = read_json(path)
    if not isinstance(state, dict) or type(state.get("step")) is not int:
        raise UserError(f"{path} is not the state of a run; take another checkpoint.")
    own = json_checksum({name: value for name, value in state.items() if name != CHECKSUMS})
    checksums = state.get(CHECKSUMS, {STATE_FILE: own})
    if not isinstance(checksums, dict) or checksums.get(STATE_FILE) != own:
        raise UserError(f"{path} is damaged: its SHA-256 is not the one that was stored when it was written.")
    return state


def read_checkpoint(checkpoint: Path, *names: str) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Return the state and the named tensors of a checkpoint, by default all it has; UserError if it is damaged."""
    state = read_state(checkpoint)
    checksums = state.get(CHECKSUMS, {})
    files = {*checksums, *(path.name for path in checkpoint.glob("*.safetensors"))} - {STATE_FILE}
    if not files:
        raise UserError(f"{checkpoint} holds no tensors; take another checkpoint.")
    wanted = [file for file in sorted(files) if not names or Path(file).stem in names]
    return state, {Path(file).stem: read_tensors(checkpoint / file, checksums.get(file)) for file in wanted}


def first_sound(checkpoints: Iterable[Path], *names: str) -> Path | None:
    """Return the first that can be read, with a line if one before it is damaged; UserError if all are damaged."""
    problem = ""
    for path in checkpoints:
        try:
            read_checkpoint(path, *names)
        except (UserError, OSError) as error:
            problem = problem or (os_error_sentence(error) if isinstance(error, OSError) else str(error))
            continue
        if problem:
            report_error(f"{problem} The checkpoint {path.name} is used instead.")
        return path
    if problem:
        raise UserError(f"no checkpoint of the run can be read: {problem}")
    return None


def find_checkpoint(run: str | Path, which: Literal["best", "last"] | int = "best") -> Path:
    """Return a checkpoint of a run: the best on held-out mazes (the last if none was evaluated), the last, or a step's.

    Damaged ones are skipped, but not if one is given by its step.
    """
    saved = saved_checkpoints(run)
    if isinstance(which, int):
        if which not in saved:
            raise UserError(f"{run} holds no checkpoint of step {which}; it holds {', '.join(map(str, saved))}.")
        return saved[which]
    last = first_sound(reversed(saved.values()), "model", "ema")
    if last is None:
        raise UserError(f"{run} holds no checkpoint yet; let it train for longer.")
    match read_state(last):
        case {"best": {"step": int(step)}} if which == "best":
            return first_sound([last.with_name(f"{step:08d}"), last], "model", "ema") or last
    return last


def load_config(run: str | Path) -> TrainConfig:
    path = Path(run) / CONFIG_FILE
    if not path.is_file():
        raise UserError(f"{run} is not the folder of a run: it has no {CONFIG_FILE}; train one with `clew train`.")
    return TrainConfig.from_json(read_json(path), str(path))


def load_model(run: str | Path, which: Literal["best", "last"] | int = "best") -> tuple[nn.Module, TrainConfig]:
    """Return a trained model on the CPU, in eval mode, and its config; the average of its weights if it has one."""
    config, checkpoint = load_config(run), find_checkpoint(run, which)
    _, tensors = read_checkpoint(checkpoint, "model", "ema")
    model = build.build_trained(config.model, tensors.get("model", {}), checkpoint / WEIGHTS_FILE)
    if "ema" in tensors:
        averages = {name.removeprefix("average."): t for name, t in tensors["ema"].items() if name != "updates"}
        copy_named(model.state_dict(), model.state_dict() | averages, checkpoint / "ema.safetensors")
    return model, config


def load_start(model: nn.Module, source: str | Path) -> None:
    """Copy the weights of a run, or of a folder with a model.safetensors, into a fresh model."""
    folder = Path(source)
    if (folder / CONFIG_FILE).is_file():
        tensors = load_model(folder)[0].state_dict()
    elif (folder / WEIGHTS_JSON).is_file():
        _, tensors = build.read_weights(folder)
    else:
        tensors = read_tensors(folder / WEIGHTS_FILE)
    copy_named(model.state_dict(), tensors, folder)


@torch.no_grad()
def copy_named(own: Tensors, tensors: Tensors, where: Path | str) -> None:
    """Copy tensors into those of the same names; UserError if they do not fit."""
    build.check_tensors(own, tensors, where)
    for name, tensor in own.items():
        tensor.copy_(tensors[name])


@contextmanager
def locked_run(run: Path) -> Iterator[None]:
    """Make the folder of a run, and keep other processes from training in it."""
    run.mkdir(parents=True, exist_ok=True)
    with open_own(run / ".lock") as lock:
        if sys.platform != "win32":
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"another process is training in {run}; wait, or use another --out.") from None
        yield


def begin_run(run: Path, config: TrainConfig, resume: Resume) -> Path | None:
    """Prepare the folder of a run; return the checkpoint to resume from, or None."""
    for path in run.glob(f".{CONFIG_FILE}.*.tmp"):  # of a kill while the config was written
        path.unlink()
    for path in (run / CHECKPOINTS).glob(".*"):  # and of one while a checkpoint was written or removed
        shutil.rmtree(path, ignore_errors=True)
    if (run / CONFIG_FILE).exists():
        if resume == "never":
            raise UserError(f"{run} already holds a run; use another --out, or --resume auto to resume it.")
        if found := different(load_config(run).to_json(), config.to_json()):
            raise UserError(f"{run} holds a run with other settings ({found}); use the same, or another --out.")
    elif any(path.name != ".lock" for path in run.iterdir()):
        raise UserError(f"{run} holds other files; give --out a new or empty folder.")
    saved = saved_checkpoints(run)
    checkpoint = first_sound(reversed(saved.values()))
    write_json(run / CONFIG_FILE, config.to_json(), checksum=True)
    last = int(checkpoint.name) if checkpoint else 0
    for step, path in saved.items():
        if step > last:  # damaged: kept for inspection, but no longer a checkpoint
            os.replace(path, path.with_name(f"damaged-{path.name}-{secrets.token_hex(3)}"))
    cut_metrics(run, last)
    return checkpoint


def different(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the first setting in which a resumed run may not differ, in words; empty if there is none."""
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        if name not in FREE_FIELDS and before != after:
            if isinstance(before, dict) and isinstance(after, dict):
                return f"{name}.{different(before, after)}"
            return f"{name} {before} and not {after}"
    return ""
