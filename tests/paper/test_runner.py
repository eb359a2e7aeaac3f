"""`clew reproduce`: everything at smoke scale, what is done is not done again, and a kill costs little."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew.errors import UserError
from clew.files import read_json, write_json
from clew.mazes.generate import generate
from clew.paper import runner
from clew.paper.runner import (
    CORE_SECONDS,
    FINISHED,
    Options,
    collect,
    reproduce,
    runs_of,
    score_run,
    train_run,
    training_curve,
    training_mazes,
)
from clew.paper.studies import STUDIES
from clew.paper.study import RunSpec
from clew.training.callbacks import RunEnd
from clew.training.checkpoint import CHECKPOINTS
from clew.training.config import TrainConfig
from clew.training.distributed import World


def quiet(line: str) -> None:
    pass


def run_study(name: str, options: Options) -> dict[str, Any]:
    assert reproduce([STUDIES[name]], options, log=quiet) == 0
    value: dict[str, Any] = read_json(options.result_file(name))
    return value


def test_all_at_smoke_scale(tmp_path: Path) -> None:
    """Every study, from its trainings to its numbers and its picture."""
    began = time.process_time()  # of this process, so that a busy machine does not count
    assert reproduce(list(STUDIES.values()), Options("smoke", tmp_path), log=quiet) == 0
    assert time.process_time() - began < 150
    for name, study in STUDIES.items():
        value = read_json(tmp_path / "results" / name / "smoke.json")
        assert (tmp_path / "results" / name / "smoke.png").stat().st_size > 5000
        assert (value["study"], value["scale"], value["question"]) == (name, "smoke", study.question)
        assert value["provenance"]["command"] == f"clew reproduce {name} --scale smoke --seeds 1"
        assert {"cpu", "cores", "date", "seeds", "commit", "versions"} <= value["provenance"].keys()
        assert bool(value["found here"]) == (name not in ("failures", "path-lengths"))  # which describe
        assert {each["verdict"] for each in value["found here"]} <= {"inconclusive"}  # two steps are no training
        for run in value["runs"]:
            assert run["steps"] == 2
            assert run["core_minutes"] > 0
            assert (run["device"], run["devices"]) == ("cpu", run["config"]["threads"])
            assert [point["hours"] > 0 for point in run["curve"]] == [True, True]
            trained = run["config"]["data"]["source"] == "dataset"
            assert all(("train-exact" in point) == trained for point in run["curve"])
            assert run["config"]["data"]["folder"] == ""  # no place of this machine
            for scores in run["exams"].values():
                assert 0 <= scores["exact"]["share"] <= 1
                wanted = name in ("failures", "position-precision")  # only they draw wrong answers
                assert all(set(each) == {"class", "maze", "predicted"} for each in scores["examples"])
                assert wanted or not scores["examples"]
        assert bool(value["runs"]) != bool(value["measured"])


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """A study with several evaluations for each of its two trainings, done."""
    options = Options("smoke", tmp_path_factory.mktemp("smoke"))
    run_study("smaller-mazes", options)
    return options


def test_a_second_time_nothing_is_trained_or_scored_again(smoke: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("it was done before")

    monkeypatch.setattr("clew.paper.runner.train", never)
    monkeypatch.setattr("clew.paper.runner.evaluate_tasks", never)
    before = read_json(smoke.result_file("smaller-mazes"))
    assert run_study("smaller-mazes", smoke)["runs"] == before["runs"]


def test_a_missing_evaluation_alone_is_done_again(smoke: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = smoke.run_folder(runs_of(STUDIES["smaller-mazes"], smoke)[0]) / "scores"
    scores = sorted(folder.iterdir())
    assert len(scores) == 4
    scores[0].unlink()
    monkeypatch.delattr("clew.paper.runner.train")
    run_study("smaller-mazes", smoke)
    assert sorted(folder.iterdir()) == scores


def test_a_broken_file_of_scores_is_named(smoke: Options) -> None:
    run = runs_of(STUDIES["smaller-mazes"], smoke)[0]
    file = next(iter((smoke.run_folder(run) / "scores").iterdir()))
    value = read_json(file)
    file.write_text("{")
    with pytest.raises(UserError, match="is not whole JSON"):
        run_study("smaller-mazes", smoke)
    write_json(file, value)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_scores_are_computed_in_the_precision_of_the_run(precision: Any, tmp_path: Path) -> None:
    options = Options("smoke", tmp_path)
    run = runs_of(STUDIES["architectures"], options)[0]
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, precision=precision))
    train_run(run, options)
    score_run(run, options)
    (file,) = (options.run_folder(run) / "scores").iterdir()
    assert read_json(file)["scores"]["precision"] == precision


def test_finished_runs_are_reported_while_others_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second training is stopped by a signal; the first one can be collected."""
    options, study = Options("smoke", tmp_path, seeds=2), STUDIES["architectures"]
    really, ended = runner.train, RunEnd(1, 0.5, "signal", None, signal.SIGTERM)
    trained: list[int] = []

    def stopped(config: TrainConfig, *args: Any, **kwargs: Any) -> Any:
        trained.append(config.seed)
        return really(config, *args, **kwargs) if len(trained) == 1 else SimpleNamespace(end=ended)

    monkeypatch.setattr("clew.paper.runner.train", stopped)
    folder = options.run_folder(runs_of(study, options)[1])
    folder.mkdir(parents=True)
    assert reproduce([study], options, log=quiet) == signal.SIGTERM
    said: list[str] = []
    collect(study, options, said.append)
    value = read_json(options.result_file("architectures"))
    assert [(run["labels"]["architecture"], run["seed"]) for run in value["runs"]] == [("decoder-only", 0)]
    assert value["missing"] == ["encoder-decoder, seed 0", "decoder-only, seed 1", "encoder-decoder, seed 1"]
    assert said[0].startswith("architectures: 3 of 4 runs are not evaluated yet: encoder-decoder, seed 0;")
    # The folder of a run that was trained elsewhere is not here: its entry is kept, while its settings are the same.
    shutil.rmtree(options.run_folder(runs_of(study, options)[0]))
    collect(study, options, quiet)
    assert read_json(options.result_file("architectures"))["runs"] == value["runs"]
    with pytest.raises(UserError, match="no training of architectures"):
        collect(study, dataclasses.replace(options, minutes=0.5), quiet)


