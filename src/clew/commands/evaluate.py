"""`clew evaluate RUN`: evaluate a model on held-out mazes."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clew.commands import announce_compilation, check_files, format_table, progress_bar, typed_command
from clew.errors import UserError, counted, printable, report_error
from clew.registry import model_folder

if TYPE_CHECKING:
    from clew.evaluation.scores import Evaluation
    from clew.mazes.maze import TaskBatch

ALL = "all"


def evaluate(
    run: str,
    /,
    *,
    mazes: int | None = None,
    input: str | None = None,
    data: Path | None = None,
    decoder: tuple[str, ...] = (),
    compare: tuple[str, ...] = (),
    family: str | None = None,
    size: int | None = None,
    embedded_in: int | None = None,
    embedding: Literal["joined", "cut-off"] | None = None,
    seed: int | None = None,
    batch_size: int | None = None,
    precision: Literal["fp32", "bf16", "fp16"] | None = None,
    device: str = "cpu",
    json: bool = False,
    report: Path | None = None,
) -> int:
    """Evaluate a model on held-out mazes.

    For example: clew evaluate runs/x --decoder left-to-right threshold --report out.html

    Reports exact-path accuracy, per-token accuracy, valid and shortest paths and unparsable responses, each with a 95 %
    interval, forward passes and time per maze, and the kinds of failures. A maze of --input that cannot be read or
    solved is named on stderr and left out, and the exit code is 1.

    Args:
        run: the folder of a run or of one of its checkpoints, or the name of a model that comes with Clew.
        mazes: how many held-out mazes. By default 2,000 of up to 10x10, and fewer of larger ones, which take
            longer: 125 of 20x20, 24 of 30x30.
        input: a file of mazes instead, in any form that `clew solve` reads (docs/data.md); - for standard input.
        data: the folder of a dataset, whose test split is used instead; --mazes takes the first of them.
        decoder: one or more decoders: for text models left-to-right (the default), right-to-left, both-ends, certainty,
            certainty-margin, certainty-entropy, threshold, entropy-bound, repair; for a cell network walk-repair (the
            default), walk, one-pass; with options as in certainty:count=4 or walk:origin=goal; or all.
        compare: other runs to evaluate on the same mazes.
        family: which held-out mazes; by default those that the run was trained on.
        size: their rows and columns; by default the (largest) size that the run was trained on. Path-star graphs
            have none.
        embedded_in: put each maze into the upper left corner of a random maze of this size.
        embedding: joined to the rest by one passage, so that the whole is a perfect maze (the default), or cut-off
            from it, as in the paper's published code.
        seed: which held-out mazes; by default the run's own.
        batch_size: mazes that are solved at once; by default as many as fit into memory.
        precision: of the matrix products. By default that of the run's own evaluations while it was trained, as in
            the paper; fp32 is the same on every machine.
        device: cpu, or cuda.
        json: print one JSON document with everything that was counted.
        report: write an HTML page with tables, charts and drawn mazes to this file.
    """
    if embedding is not None and embedded_in is None:
        raise UserError("--embedding needs --embedded-in, the size of the larger mazes; give both.")
    if input is not None and (mazes, family, size, embedded_in, seed) != (None,) * 5:
        raise UserError("give either --input or --mazes with its family, size and seed, not both.")
    if data is not None and (input, family, size, embedded_in, seed) != (None,) * 5:
        raise UserError("--data already selects the mazes; leave --input, --family, --size and --seed out.")
    if report is not None and not report.parent.is_dir():
        raise UserError(f"the folder {report.parent} does not exist; make it first, or give --report another name.")
    for name in (run, *compare):
        model_folder(name)  # a wrong name is reported before torch is imported
    check_files(input or "-")

    from clew.decoding.decode import decoders_for, default_decoder, parse_decoder
    from clew.provenance import provenance
    from clew.trained import load

    announce_compilation()
    for name in decoder:
        if name != ALL:
            parse_decoder(name)  # before anything is computed
    models = [load(name, device) for name in (run, *compare)]
    left_out: list[int] = []
    groups: list[TaskBatch]
    if input is not None:
        from clew.evaluation.tasks import from_file

        groups = from_file(input, lambda sentence: left_out.append(report_error(sentence)))
        if not groups:
            return 1
        what = f"the mazes of {'standard input' if input == '-' else input}"
        what += f" without {counted(len(left_out), 'maze')} that cannot be used" if left_out else ""
    elif data is not None:
        from clew.data.dataset import open_dataset

        split = open_dataset(data).split("test")
        if not len(split):
            raise UserError(f"the test split of {data} is empty; hold mazes out, or give them with --input.")
        groups = [split[:mazes]]
        what = f"{len(groups[0]):,} mazes of the test split of {data}"
    else:
        from clew.mazes.generate import canonical_family, describe_tasks

        first, how = models[0], embedding or "joined"
        groups = first.held_out(family, size, mazes, seed=seed, embedded_in=embedded_in, embedding=how)
        shape = (first.height, first.width) if size is None else (size, size)
        what = f"{len(groups[0]):,} held-out {describe_tasks(canonical_family(family or first.family), *shape)}"
        what += f" in the corner of {embedded_in}x{embedded_in} ones" if embedded_in else ""
        what += ", cut off from the rest" if how == "cut-off" else ""
    leaks = [model.leakage(groups) for model in models]
    for model, leak in zip(models, leaks, strict=True):
        if leak.perhaps_trained:
            print(printable(f"{model.name}: {leak}"), file=sys.stderr)

    evaluations = []
    settings: dict[str, Any] = {"tasks": groups, "batch_size": batch_size, "precision": precision}
    for model in models:
        every = decoders_for(model.model, model.codec)
        wanted = [name for each in decoder for name in (every if each == ALL else [each])]
        for name in dict.fromkeys(wanted or [default_decoder(model.codec)]):
            with progress_bar(f"{model.name}, {name}", sum(map(len, groups))) as progress:
                evaluations.append(model.evaluate(decoder=name, progress=progress, **settings))
    origin = provenance(typed_command(), [models[0].seed if seed is None else seed])
    if report is not None:
        precisions = {each.name: each.precision for each in evaluations}
        notes = [f"{m.name}: {m.parameters:,} parameters, precision {precisions[m.name]}." for m in models]
        notes += [f"{m.name}: {leak}" for m, leak in zip(models, leaks, strict=True)]
        from clew.viz.pages import Page, write_page

        title = f"{' and '.join(model.name for model in models)}: {what}"
        write_page(report, Page(title, evaluations, origin, notes))
    if json:
        value = {
            "mazes": what,
            "leakage": [str(leak) for leak in leaks],
            "provenance": origin,
            "evaluations": [each.to_json() for each in evaluations],
        }
        print(json_module.dumps(value, indent=2))
    else:
        _print(evaluations, what)
        if report is not None:
            print(f"the report is in {printable(str(report))}")
    return 1 if left_out else 0


HEAD = "model|decoder|exact %|95 %|per token|valid|shortest|unparsable|passes|ms a maze"


def _print(evaluations: list[Evaluation], what: str) -> None:
    """Print a table; the intervals of the other shares are in the JSON and in the report."""
    rows = [HEAD.split("|")]
    for each in evaluations:
        scores, exact = each.scores, each.scores.exact
        shares = (scores.per_token, scores.valid, scores.shortest, scores.unparsable)
        row = [each.name, each.decoder, f"{100 * exact.share:.1f}", f"{100 * exact.low:.1f} to {100 * exact.high:.1f}"]
        row += [f"{100 * share.share:.1f}" for share in shares]
        rows.append([*row, f"{scores.passes:.1f}", f"{1000 * each.seconds / max(1, len(each)):.1f}"])
    of_model = {each.name: each.precision for each in evaluations}
    precisions = [*dict.fromkeys(of_model.values())]
    if len(precisions) > 1:
        precisions = [f"{precision} ({name})" for name, precision in of_model.items()]
    print(printable(f"{what}, precision {', '.join(precisions)}"))
    print(format_table(rows))
    for each in evaluations:
        if counts := [f"{name} {count:,}" for name, count in each.failures().items() if count]:
            print(printable(f"{each.name}, {each.decoder} fails: {'; '.join(counts)}"))
