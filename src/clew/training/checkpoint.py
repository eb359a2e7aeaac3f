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

import errno
import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from torch import Tensor, nn

from clew.errors import UserError, os_error_sentence, report_error
from clew.files import atomic_write, json_checksum, open_own, read_json, sync_folder, write_json
from clew.models.build import CHECKSUMS, WEIGHTS_FILE, WEIGHTS_JSON, build_trained, read_tensors, read_weights
from clew.training.callbacks import METRICS_FILE, check_metrics, metric_lines
from clew.training.config import TrainConfig
from clew.training.distributed import copy_named, gather, parameter_name, unwrap_model

if sys.platform != "win32":
    import fcntl

CONFIG_FILE = "config.json"
CHECKPOINTS = "checkpoints"
STATE_FILE = "state.json"
MODEL_FILE = WEIGHTS_FILE
_UNFINISHED, _DISCARDED = ".unfinished-", ".discarded-"


def saved_checkpoints(run: str | Path) -> list[Path]:
    """Return the checkpoints of a run, the oldest first."""
    found = [path.parent for path in (Path(run) / CHECKPOINTS).glob(f"*/{STATE_FILE}")]
    return sorted((p for p in found if p.name.isascii() and p.name.isdigit()), key=lambda p: int(p.name))


def latest_checkpoint(run: str | Path) -> Path | None:
    return next(reversed(saved_checkpoints(run)), None)


