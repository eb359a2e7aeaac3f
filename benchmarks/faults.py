"""Count what faults do to Clew: kills, damaged files, a full disk, two processes in one folder, Ctrl-C, odd inputs.

    python benchmarks/faults.py --seconds 600 --fuzz 100000 --interrupts 50

Each trial runs one or more commands and ends in one of these ways; the counts go to results/faults.json and
docs/faults.md. A part whose number is 0 is left out and keeps its older counts.

| outcome | meaning |
|---|---|
| refused | one sentence on stderr and a non-zero exit code |
| told | the command used something else, such as an older checkpoint, and said so |
| harmless | the result is the one without the fault, bit for bit |
| silent | another result, without a word |
| traceback | a traceback, or no sentence |
| hang | no end within two minutes |

Commands run in forks of this process, which imports everything and uses nothing, so a trial takes a fraction of a
second; only Ctrl-C is tried on processes of their own, whose imports are interrupted too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: runs are equal bit for bit with one thread

import fuzz

from clew import cli
from clew.files import read_json, write_json
from clew.provenance import provenance
from clew.viz.pages import replace_section

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "results" / "faults.json"
PAGE = ROOT / "docs" / "faults.md"
BAD = ("silent", "traceback", "hang")
COLUMNS = {
    "campaigns": ("trials", "killed", "refused", "told", "harmless", *BAD),
    "interrupts": ("one line, exit 130", "before Clew's first line", "ended before", *BAD[1:]),
    "fuzz": ("read", "refused", *BAD[1:]),
}
TITLES = {"campaigns": "fault", "interrupts": "Ctrl-C in", "fuzz": "odd input"}
PATIENCE = 120.0  # seconds after which a command hangs

GENERATE = "generate dfs --size 6 --count 3000 --test 200 --workers 1 --out data"
TRAIN = (
    "train tiny --data.source dataset --data.folder data --data.sizes 6 --steps 12 --batch-size 8 --held-out 8 "
    "--checkpoint-every 4 --evaluate-every 6 --log-every 2 --ema 0.9 --threads 1 --model.width 16 --out run"
)
EVALUATE = "evaluate {} --size 6 --mazes 8 --json --report report.html"
SHIPPED = "cells-dfs"


@dataclass(frozen=True)
class Ended:
    """How a command ended; the code of a killed one is negative, that of a hanging one None."""

    code: int | None
    out: str
    error: str

    @property
    def problem(self) -> str:
        """The outcome if the command did not exit with 0, else nothing."""
        if self.code is None:
            return "hang"
        if "Traceback" in self.error or "Error:" in self.error or self.code < 0:
            return "traceback"
        told = [line for line in self.error.splitlines() if line.startswith("clew: ")]
        return "" if self.code == 0 else "refused" if told else "traceback"


def launch(folder: Path, command: str, prepare: Callable[[], None] = lambda: None) -> int:
    """Start `clew COMMAND` in a fork of this process; its output goes to files that `wait` reads."""
    if pid := os.fork():
        return pid
    code = 70
    try:
        os.chdir(folder)
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(_output(os.getpid(), name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
        prepare()
        code = cli.run(shlex.split(command))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _output(pid: int, name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"clew-faults-{pid}.{name}"


def wait(pid: int, kill_after: float = PATIENCE) -> Ended:
    """Wait for a command; kill it after so many seconds."""
    end = time.monotonic() + kill_after
    killed = False
    while not (found := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > end and not killed:
            os.kill(pid, signal.SIGKILL)
            killed = True
        time.sleep(0.002)
    files = [_output(pid, name) for name in ("out", "err")]
    out, error = (file.read_text(errors="replace") if file.exists() else "" for file in files)
    for file in files:
        file.unlink(missing_ok=True)
    hangs = killed and kill_after == PATIENCE
    return Ended(None if hangs else os.waitstatus_to_exitcode(found[1]), out, error)


def run(folder: Path, command: str) -> Ended:
    return wait(launch(folder, command))


def die_at(number: int) -> Callable[[], None]:
    """Return what makes a process kill itself at the n-th time that it flushes or renames a file."""

    def prepare() -> None:
        left = [number]

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **options)

            return call

        for name in ("fsync", "rename", "replace"):
            setattr(os, name, counted(getattr(os, name)))

    return prepare


def digest(folder: Path, pattern: str = "*") -> dict[str, str]:
    """Return the checksum of every file of a folder, without locks and what a kill left behind."""
    files = [file for file in sorted(folder.rglob(pattern)) if file.is_file()]
    shown = {file.relative_to(folder).as_posix(): file for file in files}
    names = [name for name in shown if not re.search(r"(^|/)(\.|damaged-)", name)]
    return {name: hashlib.sha256(shown[name].read_bytes()).hexdigest() for name in names}


def trained(run_folder: Path) -> Any:
    """Return what two equal runs share: all tensors, losses and scores."""
    metrics = run_folder / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    numbers = [(line["step"], line.get("loss"), line.get("scores")) for line in lines]
    return digest(run_folder, "*.safetensors"), numbers


def scored(ended: Ended) -> Any:
    """Return the scores that `clew evaluate --json` printed, without times."""
    if ended.code != 0:
        return None
    text = re.sub(r'"(seconds\w*|date|name|run|command|commit)": [^\n]*', "", ended.out)
    return hashlib.sha256(text.encode()).hexdigest()


class Faults:
    """The campaigns: each method that `CAMPAIGNS` names is one trial and returns its outcomes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.whole = folder / "whole"  # a dataset, a run and weights without any fault
        self.whole.mkdir()
        for command in (GENERATE, TRAIN):
            ended = run(self.whole, command)
            assert ended.code == 0, ended
        shutil.copytree(ROOT / "weights" / SHIPPED, self.whole / "weights")
        self.data, self.trained = digest(self.whole / "data"), trained(self.whole / "run")
        evaluated = {name: run(self.whole, EVALUATE.format(name)) for name in ("run", "weights")}
        self.scores = {name: scored(ended) for name, ended in evaluated.items()}
        assert all(self.scores.values()), evaluated
        self.seconds = {}  # that the commands take
        for command in (GENERATE, TRAIN, EVALUATE.format("weights")):
            begin, copy = time.monotonic(), self.copy("data" if command == TRAIN else "weights")
            run(copy, command)
            self.seconds[command.split()[0]] = time.monotonic() - begin

    def copy(self, *parts: str) -> Path:
        """Return a new folder with a copy of some parts of the whole one; the last trial's is removed."""
        shutil.rmtree(self.folder / "trial", ignore_errors=True)
        for part in parts:
            shutil.copytree(self.whole / part, self.folder / "trial" / part)
        (self.folder / "trial").mkdir(exist_ok=True)
        return self.folder / "trial"

    def killed(self, folder: Path, command: str, most_calls: int) -> list[str]:
        """Kill a command at random moments until it ends by itself; return "killed" for each."""
        outcomes = []
        for _ in range(20):
            seconds = self.random.uniform(0, 1.1 * self.seconds[command.split()[0]])
            inside = self.random.random() < 0.6
            prepare = die_at(self.random.randrange(most_calls)) if inside else lambda: None
            ended = wait(launch(folder, command, prepare), PATIENCE if inside else seconds)
            if ended.code == 0:
                return outcomes
            if ended.code != -signal.SIGKILL:
                break
            outcomes.append("killed")
        else:
            ended = run(folder, command)
        if ended.code != 0:
            print(f"{ended.problem}: {command}, exit {ended.code}\n{ended.error[-2000:]}", file=sys.stderr)
        return outcomes if ended.code == 0 else [*outcomes, ended.problem]

    def kill_generate(self) -> list[str]:
        folder = self.copy()
        killed = self.killed(folder, GENERATE, 25)
        sound = digest(folder / "data") == self.data and run(folder, "data verify data").code == 0
        return [*killed, "harmless" if sound else "silent"]

    def kill_train(self) -> list[str]:
        folder = self.copy("data")
        killed = self.killed(folder, TRAIN, 60)
        if trained(folder / "run") == self.trained:
            return [*killed, "harmless"]
        for name, ours, whole in zip(("tensors", "metrics"), trained(folder / "run"), self.trained, strict=True):
            if ours != whole:
                print(f"silent: other {name} after {len(killed)} kills\n{ours}\n{whole}", file=sys.stderr)
        return [*killed, "silent"]

    def kill_evaluate(self) -> list[str]:
        folder = self.copy("weights")
        (folder / "report.html").write_text("old")
        killed = self.killed(folder, EVALUATE.format("weights"), 2)
        page = (folder / "report.html").read_text()
        sound = digest(folder / "weights") == digest(self.whole / "weights") and page.rstrip().endswith("</html>")
        return [*killed, "harmless" if sound else "silent"]

    def damage(self, folder: Path) -> str:
        """Flip a bit, or cut the end, of a random file; return its name."""
        files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
        file = self.random.choice(files)
        content = bytearray(file.read_bytes())
        at = self.random.randrange(len(content))
        if self.random.random() < 0.7:
            content[at] ^= 1 << self.random.randrange(8)
        else:
            del content[at:]
        file.write_bytes(content)
        return f"{file.relative_to(folder)} at {at} of {file.stat().st_size}"

    def judged(self, ended: Ended, same: Callable[[], bool], where: str) -> list[str]:
        outcome = ended.problem
        if not outcome:
            told = "clew: " in ended.error.replace("clew: compiling", "") or "unreadable config.json" in ended.out
            outcome = "told" if told else "harmless" if same() else "silent"
        if outcome in BAD:
            print(f"{outcome}: {where}\n{ended.error[-2000:]}", file=sys.stderr)
        return [outcome]

    def damage_dataset(self) -> list[str]:
        folder = self.copy("data")
        where = self.damage(folder / "data")
        found = run(folder, "data verify data")
        outcomes = self.judged(found, lambda: False, f"data verify, {where}")  # it must be found
        ended = run(folder, TRAIN)
        return outcomes + self.judged(ended, lambda: trained(folder / "run") == self.trained, f"train, {where}")

    def damage_run(self) -> list[str]:
        folder = self.copy("data", "run")
        where = self.damage(folder / "run")
        ended = run(folder, EVALUATE.format("run"))
        outcomes = self.judged(ended, lambda: scored(ended) == self.scores["run"], f"evaluate, {where}")
        shown, whole = (run(each, "runs run --json") for each in (folder, self.whole))
        same = lambda: re.sub("age.*", "", shown.out) == re.sub("age.*", "", whole.out)  # noqa: E731
        outcomes += self.judged(shown, same, f"runs, {where}")
        ended = run(folder, TRAIN)
        return outcomes + self.judged(ended, lambda: self.same_but(folder / "run", where), f"resume, {where}")

    def same_but(self, run_folder: Path, where: str) -> bool:
        """Return whether a run ended as the whole one; an older checkpoint stays damaged until it is used."""
        (found, numbers), (expected, expected_numbers) = trained(run_folder), self.trained
        damaged = where.split()[0]
        if not damaged.startswith(max(expected).rpartition("/")[0]):
            found, expected = found | {damaged: ""}, expected | {damaged: ""}
        return (found, numbers) == (expected, expected_numbers)

    def damage_weights(self) -> list[str]:
        folder = self.copy("weights")
        where = self.damage(folder / "weights")
        ended = run(folder, EVALUATE.format("weights"))
        return self.judged(ended, lambda: scored(ended) == self.scores["weights"], where)

    def full_disk(self) -> list[str]:
        """Run a command on a disk that is too small, then once more with room enough."""
        command = self.random.choice([GENERATE, TRAIN, EVALUATE.format("weights"), "draw mazes.txt --out maze.png"])
        folder = self.copy(*({TRAIN: ["data"]}.get(command, ["weights"])))
        (folder / "mazes.txt").write_text("S.#\n#.G\n\n" * 3)
        before = set(digest(folder))
        limit = self.random.randrange(1, 200_000)

        def prepare() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        ended = wait(launch(folder, command, prepare))
        outcomes = self.judged(ended, lambda: True, f"{command} with {limit} bytes")
        if outcomes == ["refused"] and command not in (GENERATE, TRAIN) and set(digest(folder)) != before:
            outcomes = ["silent"]  # half a file was left
        again = run(folder, command)
        sound = again.code == 0
        if command == GENERATE:
            sound = sound and digest(folder / "data") == self.data
        if command == TRAIN:
            sound = sound and trained(folder / "run") == self.trained
        if not sound:
            print(f"{command} with {limit} bytes, and then with more:\n{again.error[-2000:]}", file=sys.stderr)
        return [*outcomes, "harmless" if sound else "silent"]

    def two_processes(self) -> list[str]:
        command, parts = self.random.choice([(GENERATE, []), (TRAIN, ["data"])])
        folder = self.copy(*parts)
        first = launch(folder, command)
        time.sleep(self.random.uniform(0, self.seconds[command.split()[0]]))
        ended = [wait(pid) for pid in (first, launch(folder, command))]
        outcomes = [each.problem for each in ended if each.code != 0]
        same = digest(folder / "data") == self.data if command == GENERATE else trained(folder / "run") == self.trained
        return [*outcomes, "harmless" if same and len(outcomes) < 2 else "silent"]


