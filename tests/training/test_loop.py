"""The loop: budgets, reports, resuming, evaluation, precision, and that nothing bad is ever stepped."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import assert_same, last_tensors, losses, mean_weight, metrics, next_token_config, tiny_config

from clew.data.config import DataConfig
from clew.data.loader import make_dataset
from clew.errors import UserError
from clew.models.build import build_model
from clew.models.config import EncoderDecoderConfig
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.training import train as loop
from clew.training.callbacks import Callback, EvaluationReport, RunEnd, RunStart, StepReport
from clew.training.checkpoint import find_checkpoint, latest_checkpoint, load_config, load_model, read_state
from clew.training.config import Budget, OptimizerConfig, TrainConfig
from clew.training.optimizers import Optimizer
from clew.training.train import train


class Listener(Callback):
    """Record the reports, and call a function at a step."""

    def __init__(self, at_step: Any = None) -> None:
        self.heard: list[Any] = []
        self.at_step = at_step

    def on_start(self, start: RunStart) -> None:
        self.heard.append(start)

    def on_step(self, report: StepReport) -> None:
        self.heard.append(report)
        if self.at_step is not None:
            self.at_step(report.step)

    def on_evaluate(self, report: EvaluationReport) -> None:
        self.heard.append(report)

    def on_checkpoint(self, step: int, path: Path) -> None:
        self.heard.append((step, path))

    def on_end(self, end: RunEnd) -> None:
        self.heard.append(end)


def test_what_is_no_callback_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="derive it from"):
        train(tiny_config(), tmp_path / "run", callbacks=[object()])  # type: ignore[list-item]
    assert not (tmp_path / "run").exists()


def test_a_run_leaves_config_metrics_and_checkpoints(tmp_path: Path) -> None:
    config, listener = tiny_config(), Listener()
    end = train(config, tmp_path / "run", evaluate=mean_weight, callbacks=[listener]).end
    run = tmp_path / "run"
    assert load_config(run) == config
    assert [line["step"] for line in metrics(run)] == [2, 4, 6]
    assert [line["step"] for line in metrics(run, "evaluation")] == [3, 6]
    assert sorted(os.listdir(run / "checkpoints")) == ["00000003", "00000006"]
    assert (end.step, end.reason, end.checkpoint) == (6, "done", run / "checkpoints" / "00000006")
    assert [type(x).__name__ for x in listener.heard] == [
        *("RunStart", "StepReport", "EvaluationReport", "tuple", "StepReport", "StepReport"),
        *("EvaluationReport", "tuple", "RunEnd"),
    ]
    last = listener.heard[5]
    assert (last.mazes, last.progress) == (48, 1.0)
    assert last.mazes_per_second > 0
    assert last.flops_per_second > 1e6


def test_the_loss_falls(tmp_path: Path) -> None:
    train(tiny_config(budget=Budget(steps=30)), tmp_path)
    found = losses(tmp_path)
    assert found[-1] < found[0] - 0.2


@pytest.mark.parametrize(
    "config",
    [
        tiny_config(ema=0.9, optimizer=OptimizerConfig("muon")),
        next_token_config(micro_batch=3),
        tiny_config(objective=ObjectiveConfig("mlm-u", RateConfig("adaptive", adaptive_bins=3)), log_every=4),
        tiny_config(precision="fp16"),
    ],
    ids=["ema-muon", "next-token", "adaptive", "fp16"],
)
def test_a_stopped_and_resumed_run_ends_as_if_it_had_not_been(config: TrainConfig, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(config, whole, evaluate=mean_weight)
    assert _stopped_after(1, config, parts) == 1  # before the first line of metrics
    assert _stopped_after(3, config, parts) == 3  # between two lines
    assert _stopped_after(4, config, parts) == 4
    end = train(config, parts, evaluate=mean_weight).end
    assert (end.reason, end.step) == ("done", 6)
    assert_same(last_tensors(whole), last_tensors(parts))
    assert losses(whole) == losses(parts)
    assert _evaluations(whole) == _evaluations(parts)
    assert _timeless_state(whole) == _timeless_state(parts)


@pytest.mark.parametrize("step", [3, 6])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_a_signal_in_an_evaluation_stops_it_and_the_resumed_run_evaluates_again(
    tmp_path: Path, step: int, number: int
) -> None:
    """The evaluation in the middle, and the last one."""
    config, whole, parts = tiny_config(ema=0.9), tmp_path / "whole", tmp_path / "parts"
    train(config, whole, evaluate=mean_weight)
    expected = _evaluations(whole)

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        if len(_evaluations(parts)) + 1 < step // 3:
            return mean_weight(model)
        os.kill(os.getpid(), number)
        return {}

    end = train(config, parts, evaluate=evaluate).end
    assert (end.reason, end.signal, end.step) == ("signal", number, step)
    assert _evaluations(parts) == expected[: step // 3 - 1]
    assert train(config, parts, evaluate=mean_weight).end.reason == "done"
    assert_same(last_tensors(whole), last_tensors(parts))
    assert (losses(whole), expected) == (losses(parts), _evaluations(parts))
    assert _timeless_state(whole) == _timeless_state(parts)


def _stopped_after(step: int, config: TrainConfig, run: Path) -> int:
    """Go on with a run and send it a signal while it does a step; how far it came."""
    with pytest.MonkeyPatch.context() as patch:
        real = loop.Trainer.run_step

        def step_and_signal(self: loop.Trainer, batch: Any) -> None:
            real(self, batch)
            if self.step == step:
                os.kill(os.getpid(), signal.SIGTERM)

        patch.setattr(loop.Trainer, "run_step", step_and_signal)
        end = train(config, run, evaluate=mean_weight).end
    assert (end.reason, end.signal) == ("signal", signal.SIGTERM)
    return end.step


def _evaluations(run: Path) -> list[dict[str, float]]:
    return [line["scores"] for line in metrics(run, "evaluation")]


def _timeless_state(run: Path) -> dict[str, Any]:
    """The last checkpoint's state, without times."""
    state = read_state(find_checkpoint(run, "last"))
    # Lines of metrics.jsonl hold times, so its checksum differs too.
    return {**state, "seconds": 0, "window": {**state["window"], "begun": 0}, "metrics": None, "sha256": None}


