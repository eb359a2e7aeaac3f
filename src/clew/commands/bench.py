"""`clew bench ...`: speed, always as a ratio measured side by side in one run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal


def generation(json: bool = False, seconds: float = 6.0, plot: Path | None = None) -> None:
    """Measure how fast mazes are generated and solved, beside maze-dataset and beside plain Python.

    Also the peak memory of 100,000 mazes of 30x30, and how the time a maze grows with its cells. Takes about ten
    times --seconds, and half a minute more.

    Args:
        json: print one JSON document with everything measured, instead of a table.
        seconds: how long each side of each comparison may work.
        plot: draw the time a maze against its cells to this PNG or SVG file.
    """
    from clew.benchmarks.generation import measure, plot_costs
    from clew.errors import UserError

    if not 0 < seconds <= 3600:
        raise UserError(f"{seconds} seconds cannot be used; give --seconds a number above 0 and up to 3600.")
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise UserError(f"the plot {plot} has no known format; give --plot a name that ends in .png or .svg.")
    if plot is not None and not plot.parent.is_dir():
        raise UserError(f"the folder {plot.parent} does not exist; make it first, or give --plot another name.")

    command = f"clew bench generation --seconds {seconds:g}"
    report = measure(seconds, command, say=lambda text: print(f"measuring: {text}", file=sys.stderr))
    if plot is not None:
        plot_costs(report.costs, plot)
    if json:
        print(report.as_json())
        return
    for each in report.comparisons:
        print(
            f"{each.what}: {each.ours_per_second:,.0f} a second, {each.against} {each.theirs_per_second:,.1f}: "
            f"{each.ratio:,.0f} times as fast (target {each.target:g}), {each.ratio_one_core:,.0f} times on one core"
        )
    for sentence in report.left_out:
        print(f"left out: {sentence}")
    print(
        f"peak memory of {report.memory_mazes:,} mazes of 30x30: {report.peak_memory_mb:,.0f} MB "
        f"(target under {report.memory_target_mb:,.0f})"
    )
    for cost in report.costs:
        print(
            f"{cost.family}: {cost.microseconds_per_cell * 1000:.1f} ns a cell, "
            f"R² of the straight line {cost.r_squared:.4f}, {min(cost.cells)} to {max(cost.cells):,} cells"
        )


def decoding(json: bool = False, mazes: int = 32, size: str = "8m") -> None:
    """Measure how fast left-to-right decoding is, beside the naive form that computes everything for every token.

    An encoder-decoder with fresh weights answers held-out 10x10 DFS mazes, whose answers are as long as the true ones;
    both forms must give the same tokens. With 32 mazes it takes some five minutes on two cores.

    Args:
        json: print one JSON document with everything measured.
        mazes: how many mazes are decoded at once.
        size: of the model: tiny, 3m, 8m or 25m.
    """
    from json import dumps

    from clew.benchmarks.decoding import measure
    from clew.errors import UserError

    if mazes < 1:
        raise UserError(f"{mazes} mazes leave nothing to measure; use 1 or more.")
    found = measure(mazes, size, say=lambda text: print(f"measuring: {text}", file=sys.stderr))
    if json:
        print(dumps(found.as_json(f"clew bench decoding --mazes {mazes} --size {size}"), indent=2))
        return
    print(
        f"{found.model}, {found.mazes} mazes of 10x10, {found.tokens:,} tokens: fast {found.fast_seconds:.1f} s, naive "
        f"{found.naive_seconds:.1f} s: {found.ratio:.1f} times as fast, by processor time "
        f"{found.processor_ratio:.1f} times (target {found.target:g}), "
        + ("the same tokens." if found.same_tokens else "but NOT the same tokens: a bug.")
    )


def training(json: bool = False, batches: int = 5, batch_size: int = 24, threads: int = 1) -> None:
    """Measure how much faster the paper's 8m model trains when it computes only what is asked for.

    Forward and backward over the same batches of 10x10 DFS mazes, in the naive form (everything at every position) and
    in the fast one, in turns, with the share of the machine's float32 peak of each. Takes one to three minutes.

    Args:
        json: print one JSON document with everything measured, instead of a table.
        batches: how many batches each form computes.
        batch_size: mazes a batch.
        threads: CPU threads, for the model and for the peak. More than one is for a machine that does nothing else:
            threads wait for one another.
    """
    from clew.benchmarks.training import measure
    from clew.errors import UserError

    if batches < 1 or batch_size < 1 or threads < 1:
        raise UserError("--batches, --batch-size and --threads must each be 1 or more.")
    command = f"clew bench training --batches {batches} --batch-size {batch_size} --threads {threads}"
    report = measure(
        batches, batch_size, threads, command, say=lambda text: print(f"measuring: {text}", file=sys.stderr)
    )
    if json:
        print(report.as_json())
        return
    for name, form in (("naive", report.naive), ("fast", report.fast)):
        print(
            f"{name}: {form.median_seconds:.2f} s ({report.clock} clock) a batch of {report.batch_size}, "
            f"{form.mazes_per_second:.1f} mazes/s, {form.gigaflops:.1f} GFLOP/s, {form.share_of_peak:.0%} of the peak"
        )
    print(f"peak: {report.peak_gigaflops:.1f} GFLOP/s in float32, with {report.threads} thread(s)")
    print(f"the fast form is {report.ratio:.2f} times as fast (target {report.target:g})")
    print(f"the losses differ by {report.largest_loss_difference:.1e} at most (target {report.loss_tolerance:.0e})")


def cost(
    weights: str = "grid-dfs",
    sizes: str = "5,8,10,15,20,25,30",
    seconds: float = 4.0,
    threads: int = 1,
    json: bool = False,
    plot: Path | None = None,
) -> None:
    """Measure what a grid-pointer costs against the size of the maze, in time and memory, to train and to solve.

    Also the share of the machine's float32 peak of a training step at 10x10, for three widths, and where the rest of
    its time goes. Takes some ten minutes on a quiet machine.

    Args:
        weights: a trained grid-pointer, by name or folder; it solves the mazes, and what is trained has its shape.
        sizes: rows of the mazes, two at least, with commas between them.
        seconds: how long each piece of work is repeated; twice at least.
        threads: CPU threads. More than one is for a machine that does nothing else: threads wait for one another.
        json: print one JSON document with everything measured, instead of a table.
        plot: draw time and memory against the number of cells to this PNG or SVG file.
    """
    from dataclasses import asdict

    from clew.benchmarks.cost import measure
    from clew.benchmarks.cost_page import plot as draw
    from clew.benchmarks.cost_page import tables
    from clew.errors import UserError

    parts = sizes.split(",")
    if not all(part.isdecimal() and 3 <= int(part) <= 60 for part in parts) or len(set(map(int, parts))) < 2:
        raise UserError(f"the sizes {sizes!r} cannot be used; give two or more from 3 to 60 with commas, such as 5,10.")
    if not 0 < seconds <= 3600 or threads < 1:
        raise UserError("give --seconds a number above 0 and up to 3600, and --threads 1 or more.")
    if plot is not None and (plot.suffix not in (".png", ".svg") or not plot.parent.is_dir()):
        raise UserError(f"the plot {plot} cannot be written; give --plot a .png or .svg name in a folder that exists.")

    sides = sorted({int(part) for part in parts})
    command = (
        f"clew bench cost --weights {weights} --sizes {','.join(map(str, sides))} --seconds {seconds:g} "
        f"--threads {threads}"
    )
    report = measure(
        weights, sides, seconds, threads, command, say=lambda text: print(f"measuring: {text}", file=sys.stderr)
    )
    if plot is not None:
        draw(asdict(report), plot)
    print(report.as_json() if json else tables(asdict(report)))


def time_to_accuracy(
    sizes: str = "5,10",
    minutes: float = 10.0,
    size_of_paper_model: str = "8m",
    work: Path = Path("runs/time-to-accuracy"),
    held_out: int = 300,
    json: bool = False,
    plot: Path | None = None,
) -> None:
    """Measure the minutes of training to 50, 90 and 99 % exact paths on held-out DFS mazes.

    For the paper's MLM-U and next-token models on text, with its recipe, and for the grid-pointer and next token on
    cells: one after the other, each for as many minutes. The same command goes on where it was stopped.

    Args:
        sizes: the mazes' sizes, with commas between them.
        minutes: of training for each model; evaluation does not count.
        size_of_paper_model: tiny, 3m or 8m, or several with commas between them. The paper's is 8m; tiny has about as
            many parameters as the models on cells, and takes many more steps in the same minutes.
        work: the folder of the runs.
        held_out: how many mazes each evaluation solves.
        json: print one JSON document with everything measured, instead of a table.
        plot: draw the accuracy against the minutes to this PNG or SVG file.
    """
    from clew.benchmarks import time_to_accuracy as bench
    from clew.errors import UserError
    from clew.mazes.maze import MAX_SIDE, MIN_SIDE

    parts = sizes.split(",")
    if not all(part.isdecimal() and MIN_SIDE <= int(part) <= MAX_SIDE for part in parts):
        raise UserError(f"the sizes {sizes!r} cannot be read; give numbers with commas between them, such as 5,10.")
    models = size_of_paper_model.split(",")
    if not set(models) <= {"tiny", "3m", "8m"}:
        raise UserError(f"there is no paper model {size_of_paper_model!r}; use tiny, 3m or 8m, or several with commas.")
    if not 0 < minutes <= 10_000 or held_out < 1:
        raise UserError("give --minutes a number above 0 and up to 10,000, and --held-out 1 or more.")
    if plot is not None and (plot.suffix not in (".png", ".svg") or not plot.parent.is_dir()):
        raise UserError(f"the plot {plot} cannot be written; give --plot a .png or .svg name in a folder that exists.")

    command = (
        f"clew bench time-to-accuracy --sizes {sizes} --minutes {minutes:g} --size-of-paper-model "
        f"{size_of_paper_model} --held-out {held_out}"
    )
    try:
        report = bench.measure(
            sorted({int(part) for part in parts}),
            minutes,
            list(dict.fromkeys(models)),
            work,
            command,
            say=lambda text: print(f"training: {text}", file=sys.stderr),
            held_out=held_out,
        )
    except bench.Interrupted as stopped:
        print("clew: saved and stopped; the same command goes on from there.", file=sys.stderr)
        sys.exit(128 + stopped.signal)
    if plot is not None:
        bench.plot(report.curves, plot)
    print(report.as_json() if json else bench.table(report))


def recipes(
    model: Literal["grid-pointer", "grid-next-token"] = "grid-pointer",
    size: int = 8,
    minutes: float = 2.0,
    only: str = "",
    work: Path = Path("runs/recipes"),
    held_out: int = 500,
    json: bool = False,
) -> None:
    """Train a model on cells with one thing of its recipe changed at a time, each for the same minutes.

    The same command goes on where it was stopped.

    Args:
        model: the grid-pointer, or its rival, next token on the same input.
        size: of the DFS mazes that are scored; sizes grow up to it.
        minutes: of training for each recipe; evaluation does not count.
        only: names of some recipes, with commas between them; all if nothing is said.
        work: the folder of the runs, with one for each model in it.
        held_out: how many mazes each evaluation solves.
        json: print one JSON document with everything measured, instead of a table.
    """
    from dataclasses import asdict

    from clew.benchmarks import recipes as bench
    from clew.benchmarks.time_to_accuracy import Interrupted, measure_all
    from clew.errors import UserError

    if not 3 <= size <= 30:
        raise UserError(f"mazes of {size}x{size} cannot be used; give --size a number from 3 to 30.")
    if not 0 < minutes <= 10_000 or held_out < 1:
        raise UserError("give --minutes a number above 0 and up to 10,000, and --held-out 1 or more.")
    names = [name.strip() for name in only.split(",")] if only else bench.recipe_names(model)
    command = f"clew bench recipes --model {model} --size {size} --minutes {minutes:g} --held-out {held_out}"
    command += f" --only {only!r}" if only else ""
    try:
        report = measure_all(
            bench.recipes(model, size, minutes, held_out, names),
            work / model,
            command,
            say=lambda text: print(f"training: {text}", file=sys.stderr),
            points=bench.POINTS,
        )
    except Interrupted as stopped:
        print("clew: saved and stopped; the same command goes on from there.", file=sys.stderr)
        sys.exit(128 + stopped.signal)
    print(report.as_json() if json else "\n".join(bench.table(asdict(report)["curves"])))


def going_on(
    weights: str = "grid-dfs",
    sizes: str = "10:200,15:100,20:50,30:10",
    decoder: str = "repair",
    seed: int = 1,
    json: bool = False,
) -> None:
    """Measure how much faster a grid-pointer solves mazes that goes on from pass to pass with what its cells know.

    Args:
        weights: a trained grid-pointer, by name or folder.
        sizes: rows of the mazes, and how many of them, such as 10:200, with commas between them.
        decoder: one that asks several times and in any order, with its options.
        seed: of the held-out mazes.
        json: print one JSON document with everything measured, instead of a table.
    """
    from dataclasses import asdict

    from clew.benchmarks.going_on import measure, table
    from clew.errors import UserError

    pairs = []
    for part in sizes.split(","):
        side, _, mazes = part.partition(":")
        if not (side.isdecimal() and mazes.isdecimal() and 3 <= int(side) <= 60 and int(mazes) >= 1):
            raise UserError(
                f"the sizes {sizes!r} cannot be used; give rows from 3 to 60 and mazes, such as 10:200,20:50."
            )
        pairs.append((int(side), int(mazes)))
    command = f"clew bench going-on --weights {weights} --sizes {sizes} --decoder {decoder} --seed {seed}"
    report = measure(
        weights, decoder, pairs, seed, command, say=lambda text: print(f"solving: {text}", file=sys.stderr)
    )
    print(report.as_json() if json else "\n".join(table([asdict(each) for each in report.sizes])))


def report(root: Path = Path()) -> None:
    """Write what the benchmarks measured, the files under results/, into the pages under docs/.

    Args:
        root: the folder that has both.
    """
    from clew.benchmarks.sections import SECTIONS

    for page in dict.fromkeys(section.write(root) for section in SECTIONS):
        print(page)
