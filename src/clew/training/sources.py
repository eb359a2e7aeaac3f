"""The batches of a run, and its held-out mazes, as a config describes them.

    source = build_source(config)
    batch = source.batch(step, rank, world_size)      # a clew.data.loader.Loader
    rows = source.rows(step)                          # mazes of that step over all processes
    tasks = held_out_tasks(config.data, count=2000)   # one TaskBatch a shape, never trained on

Like a Loader, a source is a pure function of the step, so the step is all there is to save.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from clew.data.batch import Batch
from clew.data.dataset import DATASET_FILE, Dataset, open_dataset
from clew.data.loader import CELL_LABELS, DatasetLoader, StreamConfig, StreamLoader
from clew.data.settings import DatasetSettings
from clew.data.writer import write_dataset
from clew.errors import UserError, machine_memory
from clew.mazes.generate import DEFAULT_OPEN_SHARE, generate
from clew.mazes.generators import MAX_PAIRS
from clew.mazes.maze import TaskBatch
from clew.training.config import DataConfig, FormatName, TrainConfig

PAPER_MAZES, PAPER_HELD_OUT = 100_000, 2_000
# At least so many for each cell of a maze in a batch: a text has three to four tokens a cell, of ten bytes each.
BYTES_A_CELL = 10
READY_BATCHES = 4  # one that is used, two that wait, one that is being made


class Source(Protocol):
    """Gives the batch of any step, and says how many mazes it has."""

    @property
    def steps_per_epoch(self) -> int | None:
        """None if there is no end to it."""
        ...

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Batch: ...

    def rows(self, step: int) -> int: ...


class DatasetSource(DatasetLoader):
    """A DatasetLoader that says how many mazes a step has."""

    def rows(self, step: int) -> int:
        return len(self.indices(step))


class ShapeMixSource:
    """Fresh mazes of several shapes, one shape a step, drawn from (seed, step) alone.

    With `grow_steps`, step s draws from the first 1 + floor(s K / grow_steps) of the K shapes, so that the range opens
    from the smallest to the largest; without, from all of them. Growth goes by steps and not by minutes, so that what
    a step holds never depends on how fast the machine is.

    A step of shape k has batch_size * (cells of the largest) / (cells of k) mazes, rounded down: about as many cells,
    and as much memory, whatever its shape.
    """

    steps_per_epoch = None

    def __init__(self, streams: list[StreamConfig], form: str, grow_steps: int | None) -> None:
        largest = streams[-1].height * streams[-1].width
        self._streams = [
            dataclasses.replace(s, batch_size=s.batch_size * largest // (s.height * s.width)) for s in streams
        ]
        self._loaders = [StreamLoader(stream, form) for stream in self._streams]
        self._seed, self._grow_steps = streams[0].seed, grow_steps

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Batch:
        return self._loaders[self.shape_number(step)].batch(step, rank, world_size)

    def rows(self, step: int) -> int:
        return self._streams[self.shape_number(step)].batch_size

    def shape_number(self, step: int) -> int:
        """Which of the shapes a step has."""
        count = len(self._streams)
        if self._grow_steps is not None:
            count = min(count, 1 + step * count // self._grow_steps)
        return int(np.random.default_rng([self._seed, step]).integers(count))


def build_source(config: TrainConfig) -> Source:
    """The batches that a config asks for; its dataset must be there."""
    data = config.data
    if data.source == "dataset":
        dataset = open_matching(data)
        return DatasetSource(dataset, "train", data.format, config.batch_size, config.seed, limit=data.mazes)
    share = DEFAULT_OPEN_SHARE if data.open_share is None else data.open_share
    streams = [
        StreamConfig(data.family, height, width, data.seed, config.batch_size, share, data.long_share, data.longest_of)
        for height, width in data.shapes
    ]
    return ShapeMixSource(streams, data.format, data.grow_steps if data.mixture == "grow" else None)


def check_batch_memory(config: TrainConfig, world_size: int) -> None:
    """UserError if not even the batches themselves fit into memory: the system would end the process for it."""
    height, width = config.data.shapes[-1]
    needed = READY_BATCHES * BYTES_A_CELL * height * width * config.batch_size // world_size
    if needed > machine_memory():
        raise UserError(
            f"batches of {config.batch_size:,} mazes take about {needed / 1e9:,.0f} GB of memory in each process, and "
            f"this machine has {machine_memory() / 1e9:,.0f}; use a smaller --batch-size."
        )


def dataset_folder(data: DataConfig) -> Path:
    """Where the dataset of a config is, or is to be made."""
    if data.folder:
        return Path(data.folder)
    height, width = data.shapes[0]
    size = width if height in (1, width) else f"{height}x{width}"
    return Path("data") / f"{data.family}-{size}"


def dataset_settings(data: DataConfig) -> DatasetSettings:
    """What the dataset of a config is made from."""
    height, width = data.shapes[0]
    counts = {"train": data.mazes or PAPER_MAZES, "test": PAPER_HELD_OUT}
    return DatasetSettings(data.family, height, width, data.seed, counts, open_share=data.open_share)


def make_dataset(data: DataConfig) -> bool:
    """Make the dataset of a config if there is none, or finish it; False if it was there."""
    if data.source != "dataset" or (dataset_folder(data) / DATASET_FILE).exists():
        return False
    dataset_folder(data).parent.mkdir(parents=True, exist_ok=True)
    return write_dataset(dataset_settings(data), dataset_folder(data))


def open_matching(data: DataConfig) -> Dataset:
    """The dataset of a config, which must hold mazes of its family and shape."""
    dataset = open_dataset(dataset_folder(data))
    found, height, width = dataset.settings, *data.shapes[0]
    if (found.family, found.height, found.width, found.seed) != (data.family, height, width, data.seed):
        raise UserError(
            f"{dataset.directory} holds {found.family} mazes of {found.height} by {found.width} of seed {found.seed}, "
            f"but the run is for {data.family} mazes of {height} by {width} of seed {data.seed}; give another "
            "--data.folder, or the dataset's own settings."
        )
    return dataset


def adopt_dataset(data: DataConfig, named: DataConfig) -> DataConfig:
    """The data with family, shape, seed and format of the folder it names, unless it differs from `named` in them.

    So `--data.folder my-mazes` is all that somebody with mazes of their own has to say; what they do say stands.
    """
    same = all(getattr(data, name) == getattr(named, name) for name in ("family", "sizes", "width", "seed", "format"))
    if data.source != "dataset" or not same or data.folder in ("", named.folder):
        return data
    found = open_dataset(data.folder).settings
    form = data.format if data.format == CELL_LABELS else found.format
    return dataclasses.replace(
        data,
        family=found.family,
        sizes=(found.height,),
        width=None if found.height == found.width else found.width,
        seed=found.seed,
        format=cast(FormatName, form),
        open_share=found.open_share,
        mazes=data.mazes if data.mazes != named.mazes else None,
    )


def held_out_draws(family: str, dataset: Path | None) -> int:
    """The `draws` with which clew.mazes.generate.generate gives the held-out tasks of a dataset, or of a stream."""
    if family != "astar" or dataset is None:
        return MAX_PAIRS
    if (dataset / DATASET_FILE).is_file():
        return open_dataset(dataset).settings.test_draws
    return 1  # as of datasets that keep all tasks of a layout, the default


def held_out_tasks(data: DataConfig, count: int) -> list[TaskBatch]:
    """Mazes that are never trained on, as many of each shape.

    Those of a dataset are its test split's first. Those of a stream are the same that a dataset of the same family,
    shape and seed would have, so runs of both kinds can be compared; of `astar`, one with one task per layout.
    """
    if data.source == "dataset":
        split = open_matching(data).split("test")
        if len(split) < count:
            raise UserError(
                f"{dataset_folder(data)} holds out {len(split)} mazes, fewer than {count}; lower --held-out."
            )
        return [split.slice(0, count)]
    share = DEFAULT_OPEN_SHARE if data.open_share is None else data.open_share
    each = -(-count // len(data.shapes))
    return [
        generate(data.family, height, width, seed=data.seed, first=0, count=each, split="test", open_share=share)
        for height, width in data.shapes
    ]
