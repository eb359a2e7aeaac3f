"""Columns and reports of the studies, named in studies.toml.

A column function takes the arm of a row and returns its cells (`Pivot`); a report function takes a whole result.
"""

from __future__ import annotations

from clew.paper.results import MLMU, NEXT, Arm, Cell, Report, Result, curves, gallery

SCORES = {"exact": "exact", "per_token": "per token", "valid": "valid", "shortest": "shortest", "unparsable": "no path"}
# Family, objective and side of the paper's galleries, and ours at laptop scale.
GALLERIES = [("DFS", MLMU, 30), ("DFS", NEXT, 30), ("DFS", NEXT, 10), ("A*", MLMU, 20), ("A*", MLMU, 30)]
GALLERIES += [("DFS", MLMU, 5), ("DFS", NEXT, 5), ("DFS", NEXT, 4), ("A*", MLMU, 4)]


def all_scores(arm: Arm) -> dict[str, Cell]:
    return {words: arm.mean(score) for score, words in SCORES.items()}


def parameters(arm: Arm) -> dict[str, Cell]:
    return {"parameters": f"{arm.runs[0]['parameters'] / 1e6:.2f}M"}


def passes(arm: Arm) -> dict[str, Cell]:
    counts = [scores["passes"] for scores in arm.scores]
    return {"passes a maze": f"{sum(counts) / len(counts):.1f}"}


def failures(arm: Arm) -> dict[str, Cell]:
    """Return the number of failures, and the share of each class."""
    counts: dict[str, int] = {}
    for name, count in (each for scores in arm.scores for each in scores["failures"].items()):
        counts[name] = counts.get(name, 0) + count
    total = sum(counts.values())
    return {"failures": str(total), **{name: 100 * count / max(1, total) for name, count in counts.items()}}


def by_length(arm: Arm) -> dict[str, Cell]:
    """Return the exact paths by the length of the path, over all seeds."""
    counts: dict[str, list[int]] = {}
    for part in (part for scores in arm.scores for part in scores.get("by_length", [])):
        count = counts.setdefault(f"{part['low']} to {part['high']}", [0, 0])
        count[0] += part["exact"]["hits"]
        count[1] += part["exact"]["count"]
    return {cells: 100 * hits / count for cells, (hits, count) in counts.items() if count}


def costs(arm: Arm) -> dict[str, Cell]:
    """Return exact paths of graphs beside the share of a guess, with the graphs seen and the core seconds."""
    run = arm.runs[0]
    arms = int(run["labels"]["graph"].split(",")[0].removeprefix("d="))
    minutes: list[float] = [run.get("core_minutes") or run["minutes"] for run in arm.runs]
    cells: dict[str, Cell] = {"seeds": str(len(arm.runs)), "1/d, %": 100 / arms, "exact, %": arm.mean()}
    cells["graphs seen"] = f"{max((point['mazes'] for point in run['curve']), default=0):,}"
    for target in (0.95, 0.98):
        needed = [Arm(arm.name, [run]).reached("mazes", target) for run in arm.runs]
        words = ["not reached" if count is None else f"{count:,.0f}" for count in needed]
        cells[f"graphs to {target:.0%}, each seed"] = ", ".join(words)
    cells["core seconds"] = f"{60 * sum(minutes) / len(minutes):.0f}"
    return cells | {"parameters": f"{run['parameters']:,}"}


def sampler_curves(result: Result) -> Report:
    panels = []
    for labels in result.combinations("part", "graph", part="samplers"):
        arms = [result.arm(**labels, sampler=name) for name in result.values("sampler", **labels)]
        panels.append(curves(f"samplers, {labels['graph']}", "mazes", arms))
    return Report(panels=panels)


def galleries(result: Result) -> Report:
    """Draw up to four wrong paths of each of the paper's galleries."""
    found = []
    for family, objective, side in GALLERIES:
        arm = result.arm(family=family, objective=objective, size=f"{side}x{side}")
        found.append(gallery(arm, 4, f"{objective}, {family} {side}x{side}: "))
    return Report(galleries=found)