def test_a_run_that_is_done_stays_as_it_is(tmp_path: Path) -> None:
    train(tiny_config(), tmp_path, evaluate=mean_weight)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    end = train(tiny_config(), tmp_path, evaluate=mean_weight).end
    assert (end.step, end.reason) == (6, "done")
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_run_can_be_made_longer(tmp_path: Path) -> None:
    train(tiny_config(), tmp_path)
    assert train(tiny_config(budget=Budget(steps=8)), tmp_path).end.step == 8
    assert [line["step"] for line in metrics(tmp_path)] == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 1}, r"other settings \(seed 0 and not 1\)"),
        ({"optimizer": OptimizerConfig(lr=0.5)}, r"optimizer.lr 0.001 and not 0.5"),
        (
            {"model": EncoderDecoderConfig(128, 32, 2, encoder_depth=1, decoder_depth=1)},
            r"model.width 16 and not 32",
        ),
    ],
)
def test_another_run_is_not_gone_on_with(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    train(tiny_config(budget=Budget(steps=1)), tmp_path)
    with pytest.raises(UserError, match=words):
        train(tiny_config(**changes), tmp_path)


def test_never_resume_means_never(tmp_path: Path) -> None:
    train(tiny_config(budget=Budget(steps=1)), tmp_path)
    with pytest.raises(UserError, match="already holds a run"):
        train(tiny_config(), tmp_path, resume="never")


def test_micro_batches_change_nothing(tmp_path: Path) -> None:
    train(tiny_config(), tmp_path / "whole")
    train(tiny_config(micro_batch=3), tmp_path / "parts")
    whole, parts = last_tensors(tmp_path / "whole"), last_tensors(tmp_path / "parts")
    for name in whole:
        assert torch.allclose(whole[name], parts[name], atol=2e-6), name


@pytest.mark.parametrize(("micro_batch", "rows", "todo"), [(None, 8, "4"), (5, 5, "2"), (1, 1, None)])
def test_a_step_that_does_not_fit_into_memory_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, micro_batch: int | None, rows: int, todo: str | None
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(loop.Trainer, "compute_gradient", full)
    what = f"use --micro-batch {todo}," if todo else "use smaller mazes"
    with pytest.raises(UserError, match=f"step 0 ran out of memory with {rows} mazes in one .* pass; {what}"):
        train(tiny_config(micro_batch=micro_batch), tmp_path)


def test_batches_that_no_machine_holds_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"batches of 1,000,000,000 mazes take about [\d,]+ GB .* smaller --batch-size"):
        train(tiny_config(batch_size=1_000_000_000), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_epochs_show_every_maze_as_often(tmp_path: Path) -> None:
    data = DataConfig("dataset", sizes=(3,), folder=str(tmp_path / "data"), mazes=20)
    make_dataset(data)
    end = train(tiny_config(data=data, budget=Budget(epochs=2)), tmp_path / "run").end
    assert end.step == 6  # 20 mazes in batches of at most 8
    assert metrics(tmp_path / "run")[-1]["mazes"] == 40


def test_minutes_are_those_of_training_and_are_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 100_000))
    monkeypatch.setattr("clew.training.train.now", lambda: float(next(seconds)))
    config = tiny_config(budget=Budget(minutes=0.5), log_every=1)

    def slow(model: torch.nn.Module) -> dict[str, float]:
        for _ in range(1000):
            next(seconds)
        return {"exact": 0.0}

    stop = Listener(lambda step: os.kill(os.getpid(), signal.SIGTERM) if step == 3 else None)
    first = train(config, tmp_path, evaluate=slow, callbacks=[stop]).end
    assert 0 < first.elapsed < 30
    end = train(config, tmp_path, evaluate=slow).end
    lines = metrics(tmp_path)
    assert 30 <= end.elapsed < 40
    assert lines[2]["elapsed"] == first.elapsed < lines[3]["elapsed"]
    # The schedule follows the time: it rises, then falls to nearly its end.
    assert lines[-1]["lr"] < 0.2 * max(line["lr"] for line in lines)


