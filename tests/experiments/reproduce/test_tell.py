"""What studies say follows from the numbers: means over seeds, tables, curves, and verdicts in words."""

from __future__ import annotations

from typing import Any

import pytest

from clew.evaluation.intervals import share
from clew.experiments.reproduce.catalogue import STUDIES
from clew.experiments.reproduce.result import Mean, Result, mean_of
from clew.experiments.reproduce.study import Finding
from clew.experiments.reproduce.tell import (
    best_of,
    clearly_above,
    colours_of,
    compare,
    compare_differences,
    curves,
    difference,
    pivot,
    reached,
    score_table,
)


def scores(exact: float, mazes: int = 500) -> dict[str, Any]:
    """The scores of an exam; every share is the same."""
    told = vars(share(round(exact * mazes), mazes))
    kinds = ("exact", "per_token", "valid", "shortest", "unparsable")
    return {"mazes": mazes, **dict.fromkeys(kinds, told), "passes": 5.0, "failures": {}, "examples": []}


def entry(labels: dict[str, str], seed: int = 0, curve: Any = (), **exams: float) -> dict[str, Any]:
    told = {name.replace("_", "-"): scores(value) for name, value in exams.items()}
    return {
        "labels": labels,
        "seed": seed,
        "parameters": 1_500_000,
        "minutes": 2.0,
        "exams": told,
        "curve": list(curve),
    }


def result(*entries: dict[str, Any], study: str = "accuracy-by-size") -> Result:
    return Result({"study": study, "scale": "laptop", "runs": list(entries), "measured": {}})


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
    table = pivot(result(*PAIR), "exact", "objective", "size")
    assert table.rows[0] == ["", "3x3", "4x4"]
    assert [row[0] for row in table.rows[1:]] == ["next token", "MLM-U"]
    assert table.rows[2][2].startswith("71.0 ±")
    assert score_table(result(*PAIR), "objective", size="4x4").rows[1][1:4] == [table.rows[1][2]] * 3
    missing = result(*PAIR, entry({"objective": "other", "size": "5x5"}, held_out=0.1))
    assert pivot(missing, "exact", "objective", "size").rows[3] == ["other", "", "", "10.0"]


@pytest.mark.parametrize(
    ("a", "b", "verdict", "because"),
    [
        (0.7, 0.3, "holds", "A solves 40.0 points more, 2.3 times as many."),
        (0.3, 0.7, "does not hold", "B solves 40.0 points more, 2.3 times as many."),
        (0.5, 0.0, "holds", "A solves 50.0 points more."),
        (0.5, 0.48, "cannot be told", "within two standard errors"),
        (0.01, 0.0, "cannot be told", "neither"),
        (0.999, 0.995, "cannot be told", "both solve nearly all"),
    ],
)
def test_a_claim_is_judged_by_its_numbers(a: float, b: float, verdict: str, because: str) -> None:
    found = compare("A beats B", "1 against 0", ("A", Mean(a, 0.02, 1)), ("B", Mean(b, 0.02, 1)))
    assert found.verdict == verdict
    assert because in found.because
    assert found.ours == f"A {100 * a:.1f}, B {100 * b:.1f}"


def test_what_was_not_measured_cannot_be_told() -> None:
    known = ("A", Mean(0.5, 0.01, 1))
    for found in (
        compare("claim", "", known, ("B", None)),
        compare_differences("claim", "", "gain", known, ("B", None)),
        best_of("claim", "", {"A": known[1], "B": None}, "A"),
    ):
        assert (found.verdict, found.because) == ("cannot be told", "it was not measured.")
    assert difference(None, known[1]) is None


def test_differences_are_compared_with_both_errors() -> None:
    large, small = (difference(Mean(a, 0.03, 1), Mean(b, 0.04, 1)) for a, b in ((0.9, 0.3), (0.5, 0.4)))
    assert large == Mean(pytest.approx(0.6), pytest.approx(0.05), 1)  # type: ignore[arg-type]
    found = compare_differences("claim", "", "gain", ("A", large), ("B", small))
    assert (found.verdict, found.ours) == ("holds", "gain: A 60.0 points, B 10.0 points")
    assert compare_differences("claim", "", "gain", ("B", small), ("A", large)).verdict == "does not hold"
    assert compare_differences("claim", "", "gain", ("A", large), ("C", large)).verdict == "cannot be told"


def test_the_best_of_many_needs_more_than_one_of_two() -> None:
    base, other = Mean(0.5, 0.02, 1), Mean(0.57, 0.02, 1)
    assert clearly_above(other, base)
    assert not clearly_above(other, base, errors=3)
    means: dict[str, Mean | None] = {"base": base, "a": other, "b": Mean(0.2, 0.02, 1)}
    assert best_of("claim", "", means, "base").verdict == "cannot be told"
    assert best_of("claim", "", means | {"a": Mean(0.7, 0.02, 1)}, "base").because == "a solves 20.0 points more."
    assert best_of("claim", "", means | {"a": Mean(0.3, 0.02, 1)}, "base").verdict == "does not hold"


def decoded(model: str, seed: int, **missed: list[int]) -> dict[str, Any]:
    """A run whose exams, of 100 mazes, missed these."""
    told = entry({"model": model}, seed)
    told["exams"] = {name: scores(1 - len(each) / 100, 100) | {"missed": each} for name, each in missed.items()}
    return told


