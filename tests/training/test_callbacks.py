"""TensorBoard's files are read back; Weights & Biases is a stand-in with the same calls."""

import sys
import types

import pytest
from tiny_runs import mean_weight, metrics, tiny_config

from clew.errors import UserError
from clew.training import callbacks
from clew.training.callbacks import Logger, LogOptions
from clew.training.config import Budget
from clew.training.train import train


def curve(run, name):
    """(step, value) of a curve, as TensorBoard shows it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return [(each.step, each.value) for each in events.Scalars(name)]


def test_tensorboard_has_the_numbers_of_the_metrics_and_goes_on_after_a_resume(tmp_path):
    options = LogOptions(tensorboard=True)
    train(tiny_config(), tmp_path, evaluate=mean_weight, callbacks=[Logger(options)])
    train(tiny_config(budget=Budget(steps=8)), tmp_path, evaluate=mean_weight, callbacks=[Logger(options)])
    lines = metrics(tmp_path)
    assert [line["step"] for line in lines] == [2, 4, 6, 8]
    for name in ("loss", "lr", "accuracy"):
        expected = [(line["step"], pytest.approx(line[name], rel=1e-5)) for line in lines]
        assert curve(tmp_path, f"train/{name}") == expected
    exact = [
        (line["step"], pytest.approx(line["scores"]["exact"], rel=1e-5)) for line in metrics(tmp_path, "evaluation")
    ]
    assert curve(tmp_path, "held-out/exact") == exact


class FakeWandb(types.ModuleType):
    """The part of wandb that is used."""

    class Error(Exception):
        pass

    def __init__(self, broken=False):
        super().__init__("wandb")
        self.broken, self.runs = broken, []

    def init(self, **options):
        if self.broken:
            raise self.Error("no API key")
        run = types.SimpleNamespace(options=options, logged=[], summary={}, exit_code=None)
        run.log = lambda numbers, step: run.logged.append((step, numbers))
        run.finish = lambda exit_code: setattr(run, "exit_code", exit_code)
        self.runs.append(run)
        return run


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(callbacks, "find_spec", lambda name: object())
    return fake


def test_weights_and_biases_gets_the_numbers_and_one_id_for_all_parts_of_a_run(tmp_path, wandb):
    run = tmp_path / "run"
    options = LogOptions(wandb="offline", project="mazes")
    train(tiny_config(), run, evaluate=mean_weight, callbacks=[Logger(options)])
    train(tiny_config(budget=Budget(steps=8)), run, evaluate=mean_weight, callbacks=[Logger(options)])
    first, second = wandb.runs
    assert first.options["id"] == second.options["id"] == (run / "wandb-id").read_text()
    assert (first.options["mode"], first.options["project"], first.options["name"]) == ("offline", "mazes", "run")
    assert first.options["config"]["batch_size"] == 8
    steps = [(step, numbers["train/loss"]) for step, numbers in first.logged if "train/loss" in numbers]
    assert steps == [(line["step"], pytest.approx(line["loss"])) for line in metrics(run)[:3]]
    assert [step for step, numbers in first.logged if "held-out/exact" in numbers] == [3, 6]
    assert first.exit_code == 0


def test_no_login_gets_one_sentence_and_says_what_works(tmp_path, wandb):
    wandb.broken = True
    with pytest.raises(UserError, match=r"\(no API key\); log in with `wandb login`, or use --log.wandb offline"):
        train(tiny_config(), tmp_path, callbacks=[Logger(LogOptions(wandb="online"))])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (LogOptions(tensorboard=True), r"tensorboard is not installed; run: pip install 'clew\[tensorboard\]'"),
        (LogOptions(wandb="offline"), r"wandb is not installed; run: pip install 'clew\[wandb\]'"),
    ],
)
def test_a_missing_package_is_named_before_the_run_begins(monkeypatch, options, words):
    monkeypatch.setattr(callbacks, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=words):
        Logger(options)
