"""Fresh tasks of a family, each with its path: fast, in parallel, and the same whatever the number of workers.

    batch = generate("dfs", 10, 10, seed=0, first=0, count=1000, split="train")
    batch, traces = generate_with_traces("astar", 10, 10, seed=0, first=0, count=1000, split="train")
    batch = generate_all_pairs(10, 10, seed=0, first=0, count=50, split="train")      # all tasks of 50 astar layouts

A maze is a pure function of (family, shape, seed, its index, split). Path-star graphs (path_star.py) are drawn by the
same functions, with height 1 and the number of labels as width. Attempts are redrawn until the layout lies on the
wanted split (see layout.py), so training mazes and test mazes never share a layout, whatever their seeds.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells, M = 3 * C layout keys, S = 8 symmetries,
E events.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.errors import UserError
from clew.mazes.generators import (
    MAX_PAIRS,
    Workspace,
    carve_dfs,
    carve_kruskal,
    carve_wilson,
    clear_workspace,
    draw_all_astar_tasks,
    draw_astar_task,
    open_passages,
    place_walls,
)
from clew.mazes.jit import parallel_map
from clew.mazes.layouts import Keys, brief_keys, layout_is_held_out, layout_keys
from clew.mazes.maze import Cells, TaskBatch, check_shape
from clew.mazes.path_star import FAMILY as PATH_STAR
from clew.mazes.path_star import generate_stars, star_shape
from clew.mazes.random import Stream, begin_stream, below
from clew.mazes.solvers import (
    MAX_EVENTS_PER_CELL,
    Events,
    Indices,
    TraceBatch,
    join_events,
    offsets,
    search_astar,
    search_breadth_first,
    write_path,
)

Split = Literal["train", "test", "any"]

FAMILIES = {
    "dfs": "perfect mazes carved by a randomized depth-first search: long corridors, one path",
    "astar": "an open field with 30 to 50 % solid cells (the A* set): many paths, the stored one found by A*",
    "wilson": "perfect mazes, every one equally likely, by loop-erased random walks: one path",
    "kruskal": "perfect mazes that open random passages unless they close a loop: short dead ends, one path",
    "percolation": "each passage open by chance: loops and cells out of reach, the stored path found by A*",
}
_FORMER_NAMES = {"walls": "astar"}  # in datasets, runs and weights that were written before the family was renamed
_DFS, _ASTAR, _WILSON, _KRUSKAL, _PERCOLATION = range(len(FAMILIES))  # in the order above
_TRAIN, _TEST, _ANY = 0, 1, 2

# After so many layouts there is none of the wanted split, or none with a long enough path.
MAX_ATTEMPTS = 100_000
# Where a long path is asked for, which few layouts have.
MAX_LONG_ATTEMPTS = 1_000_000
DEFAULT_OPEN_SHARE = 0.6


@njit(cache=True)
def _draw_layout(family: int, cells_HW: Cells, state: Stream, open_share: float) -> None:
    if family == _DFS:
        carve_dfs(cells_HW, state)
    elif family == _ASTAR:
        place_walls(cells_HW, state)
    elif family == _WILSON:
        carve_wilson(cells_HW, state)
    elif family == _KRUSKAL:
        carve_kruskal(cells_HW, state)
    else:
        open_passages(cells_HW, state, open_share)


@njit(cache=True)
def _draw_task(
    family: int,
    cells_HW: Cells,
    state: Stream,
    draws: int,
    min_path: int,
    workspace: Workspace,
    path: Indices,
    trace_E4: Events,
    want_trace: bool,
) -> tuple[int, int]:
    """Draw start and goal, write their path and trace; (length, number of events), (0, 0) if no draw gave a task."""
    cell_C, width = cells_HW.ravel(), cells_HW.shape[1]
    if family in (_ASTAR, _PERCOLATION):
        shortest = max(cells_HW.shape) if family == _ASTAR else 2
        return draw_astar_task(cell_C, width, state, max(shortest, min_path), draws, workspace, path, trace_E4)
    # A perfect maze joins every two cells.
    start = below(state, cells_HW.size)
    goal = below(state, cells_HW.size - 1)
    if goal >= start:  # any cell but the start
        goal += 1
    came_from_C, _, _ = search_breadth_first(cells_HW, start, goal)
    length = write_path(came_from_C, start, goal, path)
    if length < min_path:
        return 0, 0
    events = 0
    if want_trace:
        _, events = search_astar(cell_C, width, start, goal, workspace.search, trace_E4)
    return length, events


@njit(cache=True, nogil=True)
def _fill(
    family: int,
    seed: int,
    index_N: npt.NDArray[np.uint64],
    split: int,
    draws: int,
    open_share: float,
    min_path: int,
    keys_SM: Keys,
    brief_M: Keys,
    want_traces: bool,
    cells_NHW: npt.NDArray[np.uint8],
    length_N: npt.NDArray[np.int64],
    events_N: npt.NDArray[np.int64],
    stop: npt.NDArray[np.bool_],
) -> tuple[Indices, Events]:
    """Fill `cells_NHW`, `length_N` and `events_N` with the mazes of `index_N`; (their paths, their traces).

    When a maze cannot be found, set `stop`, which all threads watch, and leave.
    """
    count, height, width = cells_NHW.shape
    state = np.empty(1, dtype=np.uint64)
    workspace = clear_workspace(height, width)
    path = np.empty(cells_NHW.size, dtype=np.int32)
    # A trace that is not wanted is overwritten by the next.
    event_E4 = np.empty(((count if want_traces else 1) * MAX_EVENTS_PER_CELL * height * width, 4), dtype=np.int32)
    used, events = 0, 0
    for i in range(count):
        cells_HW = cells_NHW[i]
        for attempt in range((MAX_ATTEMPTS if min_path <= 1 else MAX_LONG_ATTEMPTS) * MAX_PAIRS // draws):
            if stop[0]:
                return path[:0], event_E4[:0]
            begin_stream(state, seed, index_N[i], attempt)
            _draw_layout(family, cells_HW, state, open_share)
            if split != _ANY and layout_is_held_out(cells_HW, keys_SM, brief_M) != (split == _TEST):
                continue
            length_N[i], events_N[i] = _draw_task(
                family, cells_HW, state, draws, min_path, workspace, path[used:], event_E4[events:], want_traces
            )
            if length_N[i] > 0:
                break
        else:
            stop[0] = True
            return path[:0], event_E4[:0]
        used += length_N[i]
        if want_traces:
            events += events_N[i]
    return path[:used].copy(), event_E4[:events].copy()


@njit(cache=True, nogil=True)
def _fill_all_pairs(
    seed: int,
    index_N: npt.NDArray[np.uint64],
    split: int,
    min_path: int,
    keys_SM: Keys,
    brief_M: Keys,
    cells_NHW: npt.NDArray[np.uint8],
    tasks_N: npt.NDArray[np.int64],
    stop: npt.NDArray[np.bool_],
) -> tuple[Indices, Indices]:
    """Fill `cells_NHW` with the `astar` layouts of `index_N` and `tasks_N` with their numbers of tasks.

    Returns the lengths of the paths of all tasks, and the paths. When a layout cannot be found, set `stop` and leave.
    """
    count, height, width = cells_NHW.shape
    state = np.empty(1, dtype=np.uint64)
    workspace = clear_workspace(height, width)
    layout_path = np.empty(MAX_PAIRS * height * width, dtype=np.int32)
    end_K = np.empty(MAX_PAIRS, dtype=np.int32)
    event_E4 = np.empty((MAX_EVENTS_PER_CELL * height * width, 4), dtype=np.int32)
    length = np.empty(count * MAX_PAIRS, dtype=np.int32)
    path = np.empty(count * height * width, dtype=np.int32)
    tasks, used = 0, 0
    for i in range(count):
        found = 0
        for attempt in range(MAX_ATTEMPTS if min_path <= 1 else MAX_LONG_ATTEMPTS):
            if stop[0]:
                return length[:0], path[:0]
            begin_stream(state, seed, index_N[i], attempt)
            place_walls(cells_NHW[i], state)
            if split != _ANY and layout_is_held_out(cells_NHW[i], keys_SM, brief_M) != (split == _TEST):
                continue
            found = draw_all_astar_tasks(
                cells_NHW[i].ravel(),
                width,
                state,
                max(height, width, min_path),
                workspace,
                layout_path,
                end_K,
                event_E4,
            )
            if found > 0:
                break
        else:
            stop[0] = True
            return length[:0], path[:0]
        new = end_K[found - 1]
        while used + new > path.size:
            longer = np.empty(2 * path.size, dtype=np.int32)
            longer[:used] = path[:used]
            path = longer
        path[used : used + new] = layout_path[:new]
        used += new
        begin = 0
        for k in range(found):
            length[tasks + k] = end_K[k] - begin
            begin = end_K[k]
        tasks_N[i] = found
        tasks += found
    return length[:tasks].copy(), path[:used].copy()


def _generate(
    family: str,
    height: int,
    width: int,
    index_N: npt.NDArray[np.integer],
    seed: int,
    split: Split,
    workers: int | None,
    open_share: float,
    min_path: int,
    want_traces: bool,
    draws: int = MAX_PAIRS,
) -> tuple[TaskBatch, TraceBatch]:
    """The tasks with these indices, and their traces, which are empty if not wanted."""
    family = canonical_family(family)
    check_family(family, height, width)
    index_N = np.asarray(index_N)
    _check(seed, index_N, split, open_share)
    check_min_path(min_path, height, width)
    split_number = get_args(Split).index(split)
    count = len(index_N)
    if (star := star_shape(family)) is not None:
        if want_traces:
            raise UserError(f"A* searches grids, so {family} graphs have no traces; use a family of mazes.")
        stars = generate_stars(star, width, index_N.astype(np.uint64), seed, split_number, workers, MAX_ATTEMPTS)
        if stars is None:
            raise UserError(
                f"no {family} graph with {width} labels in the {split} split was found in {MAX_ATTEMPTS:,} attempts: "
                "there are too few such graphs; use more arms, longer ones, or more labels."
            )
        return stars, TraceBatch(np.empty((0, 4), dtype=np.int32), np.zeros(count + 1, dtype=np.int64))
    family_number = list(FAMILIES).index(family)

    cells_NHW = np.empty((count, height, width), dtype=np.uint8)
    length_N, events_N = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    number_N = index_N.astype(np.uint64)
    stop = np.zeros(1, dtype=np.bool_)
    keys_SM, brief_M = layout_keys(height, width), brief_keys(height, width)

    def fill(piece: slice) -> tuple[Indices, Events]:
        filled: tuple[Indices, Events] = _fill(
            family_number,
            seed,
            number_N[piece],
            split_number,
            draws,
            open_share,
            min_path,
            keys_SM,
            brief_M,
            want_traces,
            cells_NHW[piece],
            length_N[piece],
            events_N[piece],
            stop,
        )
        return filled

    pieces = parallel_map(fill, count, height * width, workers)
    if stop[0]:
        raise _not_found(family, height, width, split, min_path)

    path = np.concatenate([np.empty(0, dtype=np.int32), *(path for path, _ in pieces)])
    offset_N1 = offsets(length_N)
    batch = TaskBatch(cells_NHW, path[offset_N1[:-1]], path[offset_N1[1:] - 1], path, offset_N1)
    if not want_traces:
        events_N[:] = 0
    return batch, TraceBatch(join_events([events for _, events in pieces], workers), offsets(events_N))


def _not_found(family: str, height: int, width: int, split: Split, min_path: int = 1) -> UserError:
    return UserError(
        f"no {family} maze of {height} rows and {width} columns "
        + ("" if split == "any" else f"in the {split} split ")
        + ("" if min_path <= 1 else f"with a path of at least {min_path} cells ")
        + f"was found in {MAX_ATTEMPTS if min_path <= 1 else MAX_LONG_ATTEMPTS:,} attempts: "
        + "use a larger or squarer maze, "
        + ("or another family." if min_path <= 1 else "a shorter path, or another family.")
    )


def generate_indices(
    family: str,
    height: int,
    width: int,
    index_N: npt.NDArray[np.integer],
    *,
    seed: int,
    split: Split,
    workers: int | None = None,
    open_share: float = DEFAULT_OPEN_SHARE,
) -> TaskBatch:
    """The tasks with these indices, in this order; `generate` for any set of indices."""
    return _generate(family, height, width, index_N, seed, split, workers, open_share, 1, want_traces=False)[0]


def generate(
    family: str,
    height: int,
    width: int,
    *,
    seed: int,
    first: int,
    count: int,
    split: Split,
    workers: int | None = None,
    open_share: float = DEFAULT_OPEN_SHARE,
    draws: int = MAX_PAIRS,
    min_path: int = 1,
) -> TaskBatch:
    """The tasks with indices `first` to `first + count - 1`, each with a layout of its own.

    `workers` threads, all cores if None. `open_share` is the chance of each passage in `percolation`. `draws` is for
    `astar` and `percolation`: a layout that has no good start and goal among so many pairs is drawn again. With 1,
    tasks of `astar` have the distribution of `generate_all_pairs`: a layout is taken as often as its pairs are good.
    Mazes are redrawn until their path has at least `min_path` cells.
    """
    if not 1 <= draws <= MAX_PAIRS:
        raise UserError(f"{draws} draws of start and goal are out of range; use 1 to {MAX_PAIRS}.")
    index_N = _indices(first, count)
    return _generate(
        family, height, width, index_N, seed, split, workers, open_share, min_path, want_traces=False, draws=draws
    )[0]


def generate_all_pairs(
    height: int,
    width: int,
    *,
    seed: int,
    first: int,
    count: int,
    split: Split,
    workers: int | None = None,
    min_path: int = 1,
) -> TaskBatch:
    """All tasks of the `astar` layouts with indices `first` to `first + count - 1`, layout after layout.

    Every good pair of MAX_PAIRS draws in a layout gives a task, as in Searchformer's set; a layout has at least one.
    Paths have at least `min_path` cells.
    """
    check_shape(height, width)
    index_N = _indices(first, count)
    _check(seed, index_N, split, DEFAULT_OPEN_SHARE)
    cells_NHW = np.empty((count, height, width), dtype=np.uint8)
    tasks_N = np.empty(count, dtype=np.int64)
    stop = np.zeros(1, dtype=np.bool_)
    keys_SM, brief_M = layout_keys(height, width), brief_keys(height, width)

    def fill(piece: slice) -> tuple[Indices, Indices]:
        split_number = get_args(Split).index(split)
        filled: tuple[Indices, Indices] = _fill_all_pairs(
            seed, index_N[piece], split_number, min_path, keys_SM, brief_M, cells_NHW[piece], tasks_N[piece], stop
        )
        return filled

    pieces = parallel_map(fill, count, MAX_PAIRS * height * width, workers)
    if stop[0]:
        raise _not_found("astar", height, width, split, min_path)
    length, path = (np.concatenate([np.empty(0, np.int32), *(piece[k] for piece in pieces)]) for k in (0, 1))
    offset_N1, cells_NHW = offsets(length), np.repeat(cells_NHW, tasks_N, axis=0)
    return TaskBatch(cells_NHW, path[offset_N1[:-1]], path[offset_N1[1:] - 1], path, offset_N1)


def generate_with_traces(
    family: str,
    height: int,
    width: int,
    *,
    seed: int,
    first: int,
    count: int,
    split: Split,
    workers: int | None = None,
    open_share: float = DEFAULT_OPEN_SHARE,
) -> tuple[TaskBatch, TraceBatch]:
    """The tasks that `generate` gives, with their A* traces.

    The same as `trace_batch` of the tasks, but quicker: the search that found a task need not be done again.
    """
    index_N = _indices(first, count)
    return _generate(family, height, width, index_N, seed, split, workers, open_share, 1, want_traces=True)


def _indices(first: int, count: int) -> npt.NDArray[np.uint64]:
    if first < 0 or count < 0 or first + count > 2**63:
        raise UserError(f"mazes {first} to {first + count} cannot be drawn: indices go from 0 to 2**63 - 1.")
    return np.uint64(first) + np.arange(count, dtype=np.uint64)


def canonical_family(name: str) -> str:
    """Return the present name of a family that was read from a file or the command line."""
    return _FORMER_NAMES.get(name, name)


def check_family(family: str, height: int, width: int) -> None:
    """Raise UserError unless there is such a family, with mazes (or graphs) of this shape."""
    if (star := star_shape(family)) is not None:
        star.check(height, width)
        return
    if family not in FAMILIES:
        known = ", ".join([*FAMILIES, f"{PATH_STAR}-ARMSxLENGTH"])
        raise UserError(f"there is no family of mazes named {family!r}; choose one of {known}.")
    check_shape(height, width)


def describe_tasks(family: str, height: int, width: int) -> str:
    """Tasks of a family and shape in words, such as `dfs mazes of 10x10`."""
    return f"{family} graphs with {width} labels" if star_shape(family) else f"{family} mazes of {height}x{width}"


def _check(seed: int, index_N: npt.NDArray[np.integer], split: str, open_share: float) -> None:
    if split not in get_args(Split):
        raise UserError(f"there is no split {split!r}; choose one of {', '.join(get_args(Split))}.")
    if not 0 <= seed < 2**63:
        raise UserError(f"the seed {seed} is out of range; use a whole number from 0 to 2**63 - 1.")
    if not 0 < open_share <= 1:
        raise UserError(f"an open share of {open_share} is not a chance; use a number above 0 and up to 1.")
    if index_N.ndim != 1 or index_N.dtype.kind not in "iu" or (index_N.size and int(index_N.min()) < 0):
        raise UserError("the indices of mazes must be a list of whole numbers from 0 up.")


def check_min_path(min_path: int, height: int, width: int) -> None:
    """UserError unless a maze of this shape has room for a path of `min_path` cells."""
    if not 1 <= min_path <= height * width:
        raise UserError(
            f"no maze of {height} rows and {width} columns has a path of at least {min_path} cells; use 1 to "
            f"{height * width}."
        )
