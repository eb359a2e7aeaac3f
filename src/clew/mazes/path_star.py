"""Family `path-star-ARMSxLENGTH`: arms of equal length from one centre; find the arm that ends at the goal.

    batch = generate("path-star-2x5", 1, 9, seed=0, first=0, count=1000, split="train")     # 9 labels
    star_shape("path-star-2x5")                    # StarShape(arms=2, length=5); None for the name of any other family

LENGTH counts the nodes of the path from the centre to an arm's end, both included, so there are
ARMS * (LENGTH - 1) + 1 nodes. Their labels are drawn without replacement from 0 .. labels - 1; the start is the
centre, the goal the end of a uniform arm. The task is that of Bachmann and Nagarajan, "The pitfalls of next-token
prediction" (2024): given the rest of the path each node follows from the one before it, all but the first.

Shape suffixes: N graphs, V labels, M nodes, L nodes of a path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.jit import njit
from clew.mazes.compiled import begin_stream, below, parallel_map, shuffle_first
from clew.mazes.layouts import HELD_OUT_IN, graph_hash
from clew.mazes.maze import ABSENT, TaskBatch, check_labels

FAMILY = "path-star"
_NAME = re.compile(rf"{FAMILY}-([0-9]{{1,3}})x([0-9]{{1,3}})")


@dataclass(frozen=True)
class StarShape:
    """The number of arms, and of nodes from the centre to an arm's end."""

    arms: int
    length: int

    def __post_init__(self) -> None:
        if self.arms < 2 or self.length < 2:
            raise UserError(
                f"a path-star graph of {self.arms} arms with {self.length} nodes each leaves nothing to find: use at "
                "least 2 arms and a length of 2."
            )

    @property
    def nodes(self) -> int:
        return self.arms * (self.length - 1) + 1

    @property
    def family(self) -> str:
        return f"{FAMILY}-{self.arms}x{self.length}"

    def check(self, height: int, labels: int) -> None:
        """Raise UserError unless graphs of this shape fit a batch of this height and width."""
        if height != 1:
            raise UserError(f"a {self.family} graph has labels, not {height} rows: use 1 row, and the labels as width.")
        check_labels(labels)
        if labels < self.nodes:
            raise UserError(f"{labels} labels are too few for the {self.nodes} nodes of a {self.family} graph.")


def star_shape(family: str) -> StarShape | None:
    """Return the shape that a family's name says, or None if it is no family of path-star graphs."""
    if family != FAMILY and not family.startswith(f"{FAMILY}-"):
        return None
    match = _NAME.fullmatch(family)
    if not match or (shape := StarShape(int(match[1]), int(match[2]))).family != family:
        raise UserError(f"a family of path-star graphs is named {FAMILY}-ARMSxLENGTH, such as {FAMILY}-2x5.")
    return shape


def generate_stars(
    shape: StarShape,
    labels: int,
    index_N: npt.NDArray[np.uint64],
    seed: int,
    split: int,
    workers: int | None,
    limit: int,
) -> TaskBatch:
    """Return the graphs with these indices of a split (0 train, 1 test, 2 any), each found in `limit` attempts."""
    before_NV = np.empty((len(index_N), labels), dtype=np.uint8)
    path_NL = np.empty((len(index_N), shape.length), dtype=np.int32)

    def fill(chunk: slice) -> bool:
        filled: bool = _fill(shape.arms, seed, index_N[chunk], split, limit, before_NV[chunk], path_NL[chunk])
        return filled

    if not all(parallel_map(fill, len(index_N), labels, workers)):
        raise UserError(
            f"no {shape.family} graph with {labels} labels in the {('train', 'test', 'any')[split]} split was found in "
            f"{limit:,} attempts: there are too few such graphs; use more arms, longer ones, or more labels."
        )
    offset_N1 = shape.length * np.arange(len(index_N) + 1, dtype=np.int64)
    start_N, goal_N = path_NL[:, 0].copy(), path_NL[:, -1].copy()
    return TaskBatch(before_NV[:, None], start_N, goal_N, path_NL.reshape(-1), offset_N1)


@njit(nogil=True)
def _fill(
    arms: int,
    seed: int,
    index_N: npt.NDArray[np.uint64],
    split: int,
    limit: int,
    before_NV: npt.NDArray[np.uint8],
    path_NL: npt.NDArray[np.int32],
) -> bool:
    """Draw the graphs of `index_N`; return False if one is not found of its split."""
    labels, length = before_NV.shape[1], path_NL.shape[1]
    steps = length - 1
    state = np.empty(1, dtype=np.uint64)
    label_V = np.empty(labels, dtype=np.int32)
    for i in range(len(index_N)):
        for attempt in range(limit):
            begin_stream(state, seed, index_N[i], attempt)
            for v in range(labels):
                label_V[v] = v
            shuffle_first(state, label_V, arms * steps + 1)
            # The first label is the centre's; then come the arms, each from the centre outwards.
            before_NV[i] = ABSENT
            before_NV[i, label_V[0]] = label_V[0]
            for arm in range(arms):
                before = label_V[0]
                for step in range(steps):
                    node = label_V[1 + arm * steps + step]
                    before_NV[i, node] = before
                    before = node
            if split == 2 or (graph_hash(before_NV[i]) % np.uint64(HELD_OUT_IN) == np.uint64(0)) == (split == 1):
                break
        else:
            return False
        arm = below(state, arms)
        path_NL[i, 0] = label_V[0]
        for step in range(steps):
            path_NL[i, 1 + step] = label_V[1 + arm * steps + step]
    return True
