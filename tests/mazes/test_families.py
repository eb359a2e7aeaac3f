"""What `generate` draws: sound tasks, the right distributions, and the same ones whatever the workers."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import UserError
from clew.mazes.compiled import begin_stream, below
from clew.mazes.generate import FAMILIES, generate
from clew.mazes.generators import place_walls
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import EAST, SOUTH, WALL, Maze, Task
from clew.mazes.solvers import astar, bfs_path, check_batch, num_shortest, one_shortest
from clew.registry import register

PERFECT = ("dfs", "wilson", "kruskal")


def draw(family="dfs", height=5, width=5, *, seed=0, first=0, count=1, split="any", **more):
    return generate(family, height, width, seed=seed, first=first, count=count, split=split, **more)


def same(a, b):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("cells_NHW", "start_N", "goal_N", "path", "offset_N1")
    )


def chi_square(counts, expected):
    return float((((np.asarray(counts) - expected) ** 2) / expected).sum())


@settings(max_examples=60, deadline=None)
@given(
    family=st.sampled_from(list(FAMILIES)),
    height=st.integers(4, 12),
    width=st.integers(4, 12),
    seed=st.integers(0, 2**63 - 1),
    first=st.integers(0, 2**62),
    split=st.sampled_from(["train", "test", "any"]),
)
def test_every_task_is_sound(family, height, width, seed, first, split):
    if family == "astar" and max(height, width) > 2 * min(height, width):
        return  # a long narrow field seldom has a path of that length
    batch = draw(family, height, width, seed=seed, first=first, count=3, split=split)
    assert len(batch) == 3
    for task, path in batch:  # Maze and Task check themselves
        assert task.start != task.goal
        assert (path[0], path[-1]) == (task.start, task.goal)
        if family in PERFECT:
            assert len(task.maze.edges()) == height * width - 1
            assert num_shortest(task) == 1
        else:
            assert path == astar(task).path
        if family == "astar":
            assert task.maze.has_wall_cells_only
            assert len(path) >= max(height, width)
            tenth = height * width // 10
            assert 3 * tenth <= len(task.maze.walls()) <= 5 * tenth
        else:
            assert not task.maze.walls()
    valid, shortest = check_batch(batch)
    assert valid.all()
    assert shortest.all()
    if split != "any":
        assert (is_held_out(layout_hashes(batch.cells_NHW)) == (split == "test")).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_workers_do_not_matter(family):
    one = draw(family, 9, 7, count=1500, split="train", workers=1)
    assert same(one, draw(family, 9, 7, count=1500, split="train", workers=2))
    assert same(one, draw(family, 9, 7, count=1500, split="train", workers=5))


def test_two_threads_may_generate_at_once():
    expected = draw(count=3000)
    results = []
    threads = [threading.Thread(target=lambda: results.append(draw(count=3000))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert all(same(expected, each) for each in results)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_maze_depends_on_its_index_alone(family):
    whole = draw(family, 6, 6, first=2**40, count=50, split="test")
    assert same(whole.select(np.arange(20, 30)), draw(family, 6, 6, first=2**40 + 20, count=10, split="test"))
    order = np.array([49, 0, 7, 7], dtype=np.int64)
    some = generate(family, 6, 6, index_N=2**40 + order, seed=0, split="test")
    assert same(whole.select(order), some)


def test_seeds_and_indices_give_other_mazes():
    mazes = [draw(seed=seed, first=first).cells_NHW.tobytes() for seed in range(8) for first in range(8)]
    assert len(set(mazes)) == 64


def test_no_mazes_are_a_batch_too():
    batch = draw(count=0)
    assert len(batch) == 0
    assert batch.cells_NHW.shape == (0, 5, 5)
    assert batch.offset_N1.tolist() == [0]


def test_dfs_carves_like_the_plain_algorithm():
    """The same chances for each 3x3 maze as a plain recursive walk: compared maze by maze."""
    rng = np.random.default_rng(0)

    def plain():
        cells = np.zeros((3, 3), np.uint8)
        seen = set()

        def visit(cell):
            seen.add(cell)
            while True:
                free = [
                    ((cell[0] + dr, cell[1] + dc), out, back)
                    for dr, dc, out, back in ((-1, 0, 1, 2), (1, 0, 2, 1), (0, -1, 4, 8), (0, 1, 8, 4))
                    if 0 <= cell[0] + dr < 3 and 0 <= cell[1] + dc < 3 and (cell[0] + dr, cell[1] + dc) not in seen
                ]
                if not free:
                    return
                there, out, back = free[rng.integers(len(free))]
                cells[cell] |= out
                cells[there] |= back
                visit(there)

        visit((int(rng.integers(3)), int(rng.integers(3))))
        return cells.tobytes()

    count = 6000
    theirs: dict[bytes, int] = {}
    ours: dict[bytes, int] = {}
    for _ in range(count):
        maze = plain()
        theirs[maze] = theirs.get(maze, 0) + 1
    for cells in draw("dfs", 3, 3, count=count).cells_NHW:
        ours[cells.tobytes()] = ours.get(cells.tobytes(), 0) + 1
    mazes = sorted(set(theirs) | set(ours))
    a, b = (np.array([each.get(maze, 0) for maze in mazes]) for each in (ours, theirs))
    statistic = float(((a - b) ** 2 / (a + b)).sum())
    degrees = len(mazes) - 1
    assert statistic < degrees + 4 * (2 * degrees) ** 0.5  # four standard deviations


@pytest.mark.parametrize(("shape", "mazes"), [((2, 2), 4), ((2, 3), 15), ((3, 3), 192)])
def test_wilson_draws_every_perfect_maze_alike(shape, mazes):
    count = 100 * mazes
    _, counts = np.unique(draw("wilson", *shape, count=count).cells_NHW.reshape(count, -1), axis=0, return_counts=True)
    assert len(counts) == mazes
    assert chi_square(counts, 100) < (mazes - 1) + 4 * (2 * (mazes - 1)) ** 0.5


def test_kruskal_draws_passages_alike():
    """On 2x2 all four mazes have the same chance; on 2x3 the middle passage is no longer like the others."""
    _, counts = np.unique(draw("kruskal", 2, 2, count=4000).cells_NHW.reshape(4000, -1), axis=0, return_counts=True)
    assert chi_square(counts, 1000) < 16
    middle = (draw("kruskal", 2, 3, count=20_000).cells_NHW[:, 0, 1] & SOUTH) != 0
    # 3,240 of the 7! orders of the 7 passages open it; of the 15 mazes, 9 have it, a share of 0.6.
    assert abs(middle.mean() - 3240 / 5040) < 0.015


def test_starts_and_goals_are_uniform_pairs():
    batch = draw("dfs", 2, 3, count=30_000)
    pairs = np.bincount(batch.start_N * 6 + batch.goal_N, minlength=36).reshape(6, 6)
    assert pairs.diagonal().sum() == 0
    assert chi_square(pairs[~np.eye(6, dtype=bool)], 1000) < 29 + 4 * 58**0.5


@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
def test_percolation_opens_its_share(share):
    batch = draw("percolation", 20, 20, count=200, open_share=share)
    passages = ((batch.cells_NHW & EAST) != 0).sum() + ((batch.cells_NHW & SOUTH) != 0).sum()
    assert abs(passages / (200 * 2 * 20 * 19) - share) < 0.006


def test_percolation_has_loops_and_cells_out_of_reach():
    batch = draw("percolation", 10, 10, count=50)
    assert any(num_shortest(task) > 1 for task, _ in batch)
    assert (batch.cells_NHW == 0).any()


def test_walls_cover_the_whole_range_evenly():
    """Every number of walls from 30 to 50 is drawn; fewer at the upper end, where tasks are seldom long enough."""
    counts = (draw("astar", 10, 10, count=4000).cells_NHW == WALL).sum(axis=(1, 2))
    assert (counts.min(), counts.max()) == (30, 50)
    assert set(counts.tolist()) == set(range(30, 51))


@pytest.mark.parametrize("shape", [(5, 5), (8, 6), (12, 12)])
def test_the_first_long_enough_pair_is_taken(shape):
    """Drawn again step by step, each pair tried by breadth-first search."""
    batch = draw("astar", *shape, seed=6, count=60)
    state = np.empty(1, np.uint64)
    for i in range(len(batch)):
        ends = None
        attempt = 0
        while ends is None:
            begin_stream(state, 6, i, attempt)
            cells_HW = np.empty(shape, np.uint8)
            place_walls(cells_HW, state)
            free = np.flatnonzero(cells_HW != WALL)
            for _ in range(100):
                start, goal = (batch.cell(free[below(state, len(free))]) for _ in range(2))
                path = bfs_path(Task(Maze(cells_HW), start, goal))
                if path is not None and len(path) >= max(shape):
                    ends = start, goal
                    break
            attempt += 1
        assert np.array_equal(batch.cells_NHW[i], cells_HW)
        assert (batch[i][0].start, batch[i][0].goal) == ends


def all_pairs(height=7, width=6, *, seed=6, first=0, count=20, split="any", **more):
    return generate("astar", height, width, seed=seed, first=first, count=count, split=split, all_pairs=True, **more)


@pytest.mark.parametrize("shape", [(5, 5), (8, 6), (10, 10)])
def test_all_good_pairs_of_100_draws_are_kept_once(shape):
    """Drawn again step by step, each pair tried by breadth-first search."""
    batch = all_pairs(*shape, count=20)
    state, expected = np.empty(1, np.uint64), []
    for i in range(20):
        attempt, found = 0, {}
        while not found:
            begin_stream(state, 6, i, attempt)
            cells_HW = np.empty(shape, np.uint8)
            place_walls(cells_HW, state)
            free = np.flatnonzero(cells_HW != WALL)
            for _ in range(100):
                first, second = below(state, len(free)), below(state, len(free) - 1)
                start, goal = (batch.cell(free[k]) for k in (first, second + (second >= first)))
                assert start != goal
                path = bfs_path(Task(Maze(cells_HW), start, goal))
                if path is not None and len(path) >= max(shape):
                    found[start, goal] = cells_HW.tobytes()
            attempt += 1
        expected += [(cells, *ends) for ends, cells in found.items()]
    assert [(task.maze.cells.tobytes(), task.start, task.goal) for task, _ in batch] == expected
    assert all(path == astar(task).path for task, path in batch)


def test_all_pairs_depend_on_the_layout_alone():
    whole = all_pairs(count=300, split="train", workers=1)
    assert same(whole, all_pairs(count=300, split="train", workers=3))
    assert not is_held_out(layout_hashes(whole.cells_NHW)).any()
    half = all_pairs(first=150, count=150, split="train")
    assert same(whole.select(np.arange(len(whole) - len(half), len(whole))), half)
    assert len(all_pairs(count=0)) == 0
    with pytest.raises(UserError, match="was found in 100,000 attempts"):
        all_pairs(3, 3, split="test")


def test_10x10_walls_tasks_are_like_the_published_ones():
    """Searchformer's generator gave 36.7 % wall cells, 13.3 cells a path and 17.2 % of tasks with one shortest path."""
    train = all_pairs(10, 10, seed=0, count=3000, split="train")
    test = draw("astar", 10, 10, count=20_000, split="test", draws=1)
    for tasks in (train, test):
        assert (tasks.cells_NHW == WALL).mean() == pytest.approx(0.367, abs=0.005)
        assert tasks.length_N.mean() == pytest.approx(13.3, abs=0.2)
        assert one_shortest(tasks).mean() == pytest.approx(0.172, abs=0.012)
    assert 18 < len(train) / 3000 < 22
    # With one task a layout, layouts with few good pairs count as much as the others.
    one = draw("astar", 10, 10, count=20_000, split="train")
    assert (one.cells_NHW == WALL).mean() == pytest.approx(0.393, abs=0.003)
    assert one.length_N.mean() == pytest.approx(12.5, abs=0.1)


