"""The terminal display of a run, and the log lines where there is no terminal."""

import io
from pathlib import Path

from tiny_runs import mean_weight, tiny_config

from clew.errors import printable
from clew.training.callbacks import EvaluationReport, ProgressDisplay, RunEnd, RunStart, StepReport, format_duration
from clew.training.train import train


def start(**changes):
    fields = {
        "config": tiny_config(),
        "run": Path("runs/x"),
        "parameters": 12_345,
        "first_step": 0,
        "total_steps": 1000,
        "device": "cpu",
        "processes": 1,
    }
    return RunStart(**{**fields, **changes})


def report(step, **changes):
    fields = {
        "progress": step / 1000,
        "loss": 1.0,
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
    return StepReport(step=step, **{**fields, **changes})


def lines(*events, **changes):
    """The lines that a log gets for a start and these reports."""
    out = io.StringIO()
    display = ProgressDisplay(out, every=10.0)
    display.on_start(start(**changes))
    for event in events:
        display.on_step(event) if isinstance(event, StepReport) else display.on_evaluate(event)
    return out.getvalue().splitlines()


def test_a_log_gets_a_line_every_few_seconds():
    evaluation = EvaluationReport(400, 40.0, {"exact": 0.5, "token": 0.75}, best=True, seconds=1.0)
    found = lines(*(report(step) for step in range(10, 410, 10)), evaluation)
    assert found[0] == "runs/x begins: 12,345 parameters on cpu"
    assert [line.split()[1] for line in found[1:-1]] == ["10", "110", "210", "310"]
    expected = "step     110 of 1,000  11.0%  loss 1.0000  token accuracy 0.500  lr 1.00e-03  80 mazes/s  37.0 GFLOP/s"
    assert found[2].startswith(expected)
    assert found[-1] == "step     400 held out:  exact 0.5000  token 0.7500  (best)"


def test_the_last_step_is_always_shown():
    assert [line.split()[1] for line in lines(report(990), report(1000))[1:]] == ["990", "1,000"]


def test_the_remaining_time_is_that_of_training():
    out = io.StringIO()
    display = ProgressDisplay(out, every=0)
    display.on_start(start(first_step=500))
    display.on_step(report(600, elapsed=720.0))
    begun, line = out.getvalue().splitlines()
    assert "resumes after step 500" in begun
    assert line.endswith("8 min 00 s left")  # 600 steps took 720 seconds, 400 are left


def test_a_budget_in_minutes_and_several_processes():
    begun, line = lines(report(400), total_steps=None, processes=2)
    assert begun.endswith("parameters on 2 x cpu")
    assert line.startswith("step     400  40.0%  loss")


def test_a_line_is_redrawn_on_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    train(tiny_config(), tmp_path, evaluate=mean_weight, callbacks=[ProgressDisplay(terminal)])
    text = terminal.getvalue()
    assert "step       6 of 6 100.0%" in text
    assert "held out:  exact" in text
    assert text.endswith("\r\x1b[Kdone after 6 steps and 0 s of training\n")


def test_a_dumb_terminal_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    display = ProgressDisplay(terminal)
    display.on_start(start())
    display.on_step(report(10))
    display.on_end(RunEnd(10, 1.0, "done", None))
    assert "\x1b" not in terminal.getvalue()
    assert len(terminal.getvalue().splitlines()) == 3


def test_a_name_cannot_send_commands_to_the_terminal():
    assert printable("runs/\x1b[2Jx\u202e\n") == "runs/\\x1b[2Jx\\u202e\\n"
    assert printable("runs/größe 迷路") == "runs/größe 迷路"
    assert "\x1b" not in "".join(lines(run=Path("a\x1b[31mb")))


def test_durations():
    assert [format_duration(s) for s in (0.4, 59.6, 3599, 7620, 273_600)] == [
        "0 s",
        "1 min 00 s",
        "59 min 59 s",
        "2 h 07 min",
        "3 d 04 h",
    ]
