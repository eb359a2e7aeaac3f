"""`clew train CONFIG --out RUN`: train a model, or resume a run.

Exit codes: 0 done; 1 failed; 2 wrong call; 130 after Ctrl-C, 143 after SIGTERM and 140 after SIGUSR2, all with a
checkpoint saved, so that `clew train ... && clew evaluate ...` stops there. The same command resumes the run.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clew.commands import announce_compilation
from clew.commands.options import Parser, call, flag_of
from clew.errors import UsageError, UserError, did_you_mean, is_quiet, printable
from clew.registry import load_plugins, loaded_plugins
from clew.training.callbacks import LogOptions
from clew.training.slurm import SlurmOptions

if TYPE_CHECKING:
    from clew.training.callbacks import RunEnd
    from clew.training.config import TrainConfig


def train(
    config: str,
    /,
    *,
    out: Path,
    steps: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    lr: float | None = None,
    size: int | None = None,
    sweep: tuple[str, ...] = (),
    seeds: int | None = None,
    resume: Literal["auto", "never"] = "auto",
    launcher: Literal["local", "slurm"] = "local",
    slurm: SlurmOptions = SlurmOptions(),  # noqa: B008  (frozen)
    log: LogOptions = LogOptions(),  # noqa: B008
    **fields: Any,
) -> int:
    """Train a model, or resume a run: make the dataset if needed, evaluate on held-out mazes.

    `clew train --list` lists the configs; `clew train CONFIG --help` also lists the fields of a config. --model.kind
    gives another model, with the fields that both have as they were.

    Args:
        config: the name of a config, or the path of a run's config.json.
        out: the folder of the run; a run that it holds is resumed.
        steps: the budget in optimizer steps, instead of the config's.
        epochs: the budget in epochs of a dataset.
        minutes: the budget in minutes of training, without evaluation.
        lr: the learning rate (--optimizer.lr).
        size: rows and columns of the mazes (--data.sizes).
        sweep: fields with values to try, such as lr=1e-3,3e-4; every combination is a run in a folder below --out.
        seeds: how many seeds of each run to train, from the config's seed on, each in a folder below --out.
        resume: auto resumes the run in the folder, if there is one; never refuses it.
        launcher: local trains here; slurm submits the run to the cluster and returns.
    """
    import clew
    from clew.api import change_config

    if seeds is not None and seeds < 1:
        raise UserError(f"{seeds} seeds train nothing; use 1 or more.")
    given = {"steps": steps, "epochs": epochs, "minutes": minutes, "lr": lr, "size": size}
    changes = fields | {name: value for name, value in given.items() if value is not None}
    base = clew.config(config)
    runs = {out: change_config(base, changes)}
    if sweep or seeds is not None:
        runs = {out / name: change_config(base, changes | more) for name, more in combinations(base.seed, sweep, seeds)}
    announce_compilation()
    if launcher == "slurm":
        submit(runs, out, resume, slurm, log)
        return 0
    for folder, each in runs.items():
        end = run(each, folder, resume, log)
        if end.reason == "signal":
            what = f"saved after step {end.step:,} and stopped; the same command resumes {printable(str(folder))}."
            print(f"clew: {what}", file=sys.stderr)
            return 128 + end.signal
    return 0


def parse_and_run(arguments: Sequence[str]) -> object:
    """Run `train` with options of its own and with one for each field of the config, which is named first."""
    if arguments[:1] == ["--list"]:
        print_configs()
        return 0
    parser = Parser("clew train", inspect.getdoc(train) or "")
    parser.add_parameters(train)
    flags = [flag_of(word) for word in arguments if word.startswith("-") and flag_of(word) not in parser.flags[2:]]
    wants_help = bool({"-h", "--help"} & {*arguments})
    if arguments and not arguments[0].startswith("-"):
        check_name(arguments[0])
    if flags and not arguments[0].startswith("-"):
        if not loaded_plugins() and not wants_help:  # models of plug-ins have fields of their own
            check_options(arguments)
        import clew
        from clew.models.config import config_class, kind_of

        base = clew.config(arguments[0])
        first = Parser("clew train", add_help=False)
        first.add_argument("--model.kind", dest="kind", default=kind_of(base.model))
        kind = first.parse_known_args([*arguments])[0].kind
        parser.add_fields(base, skip=("budget", "model"))
        parser.add_fields(base.model if kind == kind_of(base.model) else config_class(kind), "model.")
        parser.help_of["model.kind"] = "another kind of model, such as decoder-only, or a registered one"
        parser.add_option("model.kind", str, kind)
    elif flags and not wants_help:
        raise UsageError("the config comes first: clew train CONFIG --out RUN; `clew train --list` lists the configs.")
    given = parser.parse(arguments)
    return 0 if given is None else call(train, given)


def check_name(name: str) -> None:
    """Raise UserError for a config that does not exist, without torch: the names are read from source text."""
    if name.endswith(".json"):
        if not Path(name).exists():
            raise UserError(f"{name} does not exist.")
        return
    source = (Path(__file__).parents[1] / "paper" / "named_configs.py").read_text()
    names = re.findall(r'^    "([\w-]+)": \w', source, re.MULTILINE)
    if name not in names and not name.startswith(("paper-", "published-", "star-")):
        hint = did_you_mean(name, [*names, "paper-dfs-10-mlmu-8m"], "`clew train --list` shows all.")
        raise UserError(f"there is no config {name!r}; {hint}")


def check_options(arguments: Sequence[str]) -> None:
    """Raise UsageError for a wrong option or value, without torch: the fields of a config are read from source text."""
    fields: dict[str, dict[str, str]] = {"ModelConfig": {}}  # of each class: names and types
    types: dict[str, Any] = {"Literal": Literal}
    for part in ("training", "data", "objectives", "models"):
        for file in sorted((Path(__file__).parents[1] / part).glob("*.py")):
            source = file.read_text()
            for name, text in re.findall(r"^(\w+) = (Literal\[.*\])$", source, re.MULTILINE):
                types[name] = eval(text, types)
            for name, body in re.findall(r"^class (\w*Config)\b.*:\n((?:(?:    .*)?\n)*)", source, re.MULTILINE):
                fields[name] = dict(re.findall(r"^    (\w+): (.+?)(?: =.*|  #.*)?$", body, re.MULTILINE))
                if part == "models":  # a config has one of them
                    fields["ModelConfig"] |= fields[name]
    parser = Parser("clew train")
    parser.add_parameters(train)

    def add_fields(name: str, prefix: str) -> None:
        for field, text in fields[name].items():
            if text in fields:
                add_fields(text, f"{prefix}{field}.")
            elif text != "Budget":
                for default in (False, True) if text == "bool" else (None,):
                    parser.add_option(prefix + field, eval(text, types), default)

    add_fields("TrainConfig", "")
    parser.add_option("model.kind", str, None)
    parser.parse(arguments)


def print_configs() -> None:
    from clew.paper.named_configs import PATTERNS, list_configs

    names = list_configs()
    width = max(map(len, names))
    for name, summary in names.items():
        print(f"{name:<{width}}  {summary}")
    for pattern, summary in PATTERNS.items():
        print(f"{pattern}\n  {summary}")


def combinations(seed: int, sweep: Sequence[str], seeds: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the folder name and the changes of every run of a sweep."""
    axes: list[list[tuple[str, str, Any]]] = []  # for each field: (field, value as given, value)
    for text in sweep:
        field, equals, values = text.partition("=")
        if not equals or not all(values.split(",")):
            raise UsageError(f"--sweep cannot be {text!r}; give a field and its values, such as lr=1e-3,3e-4.")
        axis = [(field.replace("-", "_"), value, _number(value)) for value in values.split(",")]
        if len({repr(number) for *_, number in axis}) < len(axis) or any(axis[0][0] == other[0][0] for other in axes):
            raise UsageError(f"--sweep {text} repeats a field or a value; give each once.")
        axes.append(axis)
    if seeds is not None:
        axes.append([("seed", str(seed + i), seed + i) for i in range(seeds)])
    for chosen in itertools.product(*axes):
        yield "-".join(f"{field}={text}" for field, text, _ in chosen), {field: value for field, _, value in chosen}


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def submit(runs: Mapping[Path, TrainConfig], out: Path, resume: str, slurm: SlurmOptions, log: LogOptions) -> None:
    """Submit a run to Slurm, or those of a sweep as one job array."""
    from clew.training import slurm as cluster
    from clew.training.callbacks import Logger
    from clew.training.checkpoint import CONFIG_FILE

    Logger(log)  # a missing package is reported here and not in a job's log
    works = []
    for folder, config in runs.items():
        if resume == "never" and (folder / CONFIG_FILE).exists():
            raise UserError(f"{folder} already holds a run; use another --out, or --resume auto to resume it.")
        # A job that Slurm requeues must resume; it may start in another folder.
        works.append(functools.partial(run, config, folder.absolute(), "auto", log, loaded_plugins()))
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    for job, folder in zip(cluster.submit(works, out, slurm), runs, strict=True):
        logs = f"{cluster.job_folder(out)}/{job.job_id}"
        print(f"job {job.job_id} trains {printable(str(folder))}; its output goes to {logs}")


def run(
    config: TrainConfig, out: Path, resume: Literal["auto", "never"], log: LogOptions, plugins: Sequence[str] = ()
) -> RunEnd:
    """Train in this process, alone or as one of torchrun's or Slurm's."""
    load_plugins(plugins)
    import clew

    return clew.train(config, out, resume=resume, log=log, quiet=is_quiet()).end


train.parse_and_run = parse_and_run  # type: ignore[attr-defined]