def test_tasks_with_one_shortest_path_are_counted_alike():
    for family in ("astar", "percolation", "dfs"):
        batch = draw(family, 6, 7, count=100)
        assert one_shortest(batch).tolist() == [num_shortest(task) == 1 for task, _ in batch]


def test_wall_cells_are_anywhere():
    share = (draw("astar", 10, 10, count=4000).cells_NHW == WALL).mean(axis=0)
    # Being on a path makes the middle a little freer than the corners.
    assert 0.25 < share.min() <= share.max() < 0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"family": "prim"}, "no family of mazes named 'prim'"),
        ({"split": "validation"}, "no split 'validation'"),
        ({"seed": -1}, "the seed -1 is out of range"),
        ({"seed": 2**63}, "is out of range"),
        ({"workers": 0}, "0 workers cannot work"),
        ({"open_share": 0.0}, "the open share 0.0 is out of range"),
        ({"open_share": 1.5}, "the open share 1.5 is out of range"),
        ({"open_share": float("nan")}, "the open share nan is out of range"),
        ({"first": -1}, "indices go from 0"),
        ({"count": -1}, "indices go from 0"),
        ({"first": 2**63, "count": 1}, "indices go from 0"),
        ({"height": 1}, "a maze of 1 row and 5 columns"),
        ({"width": 256}, "a maze of 5 rows and 256 columns"),
    ],
)
def test_bad_input_gets_one_sentence(change, words):
    with pytest.raises(UserError, match=words):
        draw(**change)