def test_the_best_checkpoint_is_kept_beside_the_last(tmp_path: Path) -> None:
    exact = iter([0.1, 0.9, 0.3, 0.2, 0.2, 0.2])
    config = tiny_config(evaluate_every=1, checkpoint_every=5, keep_last=1)
    train(config, tmp_path, evaluate=lambda model: {"exact": next(exact)})
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["00000002", "00000006"]
    assert find_checkpoint(tmp_path, "best").name == "00000002"
    assert find_checkpoint(tmp_path, "last").name == "00000006"
    assert find_checkpoint(tmp_path, 6).name == "00000006"
    with pytest.raises(UserError, match="no checkpoint of step 4; it holds 2, 6"):
        find_checkpoint(tmp_path, 4)


def test_of_equally_good_checkpoints_the_later_is_the_best(tmp_path: Path) -> None:
    exact = iter([0.9, 1.0, 1.0, 1.0, 1.0, 0.2])
    train(tiny_config(evaluate_every=1, keep_last=1), tmp_path, evaluate=lambda model: {"exact": next(exact)})
    assert find_checkpoint(tmp_path, "best").name == "00000005"


def test_an_evaluation_after_the_last_checkpoint_is_saved_too(tmp_path: Path) -> None:
    exact = iter([0.1, 0.2])
    train(tiny_config(evaluate_every=4, checkpoint_every=3), tmp_path, evaluate=lambda model: {"exact": next(exact)})
    state = read_state(find_checkpoint(tmp_path, "last"))
    assert (state["best"], state["evaluated_step"]) == ({"step": 6, "exact": 0.2}, 6)
    assert find_checkpoint(tmp_path, "best").name == "00000006"
    # Nothing is evaluated twice: the iterator is used up.
    train(tiny_config(evaluate_every=4, checkpoint_every=3), tmp_path, evaluate=lambda model: {"exact": next(exact)})


def test_scores_without_exact_have_no_best(tmp_path: Path) -> None:
    train(tiny_config(), tmp_path, evaluate=lambda model: {"loss": 1.0})
    assert read_state(find_checkpoint(tmp_path, "best"))["best"] is None


