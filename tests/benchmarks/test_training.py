"""The benchmark measures what it says; its numbers depend on the machine and are not tested."""

import sys
import time
from pathlib import Path

import peak
import pytest
import torch
import training

from clew.errors import UserError
from clew.files import read_json


@pytest.fixture
def small(monkeypatch):
    """A benchmark of a moment."""
    monkeypatch.setattr(training, "SIDE", 4)
    monkeypatch.setattr(training, "MODEL_SIZE", "tiny")
    monkeypatch.setattr(peak, "SECONDS", 0.02)


def test_everything_is_measured(small, capsys, tmp_path, monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", ["benchmarks/training.py", "--batches", "3"])
    training.main(batches=3, batch_size=4, out=tmp_path / "x.json")
    printed = capsys.readouterr()
    report = read_json(tmp_path / "x.json")
    naive, fast = report["naive"], report["fast"]
    assert len(naive["seconds"]) == len(fast["seconds"]) == 3
    assert naive["median_seconds"] == sorted(naive["seconds"])[1]
    ratios = [a / b for a, b in zip(naive["seconds"], fast["seconds"], strict=True)]
    assert report["ratio"] == pytest.approx(sorted(ratios)[1])
    assert fast["mazes_per_second"] == pytest.approx(4 / fast["median_seconds"])
    assert fast["share_of_peak"] == pytest.approx(fast["gigaflops"] / report["peak_gigaflops"])
    # The same useful work in both, whatever they do besides.
    work = [form["gigaflops"] * form["median_seconds"] for form in (naive, fast)]
    assert work[0] == pytest.approx(work[1])
    assert report["largest_loss_difference"] <= report["loss_tolerance"] == 1e-5
    assert report["losses_naive"] == pytest.approx(report["losses_fast"], abs=1e-5)
    assert len(set(report["losses_fast"])) == 3
    assert report["provenance"]["command"] == "python benchmarks/training.py --batches 3"
    assert "measuring: batch 3 of 3" in printed.err
    assert "times as fast (target 1.7)" in printed.out
    assert "the losses differ by" in printed.out
    assert torch.get_num_threads() == before


def test_several_threads_go_by_the_wall_clock(small, monkeypatch):
    clocks = []
    monkeypatch.setattr(training, "forward_backward", lambda *args: clocks.append(args[-1]) or (1.0, 0.5))
    reports = [training.measure(1, 2, threads) for threads in (1, 2)]
    assert [report["clock"] for report in reports] == ["cpu", "wall"]
    assert clocks[2:4] == [time.process_time] * 2
    assert clocks[6:] == [time.perf_counter] * 2


def test_each_form_is_asked_for_and_they_take_turns(small, monkeypatch):
    calls = []

    def record(model, batch, targets, naive, clock):
        assert clock in (time.process_time, time.perf_counter)
        calls.append(naive)
        return (3.0 if naive else 1.0), 0.5

    monkeypatch.setattr(training, "forward_backward", record)
    report = training.measure(2, 4, 1)
    assert calls[2:] == [True, False, False, True]
    assert report["ratio"] == 3.0


def test_the_naive_form_is_naive(small, monkeypatch):
    """The two times are those of the two ways through the model."""
    from clew.models.transformers import EncoderDecoder

    ways = []
    forward = EncoderDecoder.forward
    monkeypatch.setattr(EncoderDecoder, "forward", lambda self, *args: ways.append(self.naive) or forward(self, *args))
    training.measure(2, 2, 1)
    assert sorted(ways) == [False] * 3 + [True] * 3  # two batches and the first small one in each form


@pytest.mark.parametrize("option", ["batches", "batch_size", "threads"])
def test_bad_options_get_one_sentence(option):
    with pytest.raises(UserError, match="must each be 1 or more"):
        training.main(**{option: 0})


def test_the_page_on_models_quotes_the_measured_numbers():
    root = Path(__file__).parents[2]
    report = read_json(root / "results" / "training-speed.json")
    naive, fast = (report[form]["share_of_peak"] for form in ("naive", "fast"))
    sentence = f"the fast form is {report['ratio']:.2f} times as fast, at {fast:.0%} of the float32 peak of one core"
    sentence = f"{sentence} instead of {naive:.0%}, and the losses differ by less than 1e-6".replace("%", " %")
    assert sentence in " ".join((root / "docs" / "models.md").read_text().split())
    assert report["threads"] == 1
    assert report["largest_loss_difference"] < 1e-6
    assert report["ratio"] >= report["target"] == 1.7
