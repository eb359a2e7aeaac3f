"""The scripts of benchmarks/: what they compute besides time, and the page that is made from their results."""

from __future__ import annotations

import shutil
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import cell_choices
import cell_cost
import numpy as np
import pytest
import report
import time_to_accuracy
import torch
import two_cores
import work

from clew.files import write_json
from clew.training.config import Budget
from clew.viz.pages import read_section

ROOT = Path(__file__).parents[2]

ORIGIN = {"command": "python benchmarks/x.py", "cpu": "a processor", "date": "2026-01-01T00:00", "seeds": [0]}
SHARE = {"share": 0.5, "low": 0.4, "high": 0.6}
EVALUATION = {"decoder": "walk", "mazes": 8, "exact": SHARE, "shortest": SHARE, "passes": 2.0, "seconds_per_maze": 0.1}


@pytest.mark.parametrize("section", report.SECTIONS, ids=lambda section: section.name)
def test_the_page_says_what_was_measured(section: report.Section) -> None:
    page = ROOT / report.PAGE
    assert read_section(page, section.name) == section.text(ROOT), "run: python benchmarks/report.py"


def reports() -> dict[str, dict[str, Any]]:
    size = {"side": 5, "cells": 25, "loops": 7, **dict.fromkeys(cell_cost.QUANTITIES, 0.002)}
    times = {"seconds": 0.3, "products_bound_seconds": 0.1, "share_of_peak": 0.33}
    peak = {"peak_gigaflops": 80.0, "copy_gigabytes_a_second": 9.0, "solving": times}
    peak["training"] = times | {"memory_bound_seconds": 0.02, "parts": {"matrix products": 0.4, "optimizer": 0.6}}
    family = {"sizes": [size, size | {"side": 10, "cells": 100}], "peak": peak}
    family["exponents"] = dict.fromkeys(cell_cost.QUANTITIES, 1.5)
    ratio = {"family": "dfs", "side": 10, "work": "training", "one_seconds": 0.4, "several_seconds": 0.2}
    curve = {"family": "astar", "method": "cells", "parameters": 64_961, "mazes": 9_000, "final": {"exact": 0.9}}
    curve |= {"minutes_to": {"50%": 1.25, "90%": 3.0, "99%": None}, "points": [{"minutes": 1.0, "exact": 0.5}]}
    curve["final"] |= {"low": 0.8, "high": 0.95}
    pointer = {"size": 30, "mazes": 8, "model": "grid-dfs", "decoder": "repair", "milliseconds": 500.0, "passes": 9.0}
    pointer["exact"] = {"hits": 6, "count": 8}
    short = {"family": "astar", "seed": 0, "steps": 400, "cpu_seconds": 30.0, "exact_10": 0.8}
    found = {
        "cells-dfs-larger": {"measured": [{"mazes": "8 mazes of 40x40", "evaluations": [EVALUATION]}]},
        "maze-hard": {"mazes": "8 mazes of 30x30", "evaluations": [EVALUATION]},
        "cells-families": {"measured": [{"model": "cells-dfs", "family": "wilson", "size": 10, **EVALUATION}]},
        "time-to-accuracy": {"minutes_each": 5.0, "held_out": 100, "curves": [curve]},
        "cell-cost": {"threads": 1, "clock": "cpu", "families": {"dfs": family, "astar": family}},
        "two-cores": {
            "threads": 2,
            "rounds": 3,
            "measured": [ratio | {"ratio": 1.9, "lowest": 1.8, "highest": 2.0}],
        },
        "grid-pointer": {
            "turns": 3,
            "measured": [pointer, pointer | {"model": "cells-dfs", "decoder": "one-pass", "milliseconds": 10.0}],
        },
        "short-recipes": {"runs": [short, short | {"seed": 1, "exact_10": 0.9}]},
        "cell-choices": {"rows": [short | {"variant": "sum units only", "exact_20": 0.25}]},
    }
    found["cells-dfs-larger"]["measured"][0]["provenance"] = ORIGIN
    return {name: value if "larger" in name else value | {"provenance": ORIGIN} for name, value in found.items()}


