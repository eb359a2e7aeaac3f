"""Fresh tasks of a family, each with its path: fast, in parallel, and the same whatever the number of workers.

    batch = generate("dfs", 10, 10, seed=0, first=0, count=1000, side="train")

A maze is a pure function of (family, shape, seed, its index, side). Attempts are redrawn until the layout lies on the
wanted side (see layout.py), so training mazes and test mazes never share a layout, whatever their seeds.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells, M = 3 * C layout keys, S = 8 symmetries.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.errors import UserError
from clew.mazes.astar import search_astar
from clew.mazes.bfs import Indices, search_breadth_first, write_path
from clew.mazes.dfs import carve_dfs
from clew.mazes.kruskal import carve_kruskal
from clew.mazes.layout import HELD_OUT_IN, Keys, layout_hash, layout_keys
from clew.mazes.maze import WALL, Cells, TaskBatch, check_shape
from clew.mazes.parts import connected_parts
from clew.mazes.percolation import open_passages
from clew.mazes.pieces import in_pieces
from clew.mazes.random import Stream, begin_stream, below
from clew.mazes.walls import place_walls
from clew.mazes.wilson import carve_wilson

Side = Literal["train", "test", "any"]

FAMILIES = {
    "dfs": "perfect mazes carved by a randomized depth-first search: long corridors, one path",
    "walls": "an open field with 30 to 50 % solid cells (the A* set): many paths, the stored one found by A*",
    "wilson": "perfect mazes, every one equally likely, by loop-erased random walks: one path",
    "kruskal": "perfect mazes that open random passages unless they close a loop: short dead ends, one path",
    "percolation": "each passage open by chance: loops and cells out of reach, the stored path found by A*",
}
_DFS, _WALLS, _WILSON, _KRUSKAL, _PERCOLATION = range(len(FAMILIES))  # in the order above
_TRAIN, _TEST, _ANY = 0, 1, 2

# After so many layouts there is none on the wanted side, or none with a long enough path.
MAX_ATTEMPTS = 10_000
_MAX_PAIRS = 100  # draws of start and goal in one layout
DEFAULT_OPEN_SHARE = 0.6


@njit(cache=True)
def _draw_layout(family: int, cells_HW: Cells, state: Stream, open_share: float) -> None:
    if family == _DFS:
        carve_dfs(cells_HW, state)
    elif family == _WALLS:
        place_walls(cells_HW, state)
    elif family == _WILSON:
        carve_wilson(cells_HW, state)
    elif family == _KRUSKAL:
        carve_kruskal(cells_HW, state)
    else:
        open_passages(cells_HW, state, open_share)


@njit(cache=True)
def _draw_task(family: int, cells_HW: Cells, state: Stream, path: Indices) -> int:
    """Draw start and goal, write their path, and return its length; 0 if no draw gave a task of the family."""
    if family == _WALLS:
        return _draw_astar_task(cells_HW, state, max(cells_HW.shape), path)
    if family == _PERCOLATION:
        return _draw_astar_task(cells_HW, state, 2, path)
    # A perfect maze joins every two cells.
    start = below(state, cells_HW.size)
    goal = below(state, cells_HW.size - 1)
    if goal >= start:  # any cell but the start
        goal += 1
    came_from_C, _, _ = search_breadth_first(cells_HW, start, goal)
    return write_path(came_from_C, start, goal, path)


@njit(cache=True)
def _draw_astar_task(cells_HW: Cells, state: Stream, min_length: int, path: Indices) -> int:
    """Draw pairs of free cells until A* finds a path of at least `min_length` cells between them."""
    flat_C = cells_HW.ravel()
    free = np.empty(cells_HW.size, dtype=np.int32)
    free_count = 0
    for cell in range(cells_HW.size):
        free[free_count] = cell  # stays only if counted: a branch would mostly be guessed wrong
        free_count += flat_C[cell] != WALL
    best_f_C = np.empty(cells_HW.size, dtype=np.int32)
    came_from_C = np.empty(cells_HW.size, dtype=np.int32)
    no_trace = np.empty((0, 4), dtype=np.int32)
    # Most pairs have no way between them, and A* would look at a whole part of the maze to find that out.
    part_C, size_C = connected_parts(cells_HW)
    for _ in range(_MAX_PAIRS):
        start, goal = free[below(state, free_count)], free[below(state, free_count)]
        if part_C[start] != part_C[goal] or size_C[part_C[start]] < min_length:
            continue
        search_astar(cells_HW, start, goal, best_f_C, came_from_C, no_trace, False)
        length = write_path(came_from_C, start, goal, path)
        if length >= min_length:
            return length
    return 0


@njit(cache=True, nogil=True)
def _fill(
    family: int,
    seed: int,
    index_N: npt.NDArray[np.uint64],
    side: int,
    open_share: float,
    keys_SM: Keys,
    cells_NHW: npt.NDArray[np.uint8],
    length_N: npt.NDArray[np.int64],
    stop: npt.NDArray[np.bool_],
) -> Indices:
    """Fill `cells_NHW` and `length_N` with the mazes of `index_N`, and return their paths one after the other.

    When a maze cannot be found, set `stop`, which all threads watch, and leave.
    """
    state = np.empty(1, dtype=np.uint64)
    path = np.empty(cells_NHW.size, dtype=np.int32)
    used = 0
    for i in range(len(index_N)):
        for attempt in range(MAX_ATTEMPTS):
            if stop[0]:
                return path[:0]
            begin_stream(state, seed, index_N[i], attempt)
            _draw_layout(family, cells_NHW[i], state, open_share)
            if side != _ANY:
                held_out = layout_hash(cells_NHW[i], keys_SM) % np.uint64(HELD_OUT_IN) == np.uint64(0)
                if held_out != (side == _TEST):
                    continue
            length_N[i] = _draw_task(family, cells_NHW[i], state, path[used:])
            if length_N[i] > 0:
                break
        else:
            stop[0] = True
            return path[:0]
        used += length_N[i]
    return path[:used].copy()


def generate_indices(
    family: str,
    height: int,
    width: int,
    index_N: npt.NDArray[np.integer],
    *,
    seed: int,
    side: Side,
    workers: int | None = None,
    open_share: float = DEFAULT_OPEN_SHARE,
) -> TaskBatch:
    """The tasks with these indices, in this order; `generate` for any set of indices."""
    check_shape(height, width)
    index_N = np.asarray(index_N)
    _check(family, seed, index_N, side, open_share)
    family_number = list(FAMILIES).index(family)
    side_number = get_args(Side).index(side)

    count = len(index_N)
    cells_NHW = np.empty((count, height, width), dtype=np.uint8)
    length_N = np.empty(count, dtype=np.int64)
    number_N = index_N.astype(np.uint64)
    stop = np.zeros(1, dtype=np.bool_)
    keys_SM = layout_keys(height, width)

    def fill(piece: slice) -> Indices:
        path: Indices = _fill(
            family_number,
            seed,
            number_N[piece],
            side_number,
            open_share,
            keys_SM,
            cells_NHW[piece],
            length_N[piece],
            stop,
        )
        return path

    paths = in_pieces(fill, count, height * width, workers)
    if stop[0]:
        raise UserError(
            f"no {family} maze of {height} rows and {width} columns "
            + ("" if side == "any" else f"on the {side} side ")
            + f"was found in {MAX_ATTEMPTS:,} attempts: use a larger or squarer maze, or another family."
        )

    path = np.concatenate([np.empty(0, dtype=np.int32), *paths])
    offset_N1 = np.concatenate([[0], np.cumsum(length_N)]).astype(np.int64)
    return TaskBatch(cells_NHW, path[offset_N1[:-1]], path[offset_N1[1:] - 1], path, offset_N1)


def generate(
    family: str,
    height: int,
    width: int,
    *,
    seed: int,
    first: int,
    count: int,
    side: Side,
    workers: int | None = None,
    open_share: float = DEFAULT_OPEN_SHARE,
) -> TaskBatch:
    """The tasks with indices `first` to `first + count - 1`.

    `workers` threads, all cores if None. `open_share` is the chance of each passage in `percolation`.
    """
    if first < 0 or count < 0 or first + count > 2**63:
        raise UserError(f"mazes {first} to {first + count} cannot be drawn: indices go from 0 to 2**63 - 1.")
    index_N = np.uint64(first) + np.arange(count, dtype=np.uint64)
    return generate_indices(
        family, height, width, index_N, seed=seed, side=side, workers=workers, open_share=open_share
    )


def _check(family: str, seed: int, index_N: npt.NDArray[np.integer], side: str, open_share: float) -> None:
    if family not in FAMILIES:
        raise UserError(f"there is no family of mazes named {family!r}; choose one of {', '.join(FAMILIES)}.")
    if side not in get_args(Side):
        raise UserError(f"there is no side {side!r}; choose one of {', '.join(get_args(Side))}.")
    if not 0 <= seed < 2**63:
        raise UserError(f"the seed {seed} is out of range; use a whole number from 0 to 2**63 - 1.")
    if not 0 < open_share <= 1:
        raise UserError(f"an open share of {open_share} is not a chance; use a number above 0 and up to 1.")
    if index_N.ndim != 1 or index_N.dtype.kind not in "iu" or (index_N.size and int(index_N.min()) < 0):
        raise UserError("the indices of mazes must be a list of whole numbers from 0 up.")
