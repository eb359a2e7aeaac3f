"""What studies show and say follows from the numbers: means over seeds, tables, curves, and each study's claims."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic_results import curve, entry, result, rising, scores

from clew.mazes.generate import generate
from clew.paper.page import curve_panels
from clew.paper.results import Arm, Mean, Pivot, colours_of, curves, mean_of
from clew.paper.studies import STUDIES
from clew.paper.studies.tables import all_scores
from clew.paper.verdict import Finding
from clew.tokenization.format import format_named

PAIR = [
    entry({"objective": objective, "size": size}, seed, held_out=exact + 0.02 * seed)
    for seed in (0, 1)
    for objective, size, exact in (
        ("next token", "3x3", 0.9),
        ("MLM-U", "3x3", 0.9),
        ("next token", "4x4", 0.3),
        ("MLM-U", "4x4", 0.7),
    )
]


def test_the_error_is_that_of_the_mazes_or_that_between_the_seeds() -> None:
    assert mean_of([0.5, 0.5], [0.02, 0.02]).error == pytest.approx(0.02 / 2**0.5)
    assert mean_of([0.4, 0.6], [0.02, 0.02]).error == pytest.approx(0.1)
    assert mean_of([0.4], [0.02]) == Mean(0.4, 0.02, 1)
    assert (str(Mean(0.452, 0.01, 1)), str(Mean(0.452, 0.013, 3))) == ("45.2", "45.2 ± 1.3")


def test_a_table_has_the_papers_layout() -> None:
    (table,) = Pivot("objective", "size")(result(*PAIR)).tables
    assert table.rows[0] == ["", "3x3", "4x4"]
    assert [row[0] for row in table.rows[1:]] == ["next token", "MLM-U"]
    assert table.rows[2][2].startswith("71.0 ±")
    (scores,) = Pivot("objective", all_scores, where={"size": "4x4"})(result(*PAIR)).tables
    assert scores.rows[1][1:4] == [table.rows[1][2]] * 3
    missing = result(*PAIR, entry({"objective": "other", "size": "5x5"}, held_out=0.1))
    assert Pivot("objective", "size")(missing).tables[0].rows[3] == ["other", "", "", "10.0"]


def test_a_table_for_each_combination_of_labels() -> None:
    found = Pivot("objective", "evaluation", each=("size",), chart="bars")(result(*PAIR))
    assert [table.title for table in found.tables] == ["exact paths, %, 3x3", "exact paths, %, 4x4"]
    assert found.tables[0].rows[0] == ["", "held-out"]
    assert [series.name for series in found.panels[1].series] == ["next token", "MLM-U"]
    assert [point.x for point in found.panels[1].series[0].points] == ["held-out"]
    (scores,) = Pivot("objective", all_scores, chart="bars", where={"size": "4x4"})(result(*PAIR)).panels
    assert [point.x for point in scores.series[0].points][:2] == ["exact", "per token"]
    assert (
        found.tables[0]
        == Pivot("objective", "evaluation", "exact paths, %, 3x3", where={"size": "3x3"})(result(*PAIR)).tables[0]
    )
    assert Pivot("objective", "size", where={"size": "9x9"})(result(*PAIR)).tables == []


def test_an_objective_has_one_colour_everywhere() -> None:
    assert colours_of(["next token", "MLM-U"]) == [0, 1]
    assert colours_of(["MLM-U", "next token", "other"]) == [1, 0, 2]
    assert colours_of(["a", "MLM-U", "b"]) == [0, 1, 2]
    assert colours_of(["a", "b"]) == [0, 1]


CURVE = [
    {"mazes": 100, "minutes": 1.0, "hours": 0.5, "exact": 0.2, "train-exact": 0.4},
    {"mazes": 300, "minutes": 2.0, "hours": 1.0, "exact": 0.6, "train-exact": 1.0},
]


def test_a_score_is_reached_between_two_evaluations() -> None:
    arm = Arm("a", [entry({}, points=CURVE)])
    assert arm.reached("mazes", 0.4) == pytest.approx(200)
    assert arm.reached("hours", 0.1) == pytest.approx(0.25)
    assert arm.reached("mazes", 0.7) is None


def test_a_curve_is_the_mean_of_the_seeds_with_the_training_mazes_dashed() -> None:
    other = [dict(point, exact=point["exact"] + 0.2) for point in CURVE]
    panel = curves("title", "mazes", [Arm("a", [entry({"o": "a"}, 0, CURVE), entry({"o": "a"}, 1, other)])])
    held_out, trained = panel.series
    assert [(point.x, round(point.y)) for point in held_out.points] == [(100, 30), (300, 70)]
    assert held_out.points[0].error == pytest.approx(10)
    assert (trained.name, trained.dashed, [round(point.y) for point in trained.points]) == (
        "a, training mazes",
        True,
        [40, 100],
    )
    assert panel.x_label == "mazes seen in training"


@pytest.mark.parametrize(("device", "label"), [("cpu", "core hours of training"), ("cuda", "GPU hours of training")])
def test_hours_are_those_of_cores_or_gpus(device: str, label: str) -> None:
    run = entry({"o": "a"}, 0, CURVE) | {"device": device}
    panel = curves("title", "hours", [Arm("a", [run])])
    assert (panel.x_label, [point.x for point in panel.series[0].points]) == (label, [0.5, 1.0])


def test_the_curves_of_a_verdict_are_those_of_its_runs() -> None:
    measured = result(*PAIR)
    findings = STUDIES["accuracy-by-size"].findings(measured)
    panels = curve_panels(measured, findings)
    assert [panel.title for panel in panels] == ["DFS 3x3", "DFS 3x3", "DFS 4x4", "DFS 4x4"]
    assert [series.name for series in panels[2].series] == ["next token", "MLM-U"]
    assert panels[2].series[1].points[-1].y == pytest.approx(71.0)
    assert curve_panels(measured, []) == []


def found_by(study: str, *entries: dict[str, Any]) -> list[Finding]:
    return STUDIES[study].findings(result(*entries, study=study))


def test_accuracy_by_size_judges_each_size() -> None:
    found = found_by("accuracy-by-size", *PAIR)
    assert [(each.task, each.verdict) for each in found] == [
        ("DFS 3x3", "inconclusive"),
        ("DFS 4x4", "reproduced"),
    ]
    assert {each.main for each in found} == {"accuracy"}


def test_astar_judges_next_token_with_and_without_traces() -> None:
    methods = {"MLM-U": 0.9, "next token": 0.5, "next token with A* traces": 0.95}
    found = found_by("astar", *(entry({"method": m, "size": "4x4"}, held_out=x) for m, x in methods.items()))
    assert [each.verdict for each in found] == ["reproduced", "contradicted"]


def test_convergence_names_the_faster_one() -> None:
    def runs(seed: int, mlmu: float, plain: float) -> list[dict[str, Any]]:
        """Curves that reach their levels after these shares of their training."""
        return [
            entry({"objective": name, "size": "4x4"}, seed, rising(0.9, half=half), held_out=exact)
            for name, half, exact in (("MLM-U", mlmu, 0.5), ("next token", plain, 0.7))
        ]

    found = found_by("convergence", *runs(0, 0.1, 0.2), *runs(1, 0.1, 0.25))
    assert [each.verdict for each in found] == ["reproduced", "reproduced", "contradicted"]
    assert [each.main for each in found] == ["", "hours", ""]
    assert found[0].because == "MLM-U is 2.25 times as fast as next token."
    assert found[0].ours == "to 90%: MLM-U 8,000, next token 18,000 mazes"
    assert found[1].ours == "to 90%: MLM-U 0.03, next token 0.07 core hours"
    slower = found_by("convergence", *runs(0, 0.2, 0.1))
    assert [each.verdict for each in slower[:2]] == ["contradicted", "contradicted"]
    disagree = found_by("convergence", *runs(0, 0.1, 0.2), *runs(1, 0.2, 0.1))
    assert [each.verdict for each in disagree[:2]] == ["inconclusive", "inconclusive"]


@pytest.mark.parametrize(
    ("mlmu", "verdict", "because"),
    [
        ((0.5, 0.9), "reproduced", "MLM-U needs 4 times fewer."),
        ((0.1, 0.3), "contradicted", "MLM-U does not get there with any number tried."),
        ((0.1, 0.9), "inconclusive", "both need as many, of the numbers tried."),
    ],
)
def test_data_efficiency_asks_who_needs_fewer(mlmu: tuple[float, float], verdict: str, because: str) -> None:
    runs = [
        entry({"objective": objective, "size": "4x4", "mazes": mazes}, held_out=exact)
        for objective, values in (("next token", (0.1, 0.4)), ("MLM-U", mlmu))
        for mazes, exact in zip(("250", "1,000"), values, strict=True)
    ]
    (found,) = found_by("data-efficiency", *runs)
    assert (found.verdict, found.because) == (verdict, because)


def test_position_precision_judges_memorized_and_held_out_mazes() -> None:
    few = [
        entry({"precision": bits, "size": "27x27", "mazes": "10"}, points=curve([level] * 20, score="train-exact"))
        for bits, level in (("float32", 1.0), ("float16", 0.0))
    ]
    for run, level in zip(few, (1.0, 0.0), strict=True):
        run["exams"]["training mazes"] = scores(level, 10)
    many = [
        entry({"precision": bits, "size": "4x4", "mazes": "20,000"}, held_out=0.9) for bits in ("float32", "float16")
    ]
    found = found_by("position-precision", *few, *many)
    assert [(each.task, each.verdict) for each in found] == [
        ("10 memorized mazes of DFS 27x27", "reproduced"),
        ("DFS 4x4, 20,000 training mazes", "inconclusive"),
    ]


def test_failures_are_counted_by_class() -> None:
    run = entry({"family": "A*", "objective": "MLM-U", "size": "4x4"}, held_out=0.6)
    run["exams"]["held-out"]["failures"] |= {"unparsable": 150, "through a wall": 50}
    (table,) = STUDIES["failures"].report(result(run, study="failures")).tables
    cells = dict(zip(table.rows[0], table.rows[1], strict=True))
    assert (cells["failures"], cells["unparsable"], cells["through a wall"]) == ("200", "75.0", "25.0")


def test_a_star_stands_for_every_other_value() -> None:
    levels = {"RoPE, float32 (the paper)": 0.5, "learned": 0.6, "none": 0.3}
    (found,) = found_by("position-encodings", *(entry({"positions": n}, held_out=x) for n, x in levels.items()))
    assert (found.verdict, found.task) == ("reproduced", "DFS 4x4")
    assert found.ours == "RoPE, float32 (the paper): 50.0; best other, learned: 60.0"
    only = entry({"positions": "RoPE, float32 (the paper)"}, held_out=0.5)
    assert found_by("position-encodings", only) == []


def test_a_claim_without_one_of_its_arms_is_left_out() -> None:
    assert found_by("accuracy-by-size", PAIR[0], PAIR[3]) == []


def test_objectives_on_cells_are_evidence_for_the_main_claim_on_dfs_mazes() -> None:
    runs = [
        entry({"family": family, "objective": objective, "size": "10x10"}, held_out=exact)
        for family, objective, exact in (
            ("DFS", "next token", 0.6),
            ("DFS", "MLM-U", 0.9),
            ("A*", "next token", 0.9),
            ("A*", "MLM-U", 0.6),
        )
    ]
    found = [each for each in found_by("objective-on-cells", *runs) if each.text.endswith("than next token")]
    assert [each.verdict for each in found] == ["reproduced", "contradicted"]
    assert [each.main for each in found] == ["accuracy", ""]
    assert found[0].task == "DFS 10x10 on the cell network"


def test_failures_draw_four_examples_of_each_of_the_papers_galleries() -> None:
    runs = []
    for family, name in (("dfs", "DFS"), ("astar", "A*")):
        for size in (4, 5):
            task, path = generate(family, size, size, seed=0, first=0, count=1, split="test")[0]
            text = format_named("grid").encode(task, path).text
            example = {"class": "diagonal or gap", "maze": text, "predicted": [[0, 0], [3, 3]]}
            for objective in ("next token", "MLM-U"):
                run = entry({"family": name, "objective": objective, "size": f"{size}x{size}"}, held_out=0.5)
                run["exams"]["held-out"]["examples"] = [example] * 6
                runs.append(run)
    galleries = STUDIES["failures"].report(result(*runs, study="failures")).galleries
    assert [len(gallery) for gallery in galleries] == [4] * 4
    assert [gallery[0][3] for gallery in galleries] == [
        "MLM-U, DFS 5x5: diagonal or gap",
        "next token, DFS 5x5: diagonal or gap",
        "next token, DFS 4x4: diagonal or gap",
        "MLM-U, A* 4x4: diagonal or gap",
    ]