CAMPAIGNS = {
    "SIGKILL in generate": Faults.kill_generate,
    "SIGKILL in train and in checkpoints": Faults.kill_train,
    "SIGKILL in evaluate": Faults.kill_evaluate,
    "damaged dataset": Faults.damage_dataset,
    "damaged run": Faults.damage_run,
    "damaged weights": Faults.damage_weights,
    "full disk": Faults.full_disk,
    "two processes, one folder": Faults.two_processes,
}

# The line "ready" says that Clew handles the signal; nothing else has been imported.
READY = """
import sys, clew.__main__ as entry
sys.argv[0] = "clew"
print("ready", flush=True)
entry.main()
"""
SCRIPT = Path(sysconfig.get_path("scripts")) / "clew"
PYTHON_STARTS = "start of Python"  # interrupted in the first 0.2 s of the installed script
INTERRUPTED = {
    "generate": "generate dfs --size 20 --count 5000000 --workers 1 --out new",
    "train": "train tiny --steps 1000000 --checkpoint-every 20 --out new",
    "evaluate": f"evaluate {SHIPPED} --size 20 --mazes 2000 --report new.html",
    "solve": f"solve mazes.txt --solver {SHIPPED}",
    "draw": f"draw mazes.txt --out new.png --model {SHIPPED} --animate new.gif",
    "reproduce": "reproduce overfitting --scale smoke --root new",
    "reproduce report": "reproduce report --root pages",
    "convert": f"convert {ROOT / 'tests/golden/mlmu-tiny.safetensors'} --out new",
    "data import": "data import mazes.txt --out new",
    "data verify": "data verify data",
    "data describe": "data describe data --json",
    "runs": "runs run",
    "plot": "plot run --out new.png",
    "demo": "demo --out new --minutes 9",
    "serve": "serve --port 0 --runs run",
    PYTHON_STARTS: "runs run",
}