def test_results_become_tables_and_plots(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").mkdir()
    shutil.copy(ROOT / report.PAGE, tmp_path / report.PAGE)
    for name, value in reports().items():
        write_json(tmp_path / "results" / f"{name}.json", value)
    report.main(tmp_path)
    page = (tmp_path / report.PAGE).read_text()
    assert "Not measured" not in page
    for row in (
        "| 40x40, `walk` | 8 | 50.0 (40.0 to 60.0) | 50.0 (40.0 to 60.0) | 2.0 | 100 |\n",
        "| `cells-dfs` | 8 of 10x10, `wilson` | eight times the config's | 50.0 (40.0 to 60.0) | 50.0",
        "| A* | cell network, MLM-U | 64,961 | 1.2 | 3.0 | not reached | 90.0 (80.0 to 95.0) | 9,000 mazes |\n",
        "| DFS 10x10 | 7 | 2 | 2 | 0.002 | 0.002 |\n",
        "| A*, training | 300 | 100 | 20 | 33 % |\n",
        "| DFS 10x10 | training | 400 | 200 | 1.90 (1.80 to 2.00) |\n",
        "| 8 of 30x30 | `cells-dfs` | `one-pass` | 10.0 | 50.0 | 9.0 | 6 of 8 |\n",
        "| `cells-astar-10` | 400 | 0.5 | 10x10 | 85.0 | 80.0, 90.0 |\n",
        "| A* | sum units only | 400 | 30 | 80.0 | 25.0 |\n",
    ):
        assert row in page
    assert page.count("`python benchmarks/x.py`, a processor, 2026-01-01") == len(report.SECTIONS)
    assert {file.name for file in (tmp_path / "docs").glob("*.png")} == {"time-to-accuracy.png", "cell-cost.png"}


def test_the_slope_of_a_power_law_is_its_exponent() -> None:
    cells = [25, 100, 900]
    assert cell_cost.exponent(cells, [3 * n**1.7 for n in cells]) == pytest.approx(1.7)


def test_the_fastest_run_counts() -> None:
    now = [0.0]
    took = iter([5.0, 2.0, 3.0])

    def run() -> None:
        now[0] += next(took)

    assert work.fastest(run, seconds=0, clock=lambda: now[0]) == 2.0


def test_threads_take_turns_and_ratios_are_those_of_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    now, threads = [0.0], []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def run() -> None:
        now[0] += 6.0 / threads[-1]

    found = two_cores.compare(run, nullcontext, rounds=3, threads=2)
    assert threads == [1, 2, 1, 2, 1, 2, 1, 2, 1]
    assert (found["one_seconds"], found["several_seconds"], found["ratio"]) == (6.0, 3.0, 2.0)


def test_methods_differ_in_what_their_names_say() -> None:
    for family in work.FAMILIES:
        mlmu, plain = (time_to_accuracy.config_of(method, family, 5, "tiny") for method in ("cells", "cells-next"))
        assert plain.objective.name == "next-token"
        assert replace(plain, objective=mlmu.objective) == mlmu
        text = time_to_accuracy.config_of("text", family, 5, "tiny")
        assert {config.data.sizes[-1] for config in (mlmu, text)} == {10}
        assert {config.data.family for config in (mlmu, text)} == {family}
        assert {config.budget for config in (mlmu, text)} == {Budget(minutes=5)}


def test_a_text_model_is_scored_as_from_left_to_right() -> None:
    config = replace(time_to_accuracy.config_of("text", "dfs", 1, "tiny"), held_out=3)
    (tasks,) = time_to_accuracy.held_out_tasks(config.data, 3)
    codec = time_to_accuracy.Codec.of(config.data.format, 10, 10)
    truth_BR, length_B = codec.truth(tasks)
    first_B = codec.decoding_state(tasks).first_B
    queried = []

    def knows_two(batch: Any, order_BT: torch.Tensor, query_BT: torch.Tensor) -> torch.Tensor:
        """The true tokens of two mazes, and a wrong one at offset 1 of the third."""
        row, position = query_BT.nonzero(as_tuple=True)
        maze = batch.index_B[row]
        offset = position - first_B[maze]
        queried.append(sorted(maze.tolist()))
        token = truth_BR[maze, offset]
        token[(maze == 2) & (offset == 1)] = 0
        assert codec.vocabulary is not None
        return torch.nn.functional.one_hot(token, codec.vocabulary.size).float()

    assert time_to_accuracy.exact_solved(knows_two, config, codec, tasks) == 2
    assert queried[:3] == [[0, 1, 2], [0, 1, 2], [0, 1]]  # the third is given up after its wrong token
    assert len(queried) == int(np.max(length_B[:2].numpy()))


def test_a_training_step_of_the_benchmarks_changes_the_weights() -> None:
    step = cell_cost.TrainingStep("dfs", 5, mazes=2)
    before = [parameter.clone() for parameter in step.state.model.parameters()]
    step.whole()
    assert any(not torch.equal(a, b) for a, b in zip(before, step.state.model.parameters(), strict=True))
    assert step.flops > 0


def test_a_short_recipe_is_trained_and_scored() -> None:
    config = cell_choices.SHORT_RECIPES["dfs"]()
    found = cell_choices.train_and_score(config, "dfs", 2, seed=0, sizes=((5, 4),), evaluation_seed=2)
    assert set(found) == {"cpu_seconds", "exact_5", "shortest_5"}
    assert 0 <= found["exact_5"] <= found["shortest_5"] <= 1


@pytest.mark.parametrize("name", cell_choices.VARIANTS)
def test_a_variant_changes_the_recipe(name: str) -> None:
    changed = [cell_choices.VARIANTS[name](recipe()) != recipe() for recipe in cell_choices.SHORT_RECIPES.values()]
    assert any(changed) == (name != "as shipped")
