"""Training batches from a dataset or from a stream of fresh mazes, and the held-out mazes of a run.

    loader = build_loader(config.data, batch_size=128, seed=0)
    batch = loader.batch(step, rank, world_size)
    tasks = held_out_tasks(config.data, count=2000)   # one TaskBatch for each shape, never trained on

A batch is a pure function of (loader, step, rank, world_size): the step is the only state to checkpoint, and the global
batch of a step holds the same mazes for any number of processes.

Shape suffixes: N mazes, S steps of an epoch, L mazes with long paths, K candidates for each.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clew.data.batch import Batch, encode_tasks, text_seeds
from clew.data.config import CELL_LABELS, PAPER_HELD_OUT, PAPER_MAZES, DataConfig, DatasetSettings
from clew.data.dataset import DATASET_FILE, Dataset, Split, open_dataset
from clew.data.writer import write_dataset
from clew.errors import UserError, machine_memory
from clew.files import from_plain, to_plain
from clew.mazes.generate import generate
from clew.mazes.generators import MAX_PAIRS
from clew.mazes.maze import WALL, TaskBatch
from clew.tokenization.format import format_named

Ints = npt.NDArray[np.int64]

_FIRST_LONG = 1 << 40  # candidates for long paths are numbered from here on, which no other maze of a stream reaches
_BYTES_PER_CELL = 10  # of a batch, at least: a text has three to four tokens a cell, of ten bytes each
_BATCHES_IN_MEMORY = 4  # one in use, and three that `prefetched` has made or is making


def build_loader(data: DataConfig, batch_size: int, seed: int) -> Loader:
    """Return the loader that a config describes; its dataset must exist. `seed` shuffles a dataset."""
    if data.source == "stream":
        return StreamLoader(data, batch_size)
    dataset = open_matching(data)
    dataset.check_files()  # about a second for a gigabyte
    return DatasetLoader(dataset, "train", data.format, batch_size, seed, limit=data.mazes)


class StreamLoader:
    """Fresh mazes, never the same number twice, all with layouts of the train split.

    With several shapes each step has one, drawn from (seed, step); with mixture "grow", step s draws from the first
    1 + floor(s K / grow_steps) of the K shapes. All steps have about as many cells: batch_size mazes of the largest
    shape, and more of smaller ones.
    """

    steps_per_epoch = None

    def __init__(self, data: DataConfig, batch_size: int) -> None:
        _check_shares(batch_size, world_size=1)
        self._data = data
        height, width = data.shapes[-1]
        self._batch_sizes = [batch_size * height * width // (rows * columns) for rows, columns in data.shapes]

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Batch:
        """Return this process's part of the global batch of a step."""
        _check_shares(self.batch_size(step), world_size)
        index_N, tasks = self._numbers(step, rank, world_size), self.tasks(step, rank, world_size)
        return encode_tasks(self._data.format, tasks, text_seeds(self._data.seed, "stream", index_N), index_N)

    def batch_size(self, step: int) -> int:
        """Return the number of mazes in the global batch of a step."""
        return self._batch_sizes[self.shape_number(step)]

    def _numbers(self, step: int, rank: int, world_size: int) -> Ints:
        size = self.batch_size(step)
        return step * size + np.arange(size)[rank_rows(size, rank, world_size)]

    def shape_number(self, step: int) -> int:
        """Return which of the shapes a step has."""
        count = len(self._batch_sizes)
        if self._data.mixture == "grow":
            count = min(count, 1 + step * count // self._data.grow_steps)
        return int(np.random.default_rng([self._data.seed, step]).integers(count))

    def tasks(self, step: int, rank: int = 0, world_size: int = 1) -> TaskBatch:
        """Return this process's mazes of a step."""
        data, size, number_N = self._data, self.batch_size(step), self._numbers(step, rank, world_size)
        # The last mazes of a step are those with long paths.
        long_rows = round(data.long_share * size) if data.longest_of > 1 else 0
        ordinary = int((number_N < (step + 1) * size - long_rows).sum())
        candidate_LK = _FIRST_LONG + number_N[ordinary:, None] * data.longest_of + np.arange(data.longest_of)
        tasks = generate(
            data.family,
            *data.shapes[self.shape_number(step)],
            index_N=np.concatenate([number_N[:ordinary], candidate_LK.ravel()]),
            seed=data.seed,
            split="train",
            open_share=data.open_share,
        )
        longest_L = tasks.length_N[ordinary:].reshape(candidate_LK.shape).argmax(1)
        longest_L += ordinary + data.longest_of * np.arange(len(longest_L))
        return tasks.select(np.concatenate([np.arange(ordinary), longest_L]))


class DatasetLoader:
    """The mazes of a split in shuffled batches, each maze exactly once an epoch; docs/data.md says why.

    Length only orders the rows within a batch, so that processes, which take every world_size-th row, get equal shares
    of long and short sequences. Where the mazes do not fill the last batch, all are a little smaller.
    """

    def __init__(
        self, dataset: Dataset, split: str, format_name: str, batch_size: int, seed: int, limit: int | None = None
    ) -> None:
        """`limit` takes the first mazes of the split only."""
        _check_shares(batch_size, world_size=1)
        self._split = dataset.split(split)
        count = len(self._split) if limit is None else limit
        if not 1 <= count <= len(self._split):
            where = f"from the {len(self._split)} in {split} of {dataset.directory}"
            raise UserError(f"{count} mazes cannot be taken {where}; use 1 to {len(self._split)}.")
        self._format_name = format_named(format_name).name
        self._text_seed, self._split_name = dataset.settings.seed, split
        self._count, self._seed = count, seed
        self._length_N = sequence_lengths(self._split, format_name, count)
        self.steps_per_epoch = -(-count // batch_size)
        self._permuted: tuple[int, Ints] | None = None

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Batch:
        index_N = self.indices(step)
        _check_shares(len(index_N), world_size)
        index_N = index_N[rank_rows(len(index_N), rank, world_size)]
        seed_N = text_seeds(self._text_seed, self._split_name, index_N)
        return encode_tasks(self._format_name, self._split.select(index_N), seed_N, index_N)

    def batch_size(self, step: int) -> int:
        return len(self.indices(step))

    def indices(self, step: int) -> Ints:
        """Return the numbers of the mazes in the global batch of a step, the shortest sequence first."""
        epoch, number = divmod(step, self.steps_per_epoch)
        if self._permuted is None or self._permuted[0] != epoch:
            self._permuted = epoch, np.random.default_rng([self._seed, epoch]).permutation(self._count)
        first, last = (self._count * i // self.steps_per_epoch for i in (number, number + 1))
        index_N = self._permuted[1][first:last]
        return index_N[self._length_N[index_N].argsort(kind="stable")]


Loader: TypeAlias = StreamLoader | DatasetLoader


def rank_rows(count: int, rank: int, world_size: int) -> slice:
    """Return the rows of a global batch that belong to a process: every world_size-th."""
    return slice(rank, count, world_size)


def _check_shares(mazes: int, world_size: int) -> None:
    """Raise UserError unless every process gets a maze: models take no empty batch."""
    if mazes < world_size or mazes < 1:
        raise UserError(f"a batch of {mazes} mazes cannot be shared by {world_size} processes; use a larger batch.")


def sequence_lengths(split: Split | TaskBatch, format_name: str, count: int) -> Ints:
    """Return a number for each of the first `count` mazes that grows with the length of its sequence."""
    length_N: Ints = np.diff(split.offset_N1[: count + 1])
    # The cell formats list all cells, and path-star graphs of one family have the same number of edges.
    if format_name in ("grid", CELL_LABELS) or split.height == 1:
        return length_N
    is_wall_list = format_name.startswith("wall-list")
    listed_N = np.empty(count, dtype=np.int64)
    block = max(1, 16_000_000 // (split.height * split.width))
    for first in range(0, count, block):
        cells_NHW = split.cells_NHW[first : min(first + block, count)]
        marks_NHW = (cells_NHW & WALL) // WALL if is_wall_list else np.bitwise_count(cells_NHW & 15)
        listed_N[first : first + block] = marks_NHW.sum(axis=(1, 2), dtype=np.int64)
    # A trace is not known before it is run; it grows with the path. Both ends of a passage count it.
    return 3 * listed_N + 3 * length_N if is_wall_list else 3 * listed_N // 2 + length_N


def check_batch_memory(data: DataConfig, batch_size: int, world_size: int) -> None:
    """Raise UserError if the batches alone exceed the memory: the system would end the process for it."""
    height, width = data.shapes[-1]
    needed = _BATCHES_IN_MEMORY * _BYTES_PER_CELL * height * width * batch_size // world_size
    if needed > machine_memory():
        raise UserError(
            f"batches of {batch_size:,} mazes take about {needed / 1e9:,.0f} GB of memory in each process, and "
            f"this machine has {machine_memory() / 1e9:,.0f}; use a smaller --batch-size."
        )


def make_dataset(data: DataConfig) -> bool:
    """Make or finish the dataset of a config; False if it exists or none is needed."""
    if data.source != "dataset" or (data.dataset_folder / DATASET_FILE).exists():
        return False
    counts = {"train": data.mazes or PAPER_MAZES, "test": PAPER_HELD_OUT}
    settings = DatasetSettings(data.family, *data.shapes[0], data.seed, counts, open_share=data.open_share)
    return write_dataset(settings, data.dataset_folder)


def open_matching(data: DataConfig) -> Dataset:
    """Open the dataset of a config; UserError unless it has the config's family, shape and seed."""
    dataset = open_dataset(data.dataset_folder)
    found, height, width = dataset.settings, *data.shapes[0]
    if (found.family, found.height, found.width, found.seed) != (data.family, height, width, data.seed):
        wanted = f"{data.family} mazes of {height} by {width} of seed {data.seed}"
        held = f"{found.family} mazes of {found.height} by {found.width} of seed {found.seed}"
        where = f"{dataset.directory} holds {held}, but the run is for {wanted}"
        raise UserError(f"{where}; give another --data.folder, or the dataset's own settings.")
    return dataset


def adopt_dataset(plain: dict[str, Any], preset: DataConfig) -> DataConfig:
    """Return the config of plain fields; what is still the preset's is taken from the dataset folder it names."""
    before, folder = to_plain(preset), plain["folder"]
    same = all(plain[name] == before[name] for name in ("family", "sizes", "width", "seed", "format"))
    if plain["source"] == "dataset" and same and isinstance(folder, str) and folder not in ("", preset.folder):
        found = open_dataset(folder).settings
        width = None if found.height == found.width else found.width
        form = CELL_LABELS if plain["format"] == CELL_LABELS else found.format
        plain = plain | {"family": found.family, "sizes": [found.height], "width": width, "seed": found.seed}
        plain |= {"format": form, "open_share": found.open_share}
        defaults = {"mazes": None, "long_share": 0.0}  # the preset's own are for its dataset or its stream
        plain |= {name: value for name, value in defaults.items() if plain[name] == before[name]}
    return from_plain(DataConfig, plain, "data of the config")


def held_out_draws(family: str, dataset: Path | None) -> int:
    """Return the `draws` with which `generate` gives the held-out tasks of a dataset, or of a stream (None)."""
    if family != "astar" or dataset is None:
        return MAX_PAIRS
    if (dataset / DATASET_FILE).is_file():
        return open_dataset(dataset).settings.test_draws
    return 1  # as in datasets that keep all tasks of a layout, the default


def held_out_tasks(data: DataConfig, count: int) -> list[TaskBatch]:
    """Return mazes that are never trained on, `count` in sum, equally many of each shape.

    Those of a stream are the same that a dataset has; of `astar`, one with one task per layout.
    """
    if data.source == "dataset":
        split = open_matching(data).split("test")
        if len(split) < count:
            raise UserError(f"{data.dataset_folder} holds out only {len(split)} mazes, not {count}; lower --held-out.")
        return [split[:count]]
    each = -(-count // len(data.shapes))
    return [
        generate(data.family, *shape, seed=data.seed, count=each, split="test", open_share=data.open_share)
        for shape in data.shapes
    ]


def prefetched(loader: Loader, first_step: int, rank: int = 0, world_size: int = 1) -> Generator[Batch, None, None]:
    """Yield this process's batches from a step on, without end, made ahead in a background thread; to be closed.

    An exception is raised where its batch would have been.
    """
    pool = ThreadPoolExecutor(1, "clew-prefetch")
    try:
        made = (pool.submit(loader.batch, step, rank, world_size) for step in itertools.count(first_step))
        ahead = deque(itertools.islice(made, _BATCHES_IN_MEMORY - 1))
        while True:
            batch = ahead.popleft().result()
            ahead.append(next(made))
            yield batch
    finally:
        pool.shutdown(cancel_futures=True)