def interrupt(folder: Path, name: str, seconds: float) -> str:
    """Start the command as its own process, send it SIGINT after so many seconds, and return the outcome."""
    shutil.rmtree(folder / "new", ignore_errors=True)
    command, at_once = INTERRUPTED[name], name == PYTHON_STARTS
    words = [str(SCRIPT)] if at_once else [sys.executable, "-c", READY]
    pipes: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    pipes["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
    process = subprocess.Popen(
        [*words, *shlex.split(command)], cwd=folder, stdin=subprocess.DEVNULL, **pipes, text=True
    )
    assert process.stdout is not None
    if not at_once:
        process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    try:
        _, error = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return "hang"
    stopped = [line for line in error.splitlines() if line.startswith("clew: ") and "stopped" in line]
    if process.returncode == 130 and len(stopped) == 1 and "Traceback" not in error and "Error" not in error:
        return "one line, exit 130"
    if process.returncode == 0 and not stopped and "Traceback" not in error:
        return "ended before"
    in_python = process.returncode == -signal.SIGINT or "KeyboardInterrupt" in error
    if at_once and in_python and str(Path(cli.__file__).parent) not in error:
        return "before Clew's first line"
    print(f"after {seconds:.3f} s of {command}: exit {process.returncode}\n{error[-2000:]}", file=sys.stderr)
    return "traceback"


def interrupts(folder: Path, names: list[str], count: int, chance: random.Random) -> dict[str, Counter[str]]:
    """Send Ctrl-C at random moments of the first seconds, most of them early, where imports and set-up are."""
    found = {}
    (folder / "mazes.txt").write_text("\n\n".join(["S.#.\n#...\n.#.G"] * 200) + "\n")
    for part in ("docs", "results"):
        shutil.copytree(ROOT / part, folder / "pages" / part)
    for name in names:
        longest = 0.3 if name == "runs" else 4.0  # seconds
        moments = [0.001 * (longest / 0.001) ** chance.random() for _ in range(count)]
        if name == PYTHON_STARTS:
            moments = [chance.uniform(0, 0.2) for _ in range(count)]
        found[name] = Counter(interrupt(folder, name, seconds) for seconds in moments)
        print(f"Ctrl-C in {name}: {dict(found[name])}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="of kills, damage, full disks, two processes")
    parser.add_argument("--fuzz", type=int, default=100_000, help="odd inputs, in this process")
    parser.add_argument("--interrupts", type=int, default=50, help="Ctrl-C in each command")
    parser.add_argument("--only", nargs="+", choices=[*CAMPAIGNS, *INTERRUPTED], default=[*CAMPAIGNS, *INTERRUPTED])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    origin = provenance(shlex.join(["python", "benchmarks/faults.py", *sys.argv[1:]]), [options.seed])
    report: dict[str, Any] = read_json(options.out) if options.out.exists() else {}
    found: dict[str, dict[str, Counter[str]]] = {}
    import_everything()
    if options.fuzz:
        found["fuzz"] = fuzz.run(options.fuzz, options.seed)
    if options.seconds or options.interrupts:
        with tempfile.TemporaryDirectory() as name:
            faults = Faults(Path(name), options.seed)
            if options.seconds:
                names = [name for name in CAMPAIGNS if name in options.only]
                found["campaigns"] = campaigns(faults, names, options.seconds)
            if options.interrupts:
                names = [name for name in INTERRUPTED if name in options.only]
                found["interrupts"] = interrupts(faults.whole, names, options.interrupts, faults.random)
    for part, counts in found.items():  # what was left out keeps what was counted before
        old = report.get(part, {"provenance": [], "counts": {}})
        kept = old["provenance"] if old["counts"].keys() - counts.keys() else []
        report[part] = {"provenance": [*kept, origin], "counts": old["counts"] | counts}
    write_json(options.out, report)
    if options.out == RESULT:
        replace_section(PAGE, "faults", tables(report))
    bad = sum(count[word] for counts in found.values() for count in counts.values() for word in BAD)
    print(f"{options.out}: {bad} bad outcomes")
    sys.exit(1 if bad else 0)


def campaigns(faults: Faults, names: list[str], seconds: float) -> dict[str, Counter[str]]:
    """Try the campaigns in turn until the time is used."""
    counts: dict[str, Counter[str]] = {name: Counter(trials=0) for name in names}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = min(counts, key=lambda key: counts[key]["trials"])
        counts[name].update(["trials", *CAMPAIGNS[name](faults)])
    for name, count in counts.items():
        print(f"{name}: {dict(count)}", flush=True)
    return counts


def tables(report: dict[str, Any]) -> str:
    """Return a table for each part of the report, with the command that counted it."""
    text = []
    for part, columns in COLUMNS.items():
        if part in report:
            counts = report[part]["counts"]
            rows = [[name, *(f"{count.get(column, 0):,}" for column in columns)] for name, count in counts.items()]
            total = ["all", *(f"{sum(count.get(column, 0) for count in counts.values()):,}" for column in columns)]
            head = [TITLES[part], *columns]
            lines = [head, ["---"] * len(head), *rows, total]
            text.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
            for origin in report[part]["provenance"]:
                seed = origin["seeds"][0]
                text.append(f"`{origin['command']}`, seed {seed}, {origin['cpu']}, {origin['date'][:10]}.\n")
    return "\n".join(text)


def import_everything() -> None:
    """Import what the commands import, so that forks need not."""
    import importlib

    for module, _ in cli.COMMANDS.values():
        importlib.import_module(module.split(":")[0])
    for module in ("clew.api", "clew.trained", "clew.training.train", "clew.data.writer", "clew.data.dataset"):
        importlib.import_module(module)


if __name__ == "__main__":
    main()