@pytest.mark.parametrize(
    ("family", "height", "width", "split"),
    [("astar", 3, 3, "test"), ("astar", 2, 2, "test"), ("astar", 2, 200, "any")],
)
def test_mazes_that_do_not_exist_are_not_sought_for_ever(family, height, width, split):
    """With fewer than 10 cells there is one layout only, without walls; along 2x200 cells there is no way through."""
    with pytest.raises(UserError, match="was found in 100,000 attempts"):
        draw(family, height, width, count=100, split=split)


def test_a_single_layout_may_be_trained_on():
    assert len(draw("astar", 3, 3, count=10, split="train")) == 10


@pytest.mark.parametrize("family", ["dfs", "astar", "percolation"])
def test_no_path_is_shorter_than_asked_for(family: str) -> None:
    for split in ("train", "test"):
        long = generate(family, 10, 10, seed=0, first=0, count=20, split=split, min_path=25, open_share=0.8)
        assert long.length_N.min() >= 25
        assert (is_held_out(layout_hashes(long.cells_NHW)) == (split == "test")).all()
    again = generate(family, 10, 10, seed=0, first=7, count=1, split="test", min_path=25, open_share=0.8, workers=1)
    assert again.cells_NHW[0].tolist() == long.cells_NHW[7].tolist()


