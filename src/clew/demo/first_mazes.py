"""The demo's first seconds: mazes of the paper's two families, made, solved exactly, shown and drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from clew.data.batch import cell_batch
from clew.demo.telling import step
from clew.mazes.generate import generate
from clew.mazes.maze import Path as MazePath
from clew.mazes.maze import Task, TaskBatch
from clew.mazes.solvers import astar, bfs_path, num_shortest
from clew.models.build import build_model
from clew.paper.cell_configs import cell_model
from clew.tokenization.ascii import draw_ascii
from clew.viz.demo_page import FAMILY_NAMES as FAMILIES
from clew.viz.picture import save_picture

ROLES = {"S": "bold white on green", "G": "bold black on yellow", "#": "grey50 on grey50"}


@dataclass(frozen=True)
class FirstMazes:
    """How many mazes, how large, and how many of them are drawn."""

    size: int = 20
    count: int = 2_000
    drawn: int = 4
    shown_size: int = 8


def warm_up() -> None:
    """Compile everything once, so that the times told afterwards are those of the work."""
    for family in FAMILIES:
        task, _ = generate(family, 5, 5, seed=1, first=0, count=1, split="test")[0]
        astar(task)
        bfs_path(task)
    batch = cell_batch(generate("dfs", 5, 5, seed=1, first=0, count=1, split="test"), np.arange(1))
    order_BT = torch.ones_like(batch.tokens_BT)
    torch.autograd.backward(build_model(cell_model("dfs"), seed=0)(batch, order_BT, order_BT == 1).sum())


def make_mazes(settings: FirstMazes) -> dict[str, TaskBatch]:
    """Held-out mazes of both families."""
    size, count = settings.size, settings.count
    return {family: generate(family, size, size, seed=0, first=0, count=count, split="test") for family in FAMILIES}


def solve_mazes(batches: dict[str, TaskBatch]) -> dict[str, float]:
    """Check every stored path's length against BFS and A*; the share of mazes with one shortest path only."""
    unique = {}
    for family, batch in batches.items():
        alone = 0
        for i in range(len(batch)):
            task, stored = batch[i]
            by_bfs, by_astar = bfs_path(task), astar(task).path
            assert by_bfs is not None
            assert by_astar is not None
            assert len(by_bfs) == len(by_astar) == len(stored)
            alone += num_shortest(task) == 1
        unique[family] = alone / len(batch)
    return unique


def draw_mazes(file: Path, batches: dict[str, TaskBatch], drawn: int) -> None:
    """The first mazes of each family, a row for each."""
    pictures = []
    for family, batch in batches.items():
        for i in range(drawn):
            task, path = batch[i]
            title = f"{FAMILIES[family]} {batch.height}x{batch.width}, {len(path)} cells"
            pictures.append((task, path, None, title))
    file.parent.mkdir(parents=True, exist_ok=True)
    save_picture(file, pictures, columns=drawn)


def coloured(task: Task, path: MazePath) -> Text:
    """A maze for the terminal, the path in red."""
    drawing = draw_ascii(task, path)
    if task.maze.has_wall_cells_only:  # one character a cell: twice as wide, it looks square
        drawing = "".join({"#": "##", "\n": "\n"}.get(character, f"{character} ") for character in drawing)
    text = Text(drawing, style="grey50")
    for character, style in ROLES.items():
        text.highlight_words([character], style)
    text.highlight_regex(r"[\^v<>]", "bold red")
    return text


def show_mazes(console: Console, size: int) -> None:
    """One small maze of each family in the terminal."""
    tasks = [generate(family, size, size, seed=2, first=0, count=1, split="test")[0] for family in FAMILIES]
    console.print(Padding(Columns([coloured(*task) for task in tasks], padding=(0, 6)), (1, 2)))


def tell(console: Console, batches: dict[str, TaskBatch], unique: dict[str, float]) -> None:
    """What was found out about the mazes."""
    for family, batch in batches.items():
        length_N = batch.length_N
        console.print(
            f"  {FAMILIES[family]:4}paths of {length_N.mean():.0f} cells on average, {length_N.max()} at most; "
            f"{unique[family]:.0%} of the mazes have one shortest path only",
            soft_wrap=True,
        )


def show(settings: FirstMazes, folder: Path, console: Console) -> None:
    """All of it; the picture goes to the folder."""
    size, total, picture = settings.size, 2 * settings.count, folder / "mazes.png"
    with step(console, "Compiling the generators, solvers and kernels (half a minute the first time)"):
        warm_up()
    with step(console, f"Making {total:,} mazes of {size}x{size} cells, half of them DFS, half A*"):
        batches = make_mazes(settings)
    with step(console, "Solving them exactly, by BFS and by A*, to check the stored paths"):
        unique = solve_mazes(batches)
    tell(console, batches, unique)
    with step(console, f"Drawing {2 * settings.drawn} of them to {picture}"):
        draw_mazes(picture, batches, settings.drawn)
    show_mazes(console, settings.shown_size)
