"""`clew train CONFIG --out RUN`: train a model, or resume a run.

Exit codes: 0 done; 1 failed; 2 wrong call; 130 after Ctrl-C, 143 after SIGTERM and 140 after SIGUSR2, all with a
checkpoint saved, so that `clew train ... && clew evaluate ...` stops there. The same command resumes the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import clew
from clew.commands import format_table, say
from clew.commands.options import Parser, PlainParser
from clew.errors import UsageError, UserError, report_error
from clew.files import from_text
from clew.registry import load_plugins, loaded_plugins
from clew.training.callbacks import LogOptions
from clew.training.slurm import SlurmOptions

if TYPE_CHECKING:
    from clew.training.callbacks import RunEnd
    from clew.training.config import TrainConfig


def train(
    config: str,  # the name of a config, or the path of a run's config.json
    *,
    out: Path,  # the folder of the run; a run that it holds is resumed
    lr: float | None = None,  # the learning rate (--optimizer.lr)
    size: int | None = None,  # rows and columns of the mazes (--data.sizes)
    # fields with values to try, such as lr=1e-3,3e-4; every combination is a run in a folder below --out
    sweep: tuple[str, ...] = (),
    # how many seeds of each run to train, from the config's seed on, each in a folder below --out
    seeds: int | None = None,
    resume: Literal["auto", "never"] = "auto",  # auto resumes the run in the folder, if there is one; never refuses it
    # local trains here; slurm submits the run to the cluster and returns
    launcher: Literal["local", "slurm"] = "local",
    slurm: SlurmOptions = SlurmOptions(),  # noqa: B008  (frozen)
    log: LogOptions = LogOptions(),  # noqa: B008  (frozen)
    **others: Any,
) -> int:
    """Train a model, or resume a run: make the dataset if needed, evaluate on held-out mazes.

    `clew train --list` lists the configs; `clew train CONFIG --help` also lists the fields of a config. --model.kind
    gives another model, with the fields that both have as they were.
    """
    if seeds is not None and seeds < 1:
        raise UserError(f"{seeds} seeds train nothing; use 1 or more.")
    changes = others | {name: value for name, value in (("lr", lr), ("size", size)) if value is not None}
    runs = {out: clew.config(config, **changes)}
    if sweep or seeds is not None:
        tried = combinations(clew.config(config).seed, sweep, seeds)
        runs = {out / name: clew.config(config, **changes | more) for name, more in tried}
    if launcher == "slurm":
        submit(runs, out, resume, slurm, log)
        return 0
    for folder, each in runs.items():
        end = run(each, folder, resume, log)
        if end.reason == "signal":
            what = f"saved after step {end.step:,} and stopped; the same command resumes {folder}."
            return report_error(what, 128 + end.signal)
    return 0


def parse(parser: Parser, words: Sequence[str]) -> object:
    """Run `train` with options of its own and with one for each field of the config, which is named first."""
    if words == ["--list"]:
        from clew.paper.named_configs import PATTERNS

        print(format_table([*clew.list_configs().items()]))
        for pattern, summary in PATTERNS.items():
            print(f"{pattern}\n  {summary}")
        return 0
    if words and not words[0].startswith("-"):
        from clew.models.config import config_class, kind_of

        base = clew.config(words[0])
        own = kind_of(base.model)
        first = PlainParser(add_help=False, allow_abbrev=False, usage=parser.usage)
        first.add_argument("--model.kind", dest="kind", default=own)
        kind = first.parse_known_args(words)[0].kind
        model = vars(base.model) if kind == own else {field.name: field.default for field in fields(config_class(kind))}
        parser.add(type(base.budget), vars(base.budget))
        parser.add(type(base), {name: value for name, value in vars(base).items() if name not in ("budget", "model")})
        parser.add(config_class(kind), {n: None if v is MISSING else v for n, v in model.items()}, prefix="model.")
        parser.add_option("model.kind", str, kind, "another kind of model, such as decoder-only, or a registered one")
    elif words and words[0] not in ("-h", "--help"):
        raise UsageError("the config comes first: clew train CONFIG --out RUN; `clew train --list` lists the configs.")
    return parser.call(words)


def combinations(seed: int, sweep: Sequence[str], seeds: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the folder name and the changes of every run of a sweep."""
    axes = [
        (field.replace("-", "_"), values.split(",")) for field, _, values in (text.partition("=") for text in sweep)
    ]
    for text, (_, values) in zip(sweep, axes, strict=True):
        if not all(values):
            raise UsageError(f"--sweep cannot be {text!r}; give a field and its values, such as lr=1e-3,3e-4.")
    if seeds is not None:
        axes.append(("seed", [str(seed + i) for i in range(seeds)]))
    tried = {field: [from_text(object, value) for value in values] for field, values in axes}
    if len(tried) < len(axes) or any(len({*map(repr, values)}) < len(values) for values in tried.values()):
        raise UsageError("--sweep repeats a field or a value; give each once.")
    names = itertools.product(*([f"{field}={value}" for value in values] for field, values in axes))
    for name, chosen in zip(names, itertools.product(*tried.values()), strict=True):
        yield "-".join(name), dict(zip(tried, chosen, strict=True))


def submit(runs: Mapping[Path, TrainConfig], out: Path, resume: str, slurm: SlurmOptions, log: LogOptions) -> None:
    """Submit a run to Slurm, or those of a sweep as one job array."""
    from clew.training import slurm as cluster
    from clew.training.callbacks import build_loggers

    build_loggers(log)  # a missing package is reported here and not in a job's log
    for folder in runs:
        if resume == "never" and (folder / "config.json").exists():
            raise UserError(f"{folder} already holds a run; use another --out, or --resume auto to resume it.")
    # A job that Slurm requeues must resume; it may start in another folder.
    works = [partial(run, config, folder.absolute(), "auto", log, loaded_plugins()) for folder, config in runs.items()]
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    for job, folder in zip(cluster.submit(works, out, slurm), runs, strict=True):
        say(f"job {job.job_id} trains {folder}; its output goes to {cluster.job_folder(out)}/{job.job_id}")


def run(
    config: TrainConfig, out: Path, resume: Literal["auto", "never"], log: LogOptions, plugins: Sequence[str] = ()
) -> RunEnd:
    """Train in this process, alone or as one of torchrun's or Slurm's."""
    load_plugins(plugins)
    return clew.train(config, out, resume=resume, log=log).end
