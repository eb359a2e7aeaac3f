"""Fresh tasks of a family, each with its path.

    batch = generate("dfs", 10, 10, seed=0, first=0, count=1000, split="train")
    batch = generate("astar", 10, 10, seed=0, count=50, split="train", all_pairs=True)      # all tasks of 50 layouts

A maze is a pure function of (family, shape, seed, its index, split), whatever the number of workers. Path-star graphs
have height 1 and the number of labels as width.

Shape suffixes: N mazes, H rows, W columns.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.mazes.compiled import parallel_map
from clew.mazes.generators import MAX_PAIRS, PATH_STAR, STAR, Request, StarShape, fill, star_shape
from clew.mazes.layouts import is_held_out, layout_hashes, layout_keys
from clew.mazes.maze import Task, TaskBatch, check_labels, check_shape, offsets
from clew.mazes.solvers import Indices, astar
from clew.registry import registered, registered_names

Split = Literal["train", "test", "any"]

FAMILIES = {
    "dfs": "perfect mazes carved by a randomized depth-first search: long corridors, one path",
    "astar": "an open field with 30 to 50 % solid cells (the A* set): many paths, the stored one found by A*",
    "wilson": "perfect mazes, every one equally likely, by loop-erased random walks: one path",
    "kruskal": "perfect mazes that open random passages unless they close a loop: short dead ends, one path",
    "percolation": "each passage open by chance: loops and cells out of reach, the stored path found by A*",
}
_FORMER_NAMES = {"walls": "astar"}  # in datasets, runs and weights that were written before the family was renamed
_PERFECT = ("dfs", "wilson", "kruskal")
_SPLITS = get_args(Split)

# After so many layouts there is none of the wanted split, or none with a path that is long enough, which few may have.
MAX_ATTEMPTS, MAX_LONG_ATTEMPTS = 100_000, 1_000_000
MAX_REGISTERED_ATTEMPTS = 10_000  # of a registered family, which is not compiled
DEFAULT_OPEN_SHARE = 0.6


def generate(
    family: str,
    height: int,
    width: int,
    *,
    seed: int,
    split: Split,
    first: int = 0,
    count: int = 0,
    index_N: npt.NDArray[np.integer] | None = None,
    workers: int | None = None,
    open_share: float | None = None,
    draws: int = MAX_PAIRS,
    all_pairs: bool = False,
    min_path: int = 1,
) -> TaskBatch:
    """Return the tasks with indices `first` to `first + count - 1`, or `index_N`, each with a layout of its own.

    A layout that is not of the split, or has no path of at least `min_path` cells, is drawn again; `workers` are
    threads, all cores if None. Of `astar` and `percolation`, up to `draws` pairs of start and goal are tried in one
    layout. With `all_pairs`, of `astar`, every good pair gives a task, as in Searchformer's set; indices are then those
    of layouts, whose tasks follow one another. With one draw tasks have the same distribution.
    """
    if index_N is None:
        if first < 0 or count < 0 or first + count > 2**63:
            raise UserError(f"mazes {first} to {first + count} cannot be drawn: indices go from 0 to 2**63 - 1.")
        index_N = np.uint64(first) + np.arange(count, dtype=np.uint64)
    family, index_N = canonical_family(family), np.asarray(index_N)
    open_share = DEFAULT_OPEN_SHARE if open_share is None else open_share
    check_family(family, height, width)
    check_numbers(height, width, seed, min_path, open_share)
    if split not in _SPLITS:
        raise UserError(f"there is no split {split!r}; choose one of {', '.join(_SPLITS)}.")
    star = star_shape(family)
    if family not in FAMILIES and star is None:
        return _generate_registered(family, height, width, index_N, seed, split, min_path)

    attempts = MAX_ATTEMPTS if min_path <= 1 else MAX_LONG_ATTEMPTS
    request = Request(
        family=STAR if star else list(FAMILIES).index(family),
        star=star or StarShape(2, 2),
        split=_SPLITS.index(split),
        seed=seed,
        open_share=open_share,
        min_length=max(min_path, max(height, width) if family == "astar" else 2),
        draws=draws,
        is_perfect=family in _PERFECT,
        all_pairs=all_pairs,
        attempts=attempts * MAX_PAIRS // draws,
    )
    number_N, keys_SM, stop = index_N.astype(np.uint64), layout_keys(height, width), np.zeros(1, dtype=np.bool_)
    cells_NHW = np.empty((len(index_N), height, width), dtype=np.uint8)
    tasks_N = np.empty(len(index_N), dtype=np.int64)

    def fill_chunk(chunk: slice) -> tuple[Indices, Indices]:
        filled: tuple[Indices, Indices] = fill(
            request, number_N[chunk], keys_SM, cells_NHW[chunk], tasks_N[chunk], stop
        )
        return filled

    filled = parallel_map(fill_chunk, len(index_N), height * width * (MAX_PAIRS if all_pairs else 1), workers)
    if stop[0]:
        raise _not_found(family, height, width, split, min_path, attempts)
    length_N, path = (np.concatenate([np.empty(0, np.int32), *(chunk[k] for chunk in filled)]) for k in (0, 1))
    offset_N1 = offsets(length_N)
    cells_NHW = np.repeat(cells_NHW, tasks_N, axis=0) if all_pairs else cells_NHW
    return TaskBatch(cells_NHW, path[offset_N1[:-1]], path[offset_N1[1:] - 1], path, offset_N1)


def canonical_family(name: str) -> str:
    """Return the present name of a family that was read from a file or the command line."""
    return _FORMER_NAMES.get(name, name)


def check_family(family: str, height: int, width: int) -> None:
    """Raise UserError unless there is such a family, with mazes (or graphs) of this shape."""
    if (star := star_shape(family)) is not None:
        if height != 1:
            raise UserError(f"a {family} graph has labels, not {height} rows: use 1 row, and the labels as width.")
        check_labels(width)
        if width < star.nodes:
            raise UserError(f"{width} labels are too few for the {star.nodes} nodes of a {family} graph.")
        return
    if family not in FAMILIES and registered("family", family) is None:
        known = ", ".join([*FAMILIES, f"{PATH_STAR}-ARMSxLENGTH", *registered_names("family")])
        raise UserError(
            f"there is no family of mazes named {family!r}; choose one of {known}, "
            "or give --plugin with the module that registers it."
        )
    check_shape(height, width)


def check_numbers(height: int, width: int, seed: int, min_path: int, open_share: float | None) -> None:
    """Raise UserError for numbers with which no maze of this shape can be drawn."""
    if not 0 <= seed < 2**63:
        raise UserError(f"the seed {seed} is out of range; use a whole number from 0 to 2**63 - 1.")
    if open_share is not None and not 0 < open_share <= 1:
        raise UserError(f"the open share {open_share} is out of range; use a number above 0, at most 1.")
    if not 1 <= min_path <= height * width:
        mazes = f"no maze of {height} rows and {width} columns"
        raise UserError(f"{mazes} has a path of at least {min_path} cells; use 1 to {height * width}.")


def describe_tasks(family: str, height: int, width: int) -> str:
    """Return tasks of a family and shape in words, such as `dfs mazes of 10x10`."""
    return f"{family} graphs with {width} labels" if star_shape(family) else f"{family} mazes of {height}x{width}"


def _not_found(family: str, height: int, width: int, split: Split, min_path: int, attempts: int) -> UserError:
    where = "" if split == "any" else f"in the {split} split "
    where += "" if min_path <= 1 else f"with a path of at least {min_path} cells "
    hint = "use a larger or squarer maze, a shorter path, or another family."
    if star_shape(family):
        hint = "there are too few such graphs; use more arms, longer ones, or more labels."
    tasks = describe_tasks(family, height, width)
    return UserError(f"none of the {tasks} {where}was found in {attempts:,} attempts: {hint}")


def _generate_registered(
    name: str, height: int, width: int, index_N: npt.NDArray[np.integer], seed: int, split: Split, min_path: int
) -> TaskBatch:
    component: Any = registered("family", name)
    family = component()
    tasks, paths = [], []
    for index in index_N.tolist():
        for attempt in range(MAX_REGISTERED_ATTEMPTS):
            task = family.generate(height, width, np.random.default_rng([seed, index, attempt]))
            if not isinstance(task, Task) or task.maze.cells.shape != (height, width):
                raise UserError(f"the family {name!r} must generate a Task of {height} rows and {width} columns.")
            is_test = bool(is_held_out(layout_hashes(task.maze.cells[None]))[0])
            path = astar(task).path if split in ("any", "test" if is_test else "train") else None
            if path is not None and len(path) >= max(2, min_path):
                break
        else:
            raise _not_found(name, height, width, split, min_path, MAX_REGISTERED_ATTEMPTS)
        tasks.append(task)
        paths.append(path)
    if not tasks:
        return generate("dfs", height, width, seed=seed, split="any")  # an empty batch of this shape
    return TaskBatch.from_tasks(tasks, paths)