def test_a_path_that_no_maze_has_room_for_is_refused() -> None:
    with pytest.raises(UserError, match="no maze of 3 rows and 4 columns has a path of at least 13 cells; use 1 to 12"):
        generate("dfs", 3, 4, seed=0, first=0, count=1, split="test", min_path=13)
    with pytest.raises(UserError, match=r"at least 16 cells was found in 1,000,000 attempts: .* a shorter path"):
        generate("astar", 4, 4, seed=0, first=0, count=1, split="test", min_path=16)


@register("family", "combs")
class Combs:
    """A corridor along the top with one dead end below each cell, of random length; all else is closed."""

    def generate(self, height: int, width: int, rng: np.random.Generator) -> Task:
        edges = [((0, col), (0, col + 1)) for col in range(width - 1)]
        edges += [((row, col), (row + 1, col)) for col in range(width) for row in range(rng.integers(height))]
        return Task(Maze.from_edges(height, width, edges), (0, 0), (0, int(rng.integers(width))))


def test_a_registered_family_is_split_and_solved_like_the_others() -> None:
    train, test = (draw("combs", 6, 7, count=25, split=split) for split in ("train", "test"))
    assert not is_held_out(layout_hashes(train.cells_NHW)).any()
    assert is_held_out(layout_hashes(test.cells_NHW)).all()
    for task, path in [*train, *test]:
        assert path == astar(task).path
        assert len(path) > 1
    assert same(
        train.select(np.array([20, 3])), generate("combs", 6, 7, index_N=np.array([20, 3]), seed=0, split="train")
    )
    assert draw("combs", 6, 7, count=10, min_path=6).length_N.min() >= 6
    assert len(draw("combs", count=0)) == 0


def test_what_a_registered_family_does_wrong_is_named() -> None:
    @register("family", "too-small")
    class TooSmall:
        def generate(self, height: int, width: int, rng: np.random.Generator) -> Task:
            return Combs().generate(height - 1, width, rng)

    with pytest.raises(UserError, match="the family 'too-small' must generate a Task of 5 rows and 5 columns"):
        draw("too-small")
    with pytest.raises(UserError, match="none of the combs mazes of 5x5 with a path of at least 6 cells was"):
        draw("combs", min_path=6)
    with pytest.raises(UserError, match=r"choose one of dfs, .*combs.*--plugin"):
        draw("comb")
