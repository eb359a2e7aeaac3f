"""The studies: fair pairs at laptop scale, the paper's settings at paper scale, and what can be built runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from clew.data.batch import encode_tasks, text_seeds
from clew.data.loader import make_dataset
from clew.mazes.generate import generate
from clew.models.config import kind_of
from clew.paper.configs import paper
from clew.paper.estimate import needs
from clew.paper.results import MLMU, NEXT, Pivot
from clew.paper.runner import Options, runs_of
from clew.paper.studies import STUDIES
from clew.paper.studies.text import MEMORIZED
from clew.paper.study import RunSpec, Scale, parameters_of, smoke_config
from clew.paper.verdict import JUDGES, Comparison, convergence
from clew.training.config import TrainConfig
from clew.training.train import train

NAMES = [
    *("accuracy-by-size", "astar", "data-efficiency", "convergence", "overfitting", "model-size"),
    *("position-precision", "architectures", "rates-and-decays", "ordered-masks", "smaller-mazes", "failures"),
    *("path-lengths", "path-star", "path-star-variants", "decoders", "mask-rates", "position-encodings"),
    "objective-on-cells",
]
# Studies that set next token against MLM-U in one protocol.
PAIRED = ["accuracy-by-size", "data-efficiency", "convergence", "overfitting", "model-size", "smaller-mazes"]


def test_there_is_a_study_for_each_item_of_the_list() -> None:
    assert list(STUDIES) == NAMES


@pytest.mark.parametrize("scale", ["laptop", "paper"])
@pytest.mark.parametrize("name", NAMES)
def test_labels_of_runs_differ(name: str, scale: Scale) -> None:
    runs = runs_of(STUDIES[name], Options(scale, seeds=1))
    labels = [tuple(run.labels.items()) for run in runs]
    assert len(set(labels)) == len(labels)
    for run in runs:
        assert run.evaluations
        assert len({spec.name for spec in run.evaluations}) == len(run.evaluations)


@pytest.mark.parametrize("name", PAIRED)
def test_both_objectives_have_the_same_mazes_budget_and_parameters(name: str) -> None:
    runs = STUDIES[name].runs("laptop")
    others = {tuple((k, v) for k, v in run.labels.items() if k != "objective") for run in runs}
    for rest in others:
        pair = {run.labels["objective"]: run for run in runs if set(rest) <= set(run.labels.items())}
        mlmu, plain = pair[MLMU], pair[NEXT]
        config = dataclasses.replace(plain.config, objective=mlmu.config.objective, model=mlmu.config.model)
        assert config == mlmu.config
        assert plain.evaluations == mlmu.evaluations
        assert parameters_of(plain.config.model) == pytest.approx(parameters_of(mlmu.config.model), rel=0.02)


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_objectives_on_cells_differ_in_nothing_else(scale: Literal["laptop", "paper"]) -> None:
    by_family: dict[str, list[RunSpec]] = {}
    for run in STUDIES["objective-on-cells"].runs(scale):
        by_family.setdefault(run.labels["family"], []).append(run)
    assert set(by_family) == {"DFS", "A*"}
    for same in by_family.values():
        objectives = [(run.config.objective.name, run.config.objective.rates.fully_hidden) for run in same]
        assert objectives == [("next-token", 0), ("mlm-u", 0), ("mlm-u", 0.9)]
        assert len({dataclasses.replace(run.config, objective=same[0].config.objective) for run in same}) == 1
        assert len({run.evaluations for run in same}) == 1


def test_seeds_change_the_chance_but_not_what_is_scored() -> None:
    runs = runs_of(STUDIES["objective-on-cells"], Options("laptop", seeds=2))
    runs = [run for run in runs if run.seeds is None]
    half = len(runs) // 2
    for first, second in zip(runs[:half], runs[half:], strict=True):
        assert (first.config.seed, second.config.seed) == (0, 1)
        assert first.config.data.seed != second.config.data.seed  # a stream: other mazes too
        assert (first.labels, first.evaluations) == (second.labels, second.evaluations)
    fixed = runs_of(STUDIES["accuracy-by-size"], Options("paper", seeds=2))
    assert {run.config.data.seed for run in fixed} == {0}  # a dataset: the same mazes in another order


def test_long_runs_have_fewer_seeds_than_the_user_asks_for() -> None:
    runs = runs_of(STUDIES["accuracy-by-size"], Options("laptop", seeds=3))
    seeds = {size: [run.config.seed for run in runs if run.labels["size"] == size] for size in ("4x4", "5x5", "6x6")}
    assert seeds == {"4x4": [0, 0, 1, 1, 2, 2], "5x5": [0, 0, 1, 1], "6x6": [0, 0, 0]}
    assert runs == runs_of(STUDIES["accuracy-by-size"], Options("laptop"))  # three is the default
    sampler = [run.config for run in runs if run.labels["size"] == "6x6" and "half" in run.labels["objective"]]
    assert [config.objective.rates.fully_hidden for config in sampler] == [0.5]
    assert len(runs_of(STUDIES["accuracy-by-size"], Options("paper", seeds=3))) == 30


def test_convergence_has_three_seeds_by_default() -> None:
    for scale in ("laptop", "paper"):
        assert len(runs_of(STUDIES["convergence"], Options(scale))) == 6
        assert len(runs_of(STUDIES["convergence"], Options(scale, seeds=1))) == 2
    assert len(runs_of(STUDIES["convergence"], Options("smoke"))) == 2


def test_a_convergence_curve_has_a_point_every_20_epochs_with_training_accuracy() -> None:
    for run in STUDIES["convergence"].runs("paper"):
        assert run.config.evaluate_every == 20 * 782
        assert run.train_mazes > 0


@pytest.mark.parametrize("scale", ["laptop", "paper"])
@pytest.mark.parametrize("name", NAMES[:13])
def test_every_run_that_can_carry_a_verdict_is_evaluated_often_enough(
    name: str, scale: Literal["laptop", "paper"]
) -> None:
    for run in STUDIES[name].runs(scale):
        config = run.config
        steps = config.budget.steps or config.budget.epochs * -(-config.data.mazes // config.batch_size)
        points = [
            {"mazes": step, "exact": 1.0} for step in range(config.evaluate_every, steps + 1, config.evaluate_every)
        ]
        assert convergence(points).problem is None, run.labels
        assert config.data.source == "dataset"
        assert run.train_mazes > 0


def test_the_papers_own_studies_train_the_papers_configs() -> None:
    """They change the mazes, epochs, positions and optimizer settings that the studies vary, and nothing else."""
    for name in NAMES[:13]:
        for run in STUDIES[name].runs("paper"):
            config, data = run.config, run.config.data
            size = next(s for s in ("3m", "8m", "25m") if parameters_of(config.model) < int(s[:-1]) * 1.2e6)
            expected = paper(
                data.family,
                data.sizes[0],
                config.objective.name,
                size,
                architecture=kind_of(config.model),
                epochs=config.budget.epochs,
                lr=config.optimizer.lr,
                weight_decay=config.optimizer.weight_decay,
                mazes=data.mazes,
                positions=config.model.positions,
            )
            assert dataclasses.replace(config, evaluate_every=expected.evaluate_every) == expected, (name, run.labels)
            if name != "rates-and-decays":
                assert config.optimizer == paper(data.family, data.sizes[0], config.objective.name).optimizer


def test_the_precision_study_trains_on_100_000_mazes_of_30x30_with_both_precisions() -> None:
    runs = [run for run in STUDIES["position-precision"].runs("paper") if run.labels["mazes"] == "100,000"]
    assert [(run.labels["precision"], run.config.model.positions) for run in runs] == [
        ("float32", "rope-fp32"),
        ("float16", "rope-fp16"),
    ]
    assert {(run.config.data.sizes, run.config.data.mazes) for run in runs} == {((30,), 100_000)}


def test_the_galleries_are_those_of_the_paper() -> None:
    labels = [tuple(run.labels.values()) for run in STUDIES["failures"].runs("paper")]
    for gallery in (
        ("DFS", MLMU, "30x30"),
        ("DFS", NEXT, "30x30"),
        ("DFS", NEXT, "10x10"),
        ("A*", MLMU, "20x20"),
        ("A*", MLMU, "30x30"),
    ):
        assert gallery in labels
    for run in (run for scale in ("laptop", "paper") for run in STUDIES["failures"].runs(scale)):  # type: ignore[arg-type]
        assert [spec.failures for spec in run.evaluations] == [4]


def test_our_own_questions_run_at_paper_scale_when_they_are_smoke_config(tmp_path: Path) -> None:
    """Those of the paper are configs of clew.paper.configs, which have a test of their own."""
    tried: set[TrainConfig] = set()
    for run in (run for name in NAMES[13:] for run in STUDIES[name].runs("paper")):
        small = smoke_config(run.config)
        if small.data.source == "dataset":
            folder = tmp_path / f"{small.data.family}-{small.data.sizes[0]}"
            small = dataclasses.replace(small, data=dataclasses.replace(small.data, folder=str(folder)))
        small = dataclasses.replace(small, held_out=0, precision="fp32")  # as slow as all others together otherwise
        if small in tried:  # the paper's sizes are all alike once they are shrunken
            continue
        tried.add(small)
        make_dataset(small.data)
        assert train(small, tmp_path / f"run-{len(tried)}").end.step == 2
    assert len(tried) > 10


def test_estimates_follow_the_papers_own_hours() -> None:
    convergence = needs("convergence", [STUDIES["convergence"]], "paper")
    assert convergence["runs"] == 6
    # 13.7 hours of next token and 17.7 of MLM-U, three seeds.
    assert convergence["hours"] == pytest.approx(3 * (13.7 + 17.7), rel=0.2)


@pytest.mark.parametrize("name", NAMES)
def test_a_laptop_study_takes_at_most_two_days_of_one_core(name: str) -> None:
    assert needs(name, [STUDIES[name]], "laptop")["hours"] < 48


def test_path_star_takes_at_most_90_minutes_of_one_core() -> None:
    assert needs("path-star", [STUDIES["path-star"]], "laptop")["hours"] <= 90 / 60


@pytest.mark.parametrize(
    ("study", "part", "families"),
    [
        ("path-star", "pairs", ["path-star-2x5", "path-star-3x5"]),
        ("path-star-variants", "short arms", ["path-star-2x4", "path-star-3x4", "path-star-5x4"]),
    ],
)
def test_next_token_on_path_star_has_at_least_the_graphs_of_mlmu(study: str, part: str, families: list[str]) -> None:
    pairs = [run for run in STUDIES[study].runs("laptop") if run.labels["part"] == part]
    shapes: dict[str, dict[str, TrainConfig]] = {run.config.data.family: {} for run in pairs}
    for run in pairs:
        shapes[run.config.data.family][run.labels["objective"]] = run.config
    assert list(shapes) == families
    for pair in shapes.values():
        assert pair[NEXT].budget.steps >= pair[MLMU].budget.steps
        same = dataclasses.replace(pair[NEXT], budget=pair[MLMU].budget)
        assert (same.batch_size, same.optimizer) == (pair[MLMU].batch_size, pair[MLMU].optimizer)
        assert parameters_of(pair[NEXT].model) == pytest.approx(parameters_of(pair[MLMU].model), rel=0.02)


def test_the_best_sampler_of_path_star_is_trained_once_for_the_pairs_and_the_samplers() -> None:
    options = Options("laptop", seeds=1)
    folders: dict[str, set[Path]] = {"pairs": set(), "samplers": set()}
    for run in runs_of(STUDIES["path-star-variants"], options):
        if run.labels["part"] == "short arms" and run.labels["objective"] == MLMU:
            folders["pairs"].add(options.run_folder(run))
        if run.labels.get("sampler") == "half fully hidden":
            folders["samplers"].add(options.run_folder(run))
    assert len(folders["samplers"]) == 2
    assert folders["samplers"] < folders["pairs"]


def test_of_3x3_mazes_twelve_are_held_out() -> None:
    """As the page says of 3x3 mazes."""
    tasks = generate("dfs", 3, 3, seed=0, first=0, count=2000, split="test")
    assert len({cells.tobytes() for cells in tasks.cells_NHW}) == 12


def test_the_largest_mazes_of_the_precision_study_have_paths_that_float16_cannot_place() -> None:
    """Beyond 2,048 a float16 is an even number, so two places in a row are one."""
    largest = max(MEMORIZED)
    tasks = generate("dfs", largest, largest, seed=0, first=0, count=1, split="any")
    batch = encode_tasks("edge-list", tasks, text_seeds(0, "train", np.arange(1)), np.arange(1))
    first = int(batch.response_BT[0].int().argmax())
    assert first > 2048
    places = torch.arange(first, first + 4).half()
    assert len(places.unique()) < 4


@pytest.mark.parametrize("name", NAMES)
def test_every_arm_and_table_of_a_study_has_runs_at_some_scale(name: str) -> None:
    """studies.toml names labels and evaluations by words."""
    study, runs = STUDIES[name], [run for scale in ("laptop", "paper") for run in STUDIES[name].runs(scale)]  # type: ignore[arg-type]

    def matches(labels: dict[str, str]) -> bool:
        wanted = {key: value for key, value in labels.items() if value != "*" and key not in ("name", "evaluation")}
        found = [run for run in runs if wanted.items() <= run.labels.items()]
        evaluation = labels.get("evaluation", "*")
        return any(evaluation in ("*", *(spec.name for spec in run.evaluations)) for run in found)

    for claim in study.claims:
        assert isinstance(claim, Comparison)
        assert claim.judge in JUDGES
        assert all(matches(claim.where | own) for own in claim.arms), claim.text
    for table in study.tables:
        assert not isinstance(table, Pivot) or matches(table.where), table
