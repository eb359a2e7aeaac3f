"""`clew runs DIR`: a table of training runs. `clew plot RUN ...`: their curves."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Any, Literal

from clew.commands import format_table, print_line
from clew.errors import UserError, counted
from clew.files import read_json
from clew.training.callbacks import check_metrics, curve, find_runs, format_duration, run_status
from clew.viz.charts import Panel, Point, Series, draw_panels


def runs(
    directories: tuple[Path, ...] = (),  # the folders to search; the current one by default
    *,
    json: bool = False,  # print one JSON document with a list of runs
) -> None:
    """Print a table of the runs below a folder: config, steps, training loss, exact paths on held-out mazes, age.

    For example: clew runs runs
    """
    rows = [describe_run(run) for directory in directories or (Path(),) for run in find_runs(directory)]
    if not rows:
        raise UserError("no run was found; give the folder that holds run folders, each with a config.json.")
    if json:
        print(json_module.dumps(rows, indent=2))
        return
    table = [["run", "config", "steps", "loss", "held-out exact %", "age"]]
    for row in rows:
        loss = "" if row["loss"] is None else f"{row['loss']:.4f}"
        exact = "" if row["exact"] is None else f"{100 * row['exact']:.1f}"
        age = format_duration(row["age_seconds"])
        table.append([row["name"], row["config"], f"{row['steps']:,}", loss, exact, age])
    print(format_table(table))


def plot(
    runs: tuple[Path, ...],  # run folders, or folders that hold some
    *,
    out: Path = Path("curves.png"),  # the PNG file to write
    y: Literal["loss", "exact"] = "loss",  # loss (training loss) or exact (exact paths on held-out mazes, %)
    x: Literal["steps", "mazes", "hours"] = "steps",  # steps, mazes (seen in training) or hours (of training)
) -> None:
    """Plot the training curves of runs to a PNG file.

    For example: clew plot runs/mlmu runs/next --y exact --x hours --out curves.png
    """
    if out.suffix != ".png":
        raise UserError(f"{out} does not end in .png, the only format of `clew plot`.")

    series = []
    for run in (found for given in runs for found in find_runs(given)):
        check_metrics(run)
        if points := [Point(*each) for each in curve(run, y, x)]:
            series.append(Series(run.name, points))
    if not series:
        raise UserError(f"none of the runs has any {y} to plot yet.")
    label = "exact paths on held-out mazes, %" if y == "exact" else "training loss"
    x_label = {"steps": "steps", "mazes": "mazes seen", "hours": "hours of training"}[x]
    draw_panels(out, [Panel(label, x_label, label, series, percent=y == "exact")])
    print_line(f"{out}: {counted(len(series), 'run')}")


def describe_run(run: Path) -> dict[str, Any]:
    """Return what the table shows of a run, from config.json and metrics.jsonl, without torch."""
    check_metrics(run)
    status = run_status(run)
    try:
        value = read_json(run / "config.json")
        data, sizes = value["data"], value["data"]["sizes"]
        size = f"{sizes[0]}-{sizes[-1]}" if len(sizes) > 1 else f"{sizes[-1]}x{data.get('width') or sizes[-1]}"
        config = f"{value['objective']['name']} {value['model']['kind']} {data['family']} {size}"
    except (UserError, LookupError, TypeError):
        config = "unreadable config.json"
    numbers = {"steps": status["step"], "loss": status["loss"], "exact": status["exact"]}
    return {"name": run.as_posix(), "config": config, **numbers, "age_seconds": status["age"]}
