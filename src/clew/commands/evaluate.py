"""`clew evaluate RUN`: evaluate a model on held-out mazes."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import clew
from clew.commands import ReportedErrors, check_files, format_table, print_line, progress_bar, typed_command
from clew.data.dataset import open_dataset
from clew.errors import UserError, counted, report_error
from clew.evaluation.scores import Evaluation
from clew.evaluation.tasks import from_file
from clew.mazes.generate import canonical_family, describe_tasks
from clew.mazes.maze import TaskBatch
from clew.provenance import provenance
from clew.viz.pages import Page, write_page


def evaluate(
    run: str,  # the folder of a run or of one of its checkpoints, or the name of a model that comes with Clew
    *,
    mazes: int | None = None,  # how many held-out mazes (default 2,000 up to 10x10, 125 of 20x20, 24 of 30x30)
    input: str | None = None,  # a file of mazes instead, in any form (docs/data.md); - for standard input
    data: Path | None = None,  # the folder of a dataset, whose test split is used instead; --mazes takes the first
    decoder: tuple[str, ...] = (),  # such as left-to-right or certainty:count=4 (docs/decoding.md lists them), or all
    compare: tuple[str, ...] = (),  # other runs to evaluate on the same mazes
    family: str | None = None,  # which held-out mazes; by default those that the run was trained on
    size: int | None = None,  # their rows and columns; by default the (largest) size that the run was trained on
    embedded_in: int | None = None,  # put each maze into the upper left corner of a random maze of this size
    # joined to the rest by one passage (default), or cut-off from it, as in the paper's published code
    embedding: Literal["joined", "cut-off"] | None = None,
    seed: int | None = None,  # which held-out mazes; by default the run's own
    batch_size: int | None = None,  # mazes that are solved at once; by default as many as fit into memory
    # of the matrix products (default: that of the run's own evaluations); fp32 is the same on every machine
    precision: Literal["fp32", "bf16", "fp16"] | None = None,
    device: str = "cpu",  # cpu, or cuda
    json: bool = False,  # print one JSON document with everything that was counted
    report: Path | None = None,  # write an HTML page with tables, charts and drawn mazes to this file
) -> int:
    """Evaluate a model on held-out mazes.

    For example: clew evaluate runs/x --decoder left-to-right threshold --report out.html

    Reports exact-path accuracy, per-token accuracy, valid and shortest paths and unparsable responses, each with a 95 %
    interval, forward passes and time per maze, and the kinds of failures. A maze of --input that cannot be read or
    solved is named on stderr and left out, and the exit code is 1.
    """
    if embedding is not None and embedded_in is None:
        raise UserError("--embedding needs --embedded-in, the size of the larger mazes; give both.")
    fresh = (family, size, embedded_in, seed)
    for option, value, others in (("input", input, (mazes, data, *fresh)), ("data", data, fresh)):
        if value is not None and any(other is not None for other in others):
            raise UserError(
                f"--{option} already selects the mazes; leave out what selects held-out ones, such as --size."
            )
    if report is not None and not report.parent.is_dir():
        raise UserError(f"the folder {report.parent} does not exist; make it first, or give --report another name.")
    check_files(input or "-")
    models = [clew.load(name, device) for name in (run, *compare)]

    from clew.decoding.decode import decoders_for, default_decoder, parse_decoder

    chosen = []
    for model in models:
        every = decoders_for(model.model, model.codec)
        for name in every if "all" in decoder else dict.fromkeys(decoder or [default_decoder(model.codec)]):
            parse_decoder(name)  # before anything is computed
            chosen.append((model, name))
    refused = ReportedErrors()
    groups: list[TaskBatch]
    if input is not None:
        groups = from_file(input, refused)
        if not groups:
            return 1
        what = f"the mazes of {'standard input' if input == '-' else input}"
        what += f" without {counted(len(refused), 'maze')} that cannot be used" if refused else ""
    elif data is not None:
        groups = [open_dataset(data).split("test")[:mazes]]
        if not len(groups[0]):
            raise UserError(f"the test split of {data} is empty; hold mazes out, or give them with --input.")
        what = f"{len(groups[0]):,} mazes of the test split of {data}"
    else:
        first, how = models[0], embedding or "joined"
        groups = first.held_out(family, size, mazes, seed=seed, embedded_in=embedded_in, embedding=how)
        shape = (first.height, first.width) if size is None else (size, size)
        what = f"{len(groups[0]):,} held-out {describe_tasks(canonical_family(family or first.family), *shape)}"
        what += f" in the corner of {embedded_in}x{embedded_in} ones" if embedded_in else ""
        what += ", cut off from the rest" if how == "cut-off" else ""
    leaks = [model.leakage(groups) for model in models]
    for model, leak in zip(models, leaks, strict=True):
        if leak.perhaps_trained:
            report_error(f"{model.name}: {leak}")

    evaluations = []
    settings: dict[str, Any] = {"tasks": groups, "batch_size": batch_size, "precision": precision}
    for model, name in chosen:
        with progress_bar(f"{model.name}, {name}", sum(map(len, groups))) as progress:
            evaluations.append(model.evaluate(decoder=name, progress=progress, **settings))
    origin = provenance(typed_command(), [models[0].seed if seed is None else seed])
    if report is not None:
        notes = [
            f"{model.name}: {model.parameters:,} parameters, precision {precision or model.precision}; {leak}"
            for model, leak in zip(models, leaks, strict=True)
        ]
        write_page(report, Page(f"{' and '.join(model.name for model in models)}: {what}", evaluations, origin, notes))
    if json:
        document = {
            "mazes": what,
            "leakage": [str(leak) for leak in leaks],
            "provenance": origin,
            "evaluations": [each.to_json() for each in evaluations],
        }
        print(json_module.dumps(document, indent=2))
    else:
        print_line(f"{what}:")
        print(scores_table(evaluations))
        for each in evaluations:
            if counts := [f"{name} {count:,}" for name, count in each.failures().items() if count]:
                print_line(f"{each.name}, {each.decoder} fails: {'; '.join(counts)}")
        if report is not None:
            print_line(f"the report is in {report}")
    return 1 if refused else 0


def scores_table(evaluations: Sequence[Evaluation]) -> str:
    """Return a table of scores; the intervals of the other shares are in the JSON and in the report."""
    names = ["per_token", "valid", "shortest", "unparsable"]
    rows = [
        ["model", "decoder", "precision", "mazes", "exact", *(f"{name} %" for name in names), "passes", "ms a maze"]
    ]
    for each in evaluations:
        shares = [f"{100 * getattr(each.scores, name).share:.1f}" for name in names]
        cost = f"{each.scores.passes:.1f}", f"{1000 * each.seconds / max(1, len(each)):.1f}"
        rows.append([each.name, each.decoder, each.precision, f"{len(each):,}", str(each.exact), *shares, *cost])
    return format_table(rows)
