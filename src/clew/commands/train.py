"""`clew train CONFIG --out RUN`: train a model, or go on with a run that was interrupted.

    clew train --list
    clew train laptop-dfs-4-mlmu --out runs/mlmu --minutes 10 --optimizer.lr 3e-4
    torchrun --nproc-per-node 4 -m clew train paper-dfs-10-mlmu-8m --out runs/dfs-10
    clew train paper-dfs-10-mlmu-8m --out runs/dfs-10 --launcher slurm --slurm.partition gpu

Exit codes: 0 done; 1 failed; 2 called wrongly; 130 after Ctrl-C, 143 after SIGTERM and 140 after SIGUSR2, all with a
checkpoint saved, so that `clew train ... && clew evaluate ...` does not go on with half a run. The same command
resumes it.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from clew.errors import UsageError, UserError
from clew.training.callbacks import LogOptions
from clew.training.launch import SlurmOptions

if TYPE_CHECKING:
    from clew.training.callbacks import RunEnd
    from clew.training.config import TrainConfig

USAGE = """usage: clew train CONFIG --out RUN [--steps N | --epochs N | --minutes N] [--resume auto|never] [--FIELD X]

  CONFIG             the name of a config, or a run's config.json
  --out RUN          the folder of the run; if it holds this run already, it is gone on with

`clew train --list` shows the configs; `clew train CONFIG --help` shows every field of one, with its value."""


def train(arguments: Sequence[str]) -> None:
    """Train a model; the arguments are parsed here because the config decides which fields there are."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
    elif arguments == ["--list"]:
        print_configs()
    elif arguments[0].startswith("-"):
        raise UsageError("the config comes first: clew train CONFIG --out RUN; `clew train --list` shows the configs.")
    else:
        run_named(arguments[0], arguments[1:])


def print_configs() -> None:
    """Print a line for each named config, and the patterns of other names."""
    from clew.paper.named_configs import PATTERNS, list_configs

    names = list_configs()
    width = max(map(len, names))
    for name, summary in names.items():
        print(f"{name:<{width}}  {summary}")
    for pattern, summary in PATTERNS.items():
        print(f"{pattern}\n  {summary}")


@dataclasses.dataclass(frozen=True)
class Options:
    """What is asked for besides the config's fields."""

    # The folder of the run.
    out: Path
    # The budget, instead of the config's: exactly one of these.
    steps: int | None = None
    epochs: int | None = None
    # Minutes of training, evaluation not counted.
    minutes: float | None = None
    # auto goes on with the run in the folder, if there is one; never refuses to.
    resume: Literal["auto", "never"] = "auto"
    # local trains here; slurm hands the run to the cluster and returns.
    launcher: Literal["local", "slurm"] = "local"
    slurm: SlurmOptions = dataclasses.field(default_factory=SlurmOptions)
    log: LogOptions = dataclasses.field(default_factory=LogOptions)


def run_named(name: str, arguments: Sequence[str]) -> None:
    """Parse the fields that are to be changed, and train."""
    options, config = parse(starting_config(name), name, arguments)
    if options.launcher == "slurm":
        launch(config, options)
        return
    end = run(config, options.out, options.resume, options.log)
    if end.reason == "signal":
        print(f"clew: saved after step {end.step:,} and stopped; the same command goes on from there.", file=sys.stderr)
        sys.exit(128 + end.signal)


def launch(config: TrainConfig, options: Options) -> None:
    """Hand the run to Slurm."""
    from clew.training.callbacks import build_loggers
    from clew.training.checkpoint import CONFIG_FILE
    from clew.training.launch import job_folder, submit

    build_loggers(options.log)  # what is missing is told here and not in a log an hour later
    out = options.out.absolute()
    if options.resume == "never" and (out / CONFIG_FILE).exists():
        raise UserError(f"{options.out} already holds a run; use another --out, or --resume auto to go on.")
    # A job that comes out of the queue again must go on with what it has done.
    job = submit(functools.partial(run, config, out, "auto", options.log), out, options.slurm)
    print(f"job {job.job_id} is in the queue; its output goes to {job_folder(out)}/{job.job_id}")


def starting_config(name: str) -> TrainConfig:
    """Return the config of a name, or of a JSON file."""
    from clew.files import read_json
    from clew.paper.named_configs import config_named
    from clew.training.config import TrainConfig

    return TrainConfig.from_json(read_json(name), name) if name.endswith(".json") else config_named(name)


def parse(config: TrainConfig, name: str, arguments: Sequence[str]) -> tuple[Options, TrainConfig]:
    """The options, and the config with what the arguments change."""
    from clew.training.config import Budget, TrainConfig

    # The config decides the kind of model; the budget has flags of its own, above.
    shown: Any = dataclasses.make_dataclass(
        "Config",
        [("model", type(config.model)), ("budget", Annotated[Budget, tyro.conf.Fixed, tyro.conf.Suppress])],
        bases=(TrainConfig,),
        # Checked below, when the vocabulary has followed the mazes.
        namespace={"__post_init__": lambda self: None},
        frozen=True,
    )
    default = shown(**vars(config))

    def both(options: Options, config: Any) -> tuple[Options, Any]:
        return options, config

    both.__annotations__ = {
        "options": Annotated[Options, tyro.conf.arg(name="")],
        "config": Annotated[shown, tyro.conf.arg(name="")],
    }
    both.__defaults__ = (default,)
    options, changed = tyro.cli(
        both, prog=f"clew train {name}", args=list(arguments), config=(tyro.conf.FlagCreatePairsOff,)
    )
    fields = {field.name: getattr(changed, field.name) for field in dataclasses.fields(TrainConfig)}
    return options, resolve(config, fields, options)


def resolve(named: TrainConfig, fields: dict[str, Any], options: Options) -> TrainConfig:
    """The whole config: the budget as asked for, the data as its folder says, the vocabulary as the mazes need."""
    from clew.data.loader import adopt_dataset
    from clew.training.config import Budget, TrainConfig, is_text_model, vocabulary_of, with_vocabulary

    if (options.steps, options.epochs, options.minutes) != (None, None, None):
        fields["budget"] = Budget(options.steps, options.epochs, options.minutes)
    fields["data"] = adopt_dataset(fields["data"], named.data)
    model, data = fields["model"], fields["data"]
    # A model may have more ids than its mazes need; only other mazes are a reason to change their number.
    other_mazes = (data.format, data.shapes) != (named.data.format, named.data.shapes)
    if is_text_model(model) and model.vocabulary == vocabulary_of(named.model) and other_mazes:
        fields["model"] = with_vocabulary(model, data)
    return TrainConfig(**fields)


def run(config: TrainConfig, out: Path, resume: Literal["auto", "never"], log: LogOptions) -> RunEnd:
    """Train alone, or as one of torchrun's or Slurm's processes."""
    from clew.training.progress import ProgressDisplay
    from clew.training.train import train

    return train(config, out, callbacks=[ProgressDisplay()], resume=resume, log=log).end
