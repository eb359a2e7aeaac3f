from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.mazes.generate import generate
from clew.mazes.layouts import HELD_OUT_IN, is_held_out, layout_hashes
from clew.mazes.maze import EAST, NORTH, SOUTH, WALL, WEST, Maze


def hash_of(maze: Maze) -> int:
    return int(layout_hashes(maze.cells[None])[0])


def turned(maze: Maze) -> Maze:
    """The maze a quarter turn to the left, by its passages and walls: (row, col) -> (width - 1 - col, row)."""

    def move(cell):
        return (maze.width - 1 - cell[1], cell[0])

    edges = [(move(a), move(b)) for a, b in maze.edges()]
    cells = Maze.from_edges(maze.width, maze.height, edges).cells.copy()
    for cell in maze.walls():
        cells[move(cell)] = WALL
    return Maze(cells)


def mirrored(maze: Maze) -> Maze:
    def move(cell):
        return (cell[0], maze.width - 1 - cell[1])

    cells = Maze.from_edges(maze.height, maze.width, [(move(a), move(b)) for a, b in maze.edges()]).cells.copy()
    for cell in maze.walls():
        cells[move(cell)] = WALL
    return Maze(cells)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["dfs", "astar", "percolation"]),
    st.sampled_from([(4, 4), (4, 7), (7, 4), (5, 5), (3, 4)]),
    st.integers(0, 2**40),
)
def test_turning_and_mirroring_keep_the_hash(family, shape, index):
    maze = generate(family, *shape, seed=1, first=index, count=1, split="any")[0][0].maze
    expected = hash_of(maze)
    for _ in range(4):
        maze = turned(maze)
        assert hash_of(maze) == expected
        assert hash_of(mirrored(maze)) == expected


def test_every_difference_counts():
    """A passage closed, a passage opened, a cell made solid: another hash."""
    maze = generate("percolation", 4, 5, seed=0, first=0, count=1, split="any")[0][0].maze
    hashes = {hash_of(maze)}
    for row, col in product(range(4), range(5)):
        for out, back, there in ((EAST, WEST, (row, col + 1)), (SOUTH, NORTH, (row + 1, col))):
            if there in maze:
                cells = maze.cells.copy()
                cells[row, col] ^= out
                cells[there] ^= back
                hashes.add(hash_of(Maze(cells)))
    assert len(hashes) == 1 + 4 * 4 + 3 * 5
    closed_in = np.zeros((2, 3), np.uint8)
    solid = closed_in.copy()
    solid[0, 0] = WALL
    assert hash_of(Maze(closed_in)) != hash_of(Maze(solid))


def test_the_hash_is_stable():
    """These numbers may never change: they say which mazes are held out, in every dataset ever written."""
    assert hash_of(Maze.from_walls(3, 3, [])) == 0x07B2406754E0E1BE
    assert hash_of(Maze.from_walls(4, 7, [(0, 1), (2, 2)])) == 0x6E598B7A8A54CE24
    assert hash_of(Maze.from_edges(2, 2, [((0, 0), (0, 1)), ((0, 1), (1, 1))])) == 0x470ED3246F0FBFE9


@pytest.mark.parametrize(("height", "width", "orbits"), [(2, 2, 4), (2, 3, 6), (3, 2, 6), (3, 3, 28)])
def test_all_small_perfect_mazes_have_two_sides(all_perfect_mazes, height, width, orbits):
    """Mazes that are turns of one another share a hash, all others differ; 2x2 mazes are not turned at all."""
    mazes = all_perfect_mazes(height, width)
    hashes = layout_hashes(mazes)
    assert len(set(hashes.tolist())) == orbits
    held_out = is_held_out(hashes)
    assert 0 < held_out.sum() < len(mazes) / 2


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 3)])
@pytest.mark.parametrize("family", ["dfs", "wilson", "kruskal"])
def test_no_small_layout_is_drawn_on_both_sides(all_perfect_mazes, family, shape):
    drawn = {}
    for split, seed in (("train", 0), ("test", 1)):
        batch = generate(family, *shape, seed=seed, first=0, count=2000, split=split)
        drawn[split] = {cells.tobytes() for cells in batch.cells_NHW}
    assert drawn["train"]
    assert drawn["test"]
    assert not drawn["train"] & drawn["test"]
    if family == "wilson":  # reaches every maze: together the two sides are all there is
        assert drawn["train"] | drawn["test"] == {cells.tobytes() for cells in all_perfect_mazes(*shape)}


def test_the_held_out_share():
    batch = generate("dfs", 8, 8, seed=0, first=0, count=8000, split="any")
    share = is_held_out(layout_hashes(batch.cells_NHW)).mean()
    assert abs(share - 1 / HELD_OUT_IN) < 0.01