def write_checkpoint(
    run: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Write NAME.safetensors for each entry of `tensors`, and state.json; return the checkpoint's folder.

    Without tensors the state of the step's checkpoint is replaced.
    """
    final, last = run / CHECKPOINTS / f"{step:08d}", latest_checkpoint(run)
    if not tensors:
        _write_state(final, state, _read_state(final)[1])
        return final
    for name, named in tensors.items():
        for key, tensor in named.items():
            if not torch.isfinite(tensor).all():
                raise UserError(
                    f"{key!r} of the {name} is not finite after step {step}, so no checkpoint was written; the last "
                    f"good one is {last or 'none'}: train from it with a lower --optimizer.lr in a new run."
                )
    temporary = final.with_name(f"{_UNFINISHED}{secrets.token_hex(6)}")
    try:
        temporary.mkdir(parents=True)
        checksums = {}
        for name, named in tensors.items():
            # The bytes first: the library's own writer reports a full disk as an error of its own kind.
            data = safetensors.torch.save({key: tensor.cpu().contiguous() for key, tensor in named.items()})
            checksums[f"{name}.safetensors"] = hashlib.sha256(data).hexdigest()
            with atomic_write(temporary / f"{name}.safetensors", "wb") as file:
                file.write(data)
        _write_state(temporary, state, checksums)
        if final.exists():  # this very step was saved by a run that was then resumed from an older one
            discard(final)
        os.rename(temporary, final)
        sync_folder(final.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        kept = f"the last good one, {last}, is untouched" if last else "there is none before it"
        raise UserError(
            f"the disk is full, so the checkpoint of step {step} could not be written ({kept}); make room and run the "
            "same command again to resume."
        ) from None
    return final


def _write_state(checkpoint: Path, state: Mapping[str, Any], checksums: Mapping[str, str]) -> None:
    checksums = {**checksums, STATE_FILE: json_checksum(state)}
    write_json(checkpoint / STATE_FILE, {**state, CHECKSUMS: checksums})


def discard(checkpoint: Path) -> None:
    """Remove a checkpoint, which at no moment is half there under its own name."""
    discarded = checkpoint.with_name(f"{_DISCARDED}{secrets.token_hex(6)}")
    os.rename(checkpoint, discarded)
    shutil.rmtree(discarded, ignore_errors=True)


def remove_leftovers(run: Path) -> None:
    """Remove what a kill left of a config that was being written, and of checkpoints, written or discarded."""
    for path in run.glob(f".{CONFIG_FILE}.*.tmp"):
        path.unlink()
    for path in (run / CHECKPOINTS).glob(".*"):
        if path.name.startswith((_UNFINISHED, _DISCARDED)):
            shutil.rmtree(path, ignore_errors=True)


def read_state(checkpoint: Path) -> dict[str, Any]:
    return _read_state(checkpoint)[0]


def _read_state(checkpoint: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the state, and the checksums of the other files."""
    path = checkpoint / STATE_FILE
    state = read_json(path)
    if not isinstance(state, dict) or type(state.get("step")) is not int:
        raise UserError(f"{path} is not the state of a run; take another checkpoint.")
    if CHECKSUMS not in state:
        return state, {}
    checksums = state.pop(CHECKSUMS)
    if not isinstance(checksums, dict) or checksums.pop(STATE_FILE, None) != json_checksum(state):
        raise UserError(f"{path} is damaged: its SHA-256 is not the one that was stored when it was written.")
    return state, checksums


def read_checkpoint(checkpoint: Path, *names: str) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Return the state and the named tensors of a checkpoint, by default all it has; UserError if it is damaged."""
    state, checksums = _read_state(checkpoint)
    known = {path.stem for path in [*checkpoint.glob("*.safetensors"), *map(Path, checksums)]}
    files = {name: f"{name}.safetensors" for name in sorted(known) if not names or name in names}
    if not files:
        raise UserError(f"{checkpoint} holds no tensors; take another checkpoint.")
    return state, {name: read_tensors(checkpoint / file, checksums.get(file)) for name, file in files.items()}


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights by name, sharded if the model is; the names are those of the model alone."""
    return {parameter_name(name): tensor for name, tensor in unwrap_model(model).state_dict().items()}


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights by name; sharded ones are gathered, so every process must call this."""
    return gather(named_weights(model))


def load_config(run: str | Path) -> TrainConfig:
    path = Path(run) / CONFIG_FILE
    if not path.is_file():
        raise UserError(f"{run} is not the folder of a run: it has no {CONFIG_FILE}; train one with `clew train`.")
    return TrainConfig.from_json(read_json(path), str(path))


def find_checkpoint(run: str | Path, which: Literal["best", "last"] | int = "best") -> Path:
    """Return a checkpoint of a run: the best on held-out mazes (the last if none was evaluated), the last, or a step's.

    Damaged checkpoints are skipped with a line on stderr; a damaged one that is given by its step is an error.
    """
    if isinstance(which, int):
        saved = {int(path.name): path for path in saved_checkpoints(run)}
        if which not in saved:
            held = ", ".join(map(str, saved)) or "none"
            raise UserError(f"{run} holds no checkpoint of step {which}; it holds {held}.")
        return saved[which]
    last = newest_sound_checkpoint(run, "model", "ema")
    if last is None:
        raise UserError(f"{run} holds no checkpoint yet; let it train for longer.")
    best = read_state(last).get("best")
    step = best.get("step") if isinstance(best, dict) else None
    if which == "last" or type(step) is not int:
        return last
    path = last.with_name(f"{step:08d}")
    try:
        read_checkpoint(path, "model", "ema")
    except (UserError, OSError) as error:
        report_error(f"{_sentence(error)} The checkpoint {last.name} is used instead.")
        return last
    return path


def newest_sound_checkpoint(run: str | Path, *names: str) -> Path | None:
    """Return the newest checkpoint whose named tensors, by default all, can be read; None if the run has none.

    Prints a line if a newer one is damaged; UserError if all are.
    """
    problem = ""
    for path in reversed(saved_checkpoints(run)):
        try:
            read_checkpoint(path, *names)
        except (UserError, OSError) as error:
            problem = problem or _sentence(error)
            continue
        if problem:
            report_error(f"{problem} The checkpoint {path.name} is used instead.")
        return path
    if problem:
        raise UserError(f"{run} has no checkpoint that can be read: {problem}")
    return None


def _sentence(error: UserError | OSError) -> str:
    return os_error_sentence(error) if isinstance(error, OSError) else str(error)


def load_model(
    run: str | Path, which: Literal["best", "last"] | int = "best", ema: bool = True
) -> tuple[nn.Module, TrainConfig]:
    """Return a trained model on the CPU, in eval mode, and its config; the average of its weights if it has one."""
    config = load_config(run)
    checkpoint = find_checkpoint(run, which)
    _, tensors = read_checkpoint(checkpoint, "model", "ema")
    model = build_trained(config.model, tensors.get("model", {}), checkpoint / MODEL_FILE)
    if ema and "ema" in tensors:
        averages = {name.removeprefix("average."): t for name, t in tensors["ema"].items() if name != "updates"}
        copy_named(named_weights(model), model.state_dict() | averages, checkpoint / "ema.safetensors")
    return model.eval(), config


def load_start(model: nn.Module, source: str | Path) -> None:
    """Copy the weights of a run, or of a folder with a model.safetensors, into a fresh model."""
    folder = Path(source)
    if (folder / CONFIG_FILE).is_file():
        tensors = model_tensors(load_model(folder)[0])
    elif (folder / WEIGHTS_JSON).is_file():
        _, tensors = read_weights(folder)
    elif (folder / MODEL_FILE).is_file():
        tensors = read_tensors(folder / MODEL_FILE)
    else:
        raise UserError(f"{source} is neither a run nor a folder of weights, so there is nothing to start from in it.")
    copy_named(named_weights(model), tensors, folder)


Resume = Literal["auto", "never"]

# Fields that a resumed run may change: the length of the run, the machine, and how often it reports.
FREE_FIELDS = (
    *("budget", "evaluate_every", "held_out", "log_every", "checkpoint_every", "keep_last"),
    *("micro_batch", "compile", "device", "parallel", "threads", "timeout_hours"),
)


class RunFolder:
    """The folder of a run, whose files are in the module's docstring."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metrics = self.path / METRICS_FILE

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; give the name of a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        with open_own(self.path / ".lock") as lock:
            if sys.platform != "win32":
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    problem = f"another process is training in {self.path}; wait, or use another --out."
                    raise UserError(problem) from None
            yield

    def begin(self, config: TrainConfig, resume: Resume) -> Path | None:
        """Prepare the folder for a run; return the checkpoint to resume from, or None."""
        remove_leftovers(self.path)
        if (self.path / CONFIG_FILE).exists():
            if resume == "never":
                raise UserError(f"{self.path} already holds a run; use another --out, or --resume auto to resume it.")
            if found := different(load_config(self.path), config):
                raise UserError(
                    f"{self.path} holds a run with other settings ({found}); use another --out, or the same settings."
                )
        elif any(path.name != ".lock" for path in self.path.iterdir()):
            raise UserError(f"{self.path} holds other files; give --out a new or empty folder.")
        checkpoint = newest_sound_checkpoint(self.path)
        write_json(self.path / CONFIG_FILE, config.to_json(), checksum=True)
        step = int(checkpoint.name) if checkpoint else 0
        for path in saved_checkpoints(self.path):
            if int(path.name) > step:  # damaged: kept for inspection, but no longer a checkpoint
                os.replace(path, path.with_name(f"damaged-{path.name}-{secrets.token_hex(3)}"))
        self.cut_metrics(step)
        return checkpoint

    def cut_metrics(self, step: int) -> None:
        """Remove the lines after a step, which the resumed run writes again, and those that cannot be read."""
        lines = metric_lines(self.path)
        kept = [raw for raw, line in lines if line is not None and line["step"] <= step]
        damaged = sum(line is None and raw.endswith(b"\n") for raw, line in lines)  # a kill leaves one without an end
        if damaged:
            report_error(f"{self.metrics} has {damaged} damaged lines, which are left out.")
        else:
            check_metrics(self.path)
        if len(kept) < len(lines):
            with atomic_write(self.metrics, "wb") as file:
                file.writelines(kept)

    def prune(self, keep_last: int, best: int | None) -> None:
        """Remove all checkpoints but the newest few and the best."""
        for path in saved_checkpoints(self.path)[:-keep_last]:
            if int(path.name) != best:
                discard(path)


def different(old: TrainConfig, new: TrainConfig) -> str:
    """Return the first setting in which a resumed run may not differ, in words; empty if there is none."""
    before, after = old.to_json(), new.to_json()
    for name, value in before.items():
        if name in FREE_FIELDS or value == after[name]:
            continue
        if not isinstance(value, dict):
            return f"{name} {value} and not {after[name]}"
        inner = next(key for key in {**value, **after[name]} if value.get(key) != after[name].get(key))
        return f"{name}.{inner} {value.get(inner)} and not {after[name].get(inner)}"
    return ""
