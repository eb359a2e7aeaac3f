"""`clew train CONFIG --out RUN`: train a model, or resume a run.

Exit codes: 0 done; 1 failed; 2 wrong call; 130 after Ctrl-C, 143 after SIGTERM and 140 after SIGUSR2, all with a
checkpoint saved, so that `clew train ... && clew evaluate ...` stops there. The same command resumes the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import clew
from clew.commands import format_table, print_line
from clew.commands.options import Parser, PlainParser
from clew.errors import UsageError, UserError, report_error
from clew.files import from_text
from clew.models.config import change_kind, config_class, kind_of, to_json
from clew.paper.named_configs import PATTERNS
from clew.registry import load_plugins, loaded_plugins
from clew.training import slurm as cluster
from clew.training.callbacks import Logger, LogOptions, RunEnd
from clew.training.config import TrainConfig
from clew.training.slurm import SlurmOptions


def train(
    config: str,  # the name of a config, or the path of a run's config.json
    *,
    out: Path,  # the folder of the run; a run that it holds is resumed
    lr: float | None = None,  # the learning rate (--optimizer.lr)
    size: int | None = None,  # rows and columns of the mazes (--data.sizes)
    sweep: tuple[str, ...] = (),  # values to try, such as lr=1e-3,3e-4; each combination is a run below --out
    seeds: int | None = None,  # how many seeds of each run to train, from the config's on, in folders below --out
    resume: Literal["auto", "never"] = "auto",  # auto resumes the run in the folder, if there is one; never refuses it
    launcher: Literal["local", "slurm"] = "local",  # slurm submits the run to the cluster and returns
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
        print(format_table([*clew.list_configs().items()]))
        for pattern, summary in PATTERNS.items():
            print(f"{pattern}\n  {summary}")
        return 0
    if words and not words[0].startswith("-"):
        base = clew.config(words[0])
        first = PlainParser(add_help=False, allow_abbrev=False, usage=parser.usage)
        first.add_argument("--model.kind", dest="kind", default=kind_of(base.model))
        model = change_kind(to_json(base.model), first.parse_known_args(words)[0].kind)
        kind = model.pop("kind")
        parser.add(type(base.budget), vars(base.budget))
        parser.add(type(base), {name: value for name, value in vars(base).items() if name not in ("budget", "model")})
        parser.add(config_class(kind), model, prefix="model.")
        parser.add_option("model.kind", str, kind, "another kind of model, such as decoder-only, or a registered one")
    elif words and words[0] not in ("-h", "--help"):
        raise UsageError("the config comes first: clew train CONFIG --out RUN; `clew train --list` lists the configs.")
    return parser.call(words)


def combinations(seed: int, sweep: Sequence[str], seeds: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the folder name and the changes of every run of a sweep."""
    axes: dict[str, list[str]] = {}
    seeded = [f"seed={','.join(str(seed + i) for i in range(seeds))}"] if seeds else []
    for text in (*sweep, *seeded):
        field, words = text.partition("=")[0].replace("-", "_"), text.partition("=")[2].split(",")
        if not all(words) or field in axes or len({repr(from_text(object, word)) for word in words}) < len(words):
            raise UsageError(f"--sweep cannot be {text!r}; give each field and value once, such as lr=1e-3,3e-4.")
        axes[field] = words
    for chosen in itertools.product(*axes.values()):
        named = dict(zip(axes, chosen, strict=True))
        name = "-".join(f"{field}={word}" for field, word in named.items())
        yield name, {field: from_text(object, word) for field, word in named.items()}


def submit(runs: Mapping[Path, TrainConfig], out: Path, resume: str, slurm: SlurmOptions, log: LogOptions) -> None:
    """Submit a run to Slurm, or those of a sweep as one job array."""
    Logger(log)  # a missing package is reported here and not in a job's log
    for folder in runs:
        if resume == "never" and (folder / "config.json").exists():
            raise UserError(f"{folder} already holds a run; use another --out, or --resume auto to resume it.")
    # A job that Slurm requeues must resume; it may start in another folder.
    works = [partial(run, config, folder.absolute(), "auto", log, loaded_plugins()) for folder, config in runs.items()]
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    for job, folder in zip(cluster.submit(works, out, slurm), runs, strict=True):
        print_line(f"job {job.job_id} trains {folder}; its output goes to {cluster.job_folder(out)}/{job.job_id}")


def run(
    config: TrainConfig, out: Path, resume: Literal["auto", "never"], log: LogOptions, plugins: Sequence[str] = ()
) -> RunEnd:
    """Train in this process, alone or as one of torchrun's or Slurm's."""
    load_plugins(plugins)
    return clew.train(config, out, resume=resume, log=log).end
