"""What is seen of a run, on a terminal and in a log."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from tiny_runs import mean_weight, tiny_config

from clew.training import progress as live
from clew.training.callbacks import EvaluationReport, RunStart, StepReport
from clew.training.progress import LiveView, PlainView, Tally, format_duration, picture, sparkline, terminal_view
from clew.training.train import train


@pytest.fixture(autouse=True)
def peak(monkeypatch):
    """A machine of 100 GFLOP/s a process."""
    monkeypatch.setattr(live, "measure_matmul_peak", lambda device, dtype, threads: 100e9)


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [0.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    return now


def start(**changes):
    fields = {
        "config": tiny_config(),
        "run": Path("runs/x"),
        "parameters": 12_345,
        "first_step": 0,
        "total_steps": 1000,
        "elapsed": 0.0,
        "device": "cpu",
        "processes": 1,
    }
    return RunStart(**{**fields, **changes})


def report(step, loss=1.0, **changes):
    fields = {
        "progress": step / 1000,
        "accuracy": 0.5,
        "gradient_norm": 1.0,
        "lr": 1e-3,
        "mazes": 8 * step,
        "elapsed": step / 10,
        "mazes_per_second": 80.0,
        "tokens_per_second": 4000.0,
        "flops_per_second": 37e9,
        "skipped": 0,
    }
    return StepReport(step=step, loss=loss, **{**fields, **changes})


def evaluation(step, exact, best=True):
    return EvaluationReport(step, step / 10, {"exact": exact}, best, seconds=1.0)


def drawn(tally):
    console = Console(file=io.StringIO(), width=100)
    console.print(picture(tally))
    return console.file.getvalue()


def test_everything_is_in_the_picture(clock):
    tally = Tally.of(start())
    assert "12,345 parameters on cpu" in drawn(tally)
    tally.step(report(100))
    clock[0] = 60.0
    tally.step(report(400, loss=1.0))
    for step, exact, best in ((200, 0.25, True), (300, 0.5, True), (400, 0.375, False)):
        tally.evaluate(evaluation(step, exact, best))
    text = drawn(tally)
    for words in (
        "40.0%",
        "step 400 of 1,000",
        "2 min 00 s left",  # 300 steps took 60 seconds, 600 are left
        "loss            1.0000",
        "token accuracy 50.0%",
        "lr 1.00e-03",
        "held-out exact  37.5%",
        "best 50.0% at step 300",
        sparkline([0.25, 0.5, 0.375]),
        "80",
        "37.0 GFLOP/s",
        "37% of peak",
    ):
        assert words in text, words


def test_a_budget_in_minutes_and_several_processes(clock):
    tally = Tally.of(start(total_steps=None, processes=2))
    tally.step(report(400))
    assert "step 400 " in drawn(tally)
    assert " of 1,000" not in drawn(tally)
    assert "parameters on 2 x cpu" in drawn(tally)
    assert tally.share_of_peak == pytest.approx(0.37 / 2)


def test_a_resumed_run_takes_its_speed_from_its_own_steps(clock):
    clock[0] = 1000.0
    tally = Tally.of(start(first_step=500))
    tally.step(report(510))
    assert tally.seconds_left is None
    clock[0] += 10.0
    tally.step(report(520))
    assert tally.seconds_left == pytest.approx(480)


def test_the_smoothed_loss_is_an_average():
    tally = Tally.of(start())
    tally.step(report(10, loss=4.0))
    assert tally.loss == pytest.approx(4.0)
    tally.step(report(20, loss=2.0))
    assert tally.loss == pytest.approx((0.8 * 4 + 2) / 1.8)
    for step in range(30, 2000, 10):
        tally.step(report(step, loss=2.0))
    assert tally.loss == pytest.approx(2.0)


def test_a_log_gets_a_line_every_few_seconds():
    out = io.StringIO()
    view = PlainView(every=10.0, out=out)
    view.on_start(start())
    for step in range(10, 410, 10):  # a second each
        view.on_step(report(step))
    view.on_evaluate(evaluation(400, 0.5))
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines[1:-1]] == ["10", "110", "210", "310"]
    assert "loss 1.0000" in lines[2]
    assert "80 mazes/s  37% of peak" in lines[2]
    assert lines[2].endswith("left")
    assert "held out:  exact 0.5000  (best)" in lines[-1]


def test_the_view_fits_where_it_goes(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(terminal_view(io.StringIO()), PlainView)
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    assert isinstance(terminal_view(terminal), LiveView)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(terminal_view(terminal), PlainView)


def test_a_real_run_is_shown_and_the_terminal_left_in_order(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    train(tiny_config(), tmp_path, evaluate=mean_weight, callbacks=[LiveView(console)])
    text = console.file.getvalue()
    assert "step 6 of 6" in text
    assert "held-out exact" in text
    assert "done after 6 steps" in text
    # The cursor is hidden while the view is drawn, and shown in the end.
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_sparks_and_times():
    assert sparkline([-1.0, 0.0, 0.5, 1.0, 9.0]) == "▁▁▅██"
    assert len(sparkline([0.5] * 100)) == live.SPARK_WIDTH
    assert [format_duration(s) for s in (0.4, 59.6, 3599, 7620, 273_600)] == [
        "0 s",
        "1 min 00 s",
        "59 min 59 s",
        "2 h 07 min",
        "3 d 04 h",
    ]
