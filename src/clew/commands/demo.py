"""`clew demo`: what Clew does, in six minutes on this machine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from clew.errors import UsageError


def demo(
    *,
    out: Path = Path("demo"),
    minutes: float = 2.0,
    star_minutes: float = 1.0,
    seconds: float = 75.0,
    weights: tuple[str, ...] = (),
    seed: int = 1,
) -> None:
    """Generate and solve mazes, train small models from nothing, and evaluate trained ones on mazes of growing size.

    Takes some six minutes on two cores with the defaults. A table of accuracy is printed, and OUT/demo.html shows
    mazes that were solved and missed. Given again, it begins anew.

    Args:
        out: the folder for the pictures, the page and the run.
        minutes: of training a cell network on 10x10 mazes.
        star_minutes: of training MLM-U on path-star graphs, and of training next token on them.
        seconds: for the mazes of growing size; on a slow machine fewer are solved.
        weights: models that solve them, by name or folder; by default those that come with Clew.
        seed: which held-out mazes are solved.
    """
    for option, value in (("--minutes", minutes), ("--star-minutes", star_minutes)):
        if not 0 < value <= 60:
            raise UsageError(f"{value:g} minutes of training cannot be used; give {option} a number above 0, up to 60.")
    if not 0 < seconds <= 3600:
        raise UsageError(f"{seconds:g} seconds cannot be used; give --seconds a number above 0 and up to 3600.")
    if not 0 <= seed < 2**63:
        raise UsageError(f"the seed {seed} cannot be used; give --seed a whole number from 0 to 2**63 - 1.")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; give --out the name of a folder.")

    from rich.console import Console

    from clew.commands import announce_compilation
    from clew.demo import Settings, Stopped, run

    announce_compilation()
    words = ["clew", "demo", "--out", str(out), "--minutes", f"{minutes:g}"]
    words += ["--star-minutes", f"{star_minutes:g}", "--seconds", f"{seconds:g}"]
    words += ["--seed", str(seed), *(["--weights", *weights] if weights else [])]
    try:
        run(Settings(out, minutes, star_minutes, seconds, seed, weights), Console(highlight=False), shlex.join(words))
    except Stopped as stopped:
        print("clew: stopped; the same command begins anew.", file=sys.stderr)
        sys.exit(128 + stopped.signal)