def test_the_average_is_evaluated_and_loaded_and_training_does_not_notice(tmp_path: Path) -> None:
    seen: list[dict[str, torch.Tensor]] = []

    def look(model: torch.nn.Module) -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append({name: p.clone() for name, p in model.named_parameters()})
        return {"exact": 0.0}

    train(tiny_config(ema=0.9), tmp_path / "looked", evaluate=look)
    train(tiny_config(ema=0.9), tmp_path / "alone")
    assert_same(last_tensors(tmp_path / "looked"), last_tensors(tmp_path / "alone"))
    model, config = load_model(tmp_path / "looked", "last")
    assert config == tiny_config(ema=0.9)
    assert_same(dict(model.named_parameters()), seen[-1])
    assert not torch.equal(last_tensors(tmp_path / "alone")["model:head_bias"], model.head_bias)  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_is_close_and_keeps_weights_in_float32(tmp_path: Path, precision: Any) -> None:
    train(tiny_config(), tmp_path / "fp32")
    train(tiny_config(precision=precision), tmp_path / precision)
    assert losses(tmp_path / precision) != losses(tmp_path / "fp32")
    assert losses(tmp_path / precision) == pytest.approx(losses(tmp_path / "fp32"), abs=0.02)
    full, mixed = last_tensors(tmp_path / "fp32"), last_tensors(tmp_path / precision)
    assert {tensor.dtype for tensor in mixed.values()} == {torch.float32}
    # AdamW does not notice a gradient of another scale, but its averages of the gradients do.
    momentum = "optimizer:exp_avg.embedding.weight"
    assert float(mixed[momentum].norm()) == pytest.approx(float(full[momentum].norm()), rel=0.05)


def test_an_overflow_in_float16_leaves_the_step_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    norms, real = iter([math.inf, math.inf]), torch.nn.utils.get_total_norm
    monkeypatch.setattr(torch.nn.utils, "get_total_norm", lambda tensors: next(norms, None) or real(tensors))
    train(tiny_config(precision="fp16", budget=Budget(steps=4), log_every=2), tmp_path)
    assert [line["skipped"] for line in metrics(tmp_path)] == [2, 0]
    state = read_state(find_checkpoint(tmp_path, "last"))
    assert state["loss_scale"] == {"value": 2.0**14, "good_steps": 2}
    assert int(last_tensors(tmp_path)["optimizer:step.head_bias"]) == 2


@pytest.mark.parametrize(
    ("loss", "norm", "words"),
    [
        (math.nan, 1.0, "the loss is nan at step 4"),
        (2.0, math.inf, "the norm of the gradient is inf at step 4"),
    ],
)
def test_a_bad_step_stops_the_run_before_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: float, norm: float, words: str
) -> None:
    real, real_norm, real_step = loop.Trainer.compute_gradient, torch.nn.utils.get_total_norm, Optimizer.step
    calls, stepped = [], []

    def bad(self: loop.Trainer, local: loop.LocalBatch) -> dict[str, float]:
        calls.append(1)
        sums = real(self, local)
        return sums | {"loss": loss, "weight": 1.0} if len(calls) == 5 else sums

    monkeypatch.setattr(loop.Trainer, "compute_gradient", bad)
    monkeypatch.setattr(torch.nn.utils, "get_total_norm", lambda g: norm if len(calls) == 5 else real_norm(g))
    monkeypatch.setattr(Optimizer, "step", lambda self: stepped.append(1) or real_step(self))
    listener = Listener()
    with pytest.raises(UserError, match=words) as raised:
        train(tiny_config(seed=5), tmp_path, callbacks=[listener])
    assert len(stepped) == 4
    message = str(raised.value)
    assert "seed 5, data seed 0, first mazes 32, 33" in message
    assert str(latest_checkpoint(tmp_path)) in message
    assert str(latest_checkpoint(tmp_path)).endswith("00000003")
    assert listener.heard[-1].reason == "failed"


def test_a_true_nan_in_the_weights_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(config: Any, seed: int) -> torch.nn.Module:
        model = build_model(config, seed)
        with torch.no_grad():
            next(model.parameters())[:] = math.nan
        return model

    monkeypatch.setattr(loop, "build_model", broken)
    with pytest.raises(UserError, match="the loss is nan at step 0"):
        train(tiny_config(), tmp_path)


def test_compile_is_a_choice_that_keeps_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: called.append(type(self).__name__))
    train(tiny_config(compile=True, budget=Budget(steps=1)), tmp_path)
    assert called == ["EncoderDecoder"]