def test_smaller_mazes_are_trained_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[tuple[int, int]] = []

    def noted(run: RunSpec, options: Options, world: World | None = None) -> RunEnd:
        order.append((run.config.data.sizes[-1], run.config.seed))
        return RunEnd(1, 0.5, "done", None)

    monkeypatch.setattr("clew.paper.runner.train_run", noted)
    monkeypatch.setattr("clew.paper.runner.score_run", lambda run, options: None)
    monkeypatch.setattr("clew.paper.runner.collect", lambda study, options, log: None)
    reproduce([STUDIES["accuracy-by-size"]], Options("laptop", tmp_path), quiet)
    assert order == [(4, 0), (4, 0), (4, 1), (4, 1), (4, 2), (4, 2), (5, 0), (5, 0), (5, 1), (5, 1), *[(6, 0)] * 3]


def test_studies_share_what_they_have_in_common() -> None:
    options = Options("laptop")
    folders = {name: {options.run_folder(run) for run in runs_of(STUDIES[name], options)} for name in STUDIES}
    assert folders["smaller-mazes"] <= folders["accuracy-by-size"]
    assert folders["failures"] <= folders["accuracy-by-size"] | folders["astar"]
    assert folders["overfitting"] <= folders["data-efficiency"]
    assert folders["convergence"] & folders["accuracy-by-size"] & folders["data-efficiency"]
    assert folders["position-precision"] & folders["position-encodings"] & folders["mask-rates"]
    assert folders["ordered-masks"] & folders["astar"]
    paper = Options("paper", seeds=1)
    folders = {name: {paper.run_folder(run) for run in runs_of(STUDIES[name], paper)} for name in STUDIES}
    assert folders["overfitting"] <= folders["accuracy-by-size"]
    assert folders["convergence"] <= folders["data-efficiency"]


def test_a_run_is_named_after_its_settings_but_not_after_its_machine() -> None:
    options = Options("laptop", Path("root"))
    run = STUDIES["accuracy-by-size"].runs("laptop")[0]

    def folder(**changes: object) -> Path:
        return options.run_folder(dataclasses.replace(run, config=dataclasses.replace(run.config, **changes)))  # type: ignore[arg-type]

    assert folder(threads=2, device="cpu", compile=True, micro_batch=4) == options.run_folder(run)
    assert folder(batch_size=7) != options.run_folder(run)
    assert options.run_folder(run.seeded(1)) != options.run_folder(run)
    assert options.run_folder(dataclasses.replace(run, labels={"other": "words"})) == options.run_folder(run)


def test_datasets_of_other_numbers_of_mazes_have_other_folders(tmp_path: Path) -> None:
    runs = runs_of(STUDIES["data-efficiency"], Options("laptop", tmp_path))
    folders = {(run.config.data.sizes, run.config.data.mazes): run.config.data.folder for run in runs}
    assert len(set(folders.values())) == len(folders) == 4
    paper = runs_of(STUDIES["accuracy-by-size"], Options("paper", tmp_path))
    assert paper[0].config.data.folder == str(tmp_path / "data" / "dfs-5")