def test_two_exams_on_the_same_mazes_are_compared_maze_by_maze() -> None:
    first, second, third = list(range(30)), list(range(19)), [*range(50, 69)]
    found = result(decoded("m", 0, base=first, a=second, b=third))
    # Eleven mazes are solved by one alone, or eleven and as many others more.
    assert found.gain("a", over="base") == Mean(pytest.approx(0.11), pytest.approx((0.11 * 0.89 / 100) ** 0.5), 1)  # type: ignore[arg-type]
    assert found.gain("b", over="base") == Mean(pytest.approx(0.11), pytest.approx((0.4779 / 100) ** 0.5), 1)  # type: ignore[arg-type]
    means = {name: found.mean(exam=name) for name in ("base", "a", "b")}
    unpaired = best_of("claim", "", means, "base")
    assert unpaired.verdict == "cannot be told"
    for name, verdict in (("a", "holds"), ("b", "cannot be told")):
        pair = {"base": means["base"], name: means[name]}
        assert best_of("claim", "", pair, "base", lambda word: found.gain(word, over="base")).verdict == verdict


def test_gains_are_averaged_over_the_seeds_or_unknown() -> None:
    found = result(decoded("m", 0, base=[1, 2, 3], a=[1]), decoded("m", 1, base=[1], a=[1]))
    gain = found.gain("a", over="base", model="m")
    assert gain is not None
    assert (gain.value, gain.error, gain.seeds) == (pytest.approx(0.01), pytest.approx(0.01), 2)
    older = entry({"model": "m"}, base=0.5, a=0.6)
    assert result(older).gain("a", over="base") is None
    assert result().gain("a", over="base") is None


def test_an_objective_has_one_colour_everywhere() -> None:
    assert colours_of(["next token", "MLM-U"]) == [0, 1]
    assert colours_of(["MLM-U", "next token", "other"]) == [1, 0, 2]
    assert colours_of(["a", "MLM-U", "b"]) == [0, 1, 2]
    assert colours_of(["a", "b"]) == [0, 1]


CURVE = [{"mazes": 100, "minutes": 1.0, "exact": 0.2}, {"mazes": 300, "minutes": 2.0, "exact": 0.6}]


def test_a_score_is_reached_between_two_evaluations() -> None:
    entries = [entry({}, curve=CURVE)]
    assert reached(entries, "mazes", 0.4) == pytest.approx(200)
    assert reached(entries, "minutes", 0.1) == pytest.approx(0.5)
    assert reached(entries, "mazes", 0.7) is None


def test_a_curve_is_the_mean_of_the_seeds() -> None:
    other = [dict(point, exact=point["exact"] + 0.2) for point in CURVE]
    panel = curves(result(entry({"o": "a"}, curve=CURVE), entry({"o": "a"}, 1, other)), "title", "mazes", "o")
    (series,) = panel.series
    assert [(point.x, round(point.y)) for point in series.points] == [(100, 30), (300, 70)]
    assert series.points[0].error == pytest.approx(10)


def found_by(study: str, *entries: dict[str, Any]) -> list[Finding]:
    return STUDIES[study].findings(result(*entries, study=study))


def test_accuracy_by_size_judges_each_size() -> None:
    assert [each.verdict for each in found_by("accuracy-by-size", *PAIR)] == ["cannot be told", "holds"]


def test_convergence_names_the_faster_one() -> None:
    quick = [dict(point, minutes=point["minutes"] / 2, mazes=point["mazes"] / 2) for point in CURVE]
    found = found_by(
        "convergence",
        entry({"objective": "MLM-U"}, curve=quick, held_out=0.5),
        entry({"objective": "next token"}, curve=CURVE, held_out=0.7),
    )
    assert [each.verdict for each in found] == ["holds", "holds", "does not hold"]
    assert found[0].because == "MLM-U is 2.00 times as fast as next token."
    assert found[0].ours.startswith("to 50%: MLM-U 125, next token 250")


def test_overfitting_looks_at_the_gap() -> None:
    runs = [entry({"objective": "MLM-U"}, held_out=0.5), entry({"objective": "next token"}, held_out=0.3)]
    for run, trained in zip(runs, (0.52, 0.95), strict=True):
        run["exams"]["training mazes"] = scores(trained)
    assert [each.verdict for each in found_by("overfitting", *runs)] == ["holds", "holds"]


def test_data_efficiency_asks_who_needs_fewer() -> None:
    runs = [
        entry({"objective": objective, "size": "4x4", "mazes": mazes}, held_out=exact)
        for objective, mazes, exact in (
            ("next token", "250", 0.1),
            ("next token", "1,000", 0.4),
            ("MLM-U", "250", 0.5),
            ("MLM-U", "1,000", 0.9),
        )
    ]
    (found,) = found_by("data-efficiency", *runs)
    assert (found.verdict, found.because) == ("holds", "MLM-U needs 4 times fewer.")


def test_objective_or_representation_weighs_the_two_changes() -> None:
    runs = [
        entry({"objective": objective, "representation": form, "size": "4x4"}, held_out=exact)
        for objective, form, exact in (
            ("next token", "text", 0.1),
            ("MLM-U", "text", 0.3),
            ("next token", "cells", 0.9),
            ("MLM-U", "cells", 0.8),
        )
    ]
    found = found_by("objective-or-representation", *runs)
    assert [each.verdict for each in found] == ["does not hold", "holds", "does not hold", "cannot be told"]
    assert [each.where for each in found] == ["4x4", "text, 4x4", "cells, 4x4", "4x4"]


def test_decoders_of_a_cell_network_are_compared_with_one_cell_a_pass() -> None:
    cells = decoded("cells", 0, **{"walk:ask=cell": list(range(40)), "walk": list(range(10)), "one-pass": []})
    text = decoded("text", 0, **{"left-to-right": [1], "certainty": [1], "repair": list(range(60))})
    found = found_by("decoders", cells, text)
    assert [(each.where, each.verdict) for each in found] == [
        ("cells", "holds"),
        ("text", "cannot be told"),
        ("text", "cannot be told"),
    ]
