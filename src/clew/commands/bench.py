"""`clew bench ...`: speed, always as a ratio measured side by side in one run."""

from __future__ import annotations

import sys
from pathlib import Path


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