def test_the_curve_of_a_training_set_is_that_of_the_mazes_trained_on(tmp_path: Path) -> None:
    options = Options("smoke", tmp_path)
    value = run_study("overfitting", options)
    for run in value["runs"]:
        assert [set(point) >= {"exact", "train-exact", "train-token"} for point in run["curve"]] == [True, True]
    run = runs_of(STUDIES["overfitting"], options)[0]
    mazes = training_mazes(run.config.data, 100)
    assert len(mazes) == run.config.data.mazes == 12
    trained = generate("dfs", 4, 4, seed=0, first=0, count=12, split="train")
    assert (mazes.cells_NHW == trained.cells_NHW).all()


def test_what_the_user_says_of_every_run_reaches_it() -> None:
    for run in runs_of(STUDIES["astar"], Options("laptop", minutes=0.5, threads=2, micro_batch=16)):
        assert run.config.micro_batch == 16
        assert (run.config.budget.minutes, run.config.budget.steps, run.config.threads) == (0.5, None, 2)


def test_a_curve_counts_mazes_between_two_lines_of_metrics(tmp_path: Path) -> None:
    step = '{"kind": "step", "step": %d, "elapsed": 1.0, "loss": 1.0, "mazes": %d}'
    lines = [step % (10, 320), step % (20, 640)]
    lines.insert(1, '{"kind": "evaluation", "step": 15, "elapsed": 90.0, "scores": {"exact": 0.5}}')
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (point,) = training_curve(tmp_path, devices=8)
    assert point == {"step": 15, "mazes": 480, "minutes": 1.5, "hours": 0.2, "exact": 0.5}


def test_a_signal_stops_everything_and_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([RunEnd(2, 1.0, "done", None), RunEnd(1, 0.5, "signal", None, signal.SIGTERM)])
    monkeypatch.setattr("clew.paper.runner.train", lambda *args, **kwargs: SimpleNamespace(end=next(ends)))
    monkeypatch.setattr("clew.paper.runner.score_run", lambda run, options: None)
    options = Options("smoke", tmp_path)
    for run in runs_of(STUDIES["architectures"], options):
        options.run_folder(run).mkdir(parents=True)
    assert reproduce([STUDIES["architectures"]], options, log=quiet) == signal.SIGTERM
    done = [(options.run_folder(run) / FINISHED).exists() for run in runs_of(STUDIES["architectures"], options)]
    assert done == [True, False]
    assert not options.result_file("architectures").exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_stopped_or_killed_it_goes_on_where_it_was(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """The first training is finished, the second is under way when it happens."""
    words = ["reproduce", "architectures", "--scale", "smoke", "--minutes", "0.03", "--root", str(tmp_path)]
    command = [sys.executable, "-m", "clew", *words]
    options = Options("smoke", tmp_path, minutes=0.03)
    first, second = (options.run_folder(run) for run in runs_of(STUDIES["architectures"], options))
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (second / "metrics.jsonl").exists() or not any((second / CHECKPOINTS).glob("*/state.json")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    stderr = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert ("saved and stopped" in stderr) == (number == signal.SIGTERM)
    assert (first / FINISHED).exists()
    assert not (second / FINISHED).exists()
    assert not options.result_file("architectures").exists()

    mark = (first / FINISHED).stat().st_mtime_ns
    assert reproduce([STUDIES["architectures"]], options, log=quiet) == 0
    assert (first / FINISHED).stat().st_mtime_ns == mark
    assert options.result_file("architectures").exists()


def test_processor_time_of_a_stopped_training_is_kept(tmp_path: Path) -> None:
    options = Options("smoke", tmp_path)
    run = runs_of(STUDIES["smaller-mazes"], options)[0]
    assert train_run(run, options).reason == "done"
    folder = options.run_folder(run)
    (folder / FINISHED).unlink()
    write_json(folder / CORE_SECONDS, {"seconds": 6000})
    assert train_run(run, options).reason == "done"
    assert 100 < read_json(folder / FINISHED)["core_minutes"] < 110


def test_two_processes_train_and_score_together(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "clew"]
    words = ["reproduce", "architectures", "--scale", "smoke", "--root", str(tmp_path)]
    done = subprocess.run([*torchrun, *words], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("training 1 of 2") == 1
    assert len(read_json(tmp_path / "results" / "architectures" / "smoke.json")["runs"]) == 2


def test_a_result_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("clew.paper.page.draw_panels", full)
    with pytest.raises(OSError, match="No space"):
        reproduce([STUDIES["path-lengths"]], Options("smoke", tmp_path), log=quiet)
    assert not (tmp_path / "results" / "path-lengths" / "smoke.json").exists()
