"""Read, solve and write back mazes that other libraries generate: maze-dataset, mazelib, networkx, and HRM's text form.

    pip install 'clew[maze-dataset]' mazelib networkx
    python benchmarks/foreign_mazes.py --count 1000

Every maze must come back as it was, with its path, and Clew's path must be as short as that of its library.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections.abc import Callable

import networkx
import numpy as np

import clew
from clew.data.readers import write_object
from clew.tokenization.read import write_maze

Rng = np.random.Generator


def check_maze_dataset(i: int, rng: Rng) -> None:
    from maze_dataset import SolvedMaze
    from maze_dataset.generation.generators import GENERATORS_MAP
    from maze_dataset.maze.lattice_maze import NoValidEndpointException

    name = ("gen_dfs", "gen_wilson", "gen_kruskal", "gen_prim", "gen_percolation", "gen_dfs_percolation")[i % 6]
    options = {"p": 0.5} if "percolation" in name else {}
    while True:
        maze = GENERATORS_MAP[name](grid_shape=rng.integers(3, 16, size=2), **options)
        try:
            solved = SolvedMaze.from_lattice_maze(maze, maze.generate_random_path())
        except NoValidEndpointException:
            continue
        break
    path = [(int(row), int(col)) for row, col in solved.solution]
    for form in (solved, solved.as_pixels(), solved.as_ascii()):
        [read] = clew.read(form)
        assert read.path == path
        assert len(clew.solve(read.task).path) == len(path)
        again = write_object("maze-dataset", read.task, read.path)
        assert np.array_equal(again.connection_list, solved.connection_list)
    assert np.array_equal(write_object("pixels", read.task, path), solved.as_pixels())
    assert write_maze("block", read.task, path) == solved.as_ascii()


def check_mazelib(i: int, rng: Rng) -> None:
    from mazelib import Maze
    from mazelib.generate.BacktrackingGenerator import BacktrackingGenerator
    from mazelib.generate.Kruskal import Kruskal
    from mazelib.generate.Prims import Prims

    maze = Maze()
    maze.generator = (Prims, BacktrackingGenerator, Kruskal)[i % 3](*map(int, rng.integers(3, 9, size=2)))
    maze.generate()
    maze.generate_entrances(bool(i % 2), bool(i % 2))
    grid = np.array(maze.grid)
    grid[maze.start] = grid[maze.end] = 0
    [read] = clew.read(grid, start=maze.start, goal=maze.end)
    assert np.array_equal(write_object("grid", read.task), grid)
    assert clew.read(write_maze("binary", read.task))[0].task == read.task
    graph = networkx.grid_2d_graph(*grid.shape)
    graph.remove_nodes_from(map(tuple, np.argwhere(grid).tolist()))
    assert len(clew.solve(read.task).path) == 1 + networkx.shortest_path_length(graph, maze.start, maze.end)


def check_networkx(i: int, rng: Rng) -> None:
    while True:
        graph = networkx.grid_2d_graph(*map(int, rng.integers(3, 13, size=2)))
        if i % 2:
            graph.remove_edges_from([edge for edge in graph.edges if rng.random() < 0.3])
        else:
            graph.remove_nodes_from([node for node in graph if rng.random() < 0.25])
        nodes = sorted(max(networkx.connected_components(graph), key=len))
        if len(nodes) > 1:
            break
    start, goal = (nodes[k] for k in rng.choice(len(nodes), 2, replace=False))
    [read] = clew.read(graph, start=start, goal=goal)
    again = write_object("networkx", read.task)
    assert set(map(frozenset, again.edges)) == set(map(frozenset, graph.edges))
    assert clew.read(again)[0].task == read.task
    assert len(clew.solve(read.task).path) == 1 + networkx.shortest_path_length(graph, start, goal)


def check_hrm(i: int, rng: Rng) -> None:
    task, path = clew.generate("astar", size=(10, 20, 30)[i % 3], seed=i)[0]
    for kind in ("hrm", "csv"):
        text = write_maze(kind, task, path)
        [read] = clew.read(text)
        assert (read.task, read.path) == (task, path)
        assert write_maze(kind, read.task, read.path) == text
        assert clew.solve(read.task).path == path


CHECKS: dict[str, Callable[[int, Rng], None]] = {
    "maze-dataset": check_maze_dataset,
    "mazelib": check_mazelib,
    "networkx": check_networkx,
    "hrm": check_hrm,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="mazes of each kind")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of maze-dataset, about its own generators
    random.seed(0)
    np.random.seed(0)
    rng = np.random.default_rng(0)
    for name, check in CHECKS.items():
        for i in range(options.count):
            check(i, rng)
        print(f"{name}: {options.count:,} mazes read, solved and written back", flush=True)


if __name__ == "__main__":
    main()
