"""Settings of datasets and of the training data of a run.

    settings = DatasetSettings(family="dfs", height=10, width=10, seed=0, counts={"train": 100_000, "test": 2_000})
    data = DataConfig(family="dfs", sizes=(10,), format="edge-list")      # `data` of a TrainConfig

DatasetSettings determine every byte of a dataset. Both classes are checked when they are made.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from clew.errors import UserError
from clew.files import from_plain
from clew.mazes.generate import DEFAULT_OPEN_SHARE, FAMILIES, canonical_family, check_family, check_numbers
from clew.mazes.generators import MAX_PAIRS, PATH_STAR, star_shape
from clew.mazes.maze import check_labels, check_shape
from clew.tokenization.format import check_kind, format_named
from clew.tokenization.tokens import BOS

# Raise it whenever the files, or the mazes that a seed gives, change: an older dataset is then refused, not misread.
DATASET_VERSION = 1
SPLITS = ("train", "test")

# Of `astar`. all: the training split keeps every good start and goal of 100 draws in each layout, and the test split
# one of each, with the same distribution. one: both splits keep the first good pair.
TASKS_PER_LAYOUT = ("all", "one")

CELL_LABELS = "cell-labels"  # the format whose models read cells instead of tokens, and take mazes of any size
IMPORTED = "imported"  # the family of datasets that `clew data import` makes; there is no generator of it
PAPER_MAZES, PAPER_HELD_OUT = 100_000, 2_000  # of each split of a dataset that training makes, as in the paper


@dataclass(frozen=True)
class DatasetSettings:
    """Family, shape, seed, text format and number of mazes of a dataset.

    Path-star graphs have height 1 and the number of labels as width.
    """

    family: str
    height: int
    width: int
    seed: int
    counts: dict[str, int]  # mazes of each split
    format: str = ""  # "" takes the family's own
    open_share: float | None = None  # percolation only: how many of the passages are open; None takes the default
    tasks_per_layout: str | None = None  # astar only, see TASKS_PER_LAYOUT; None takes the first
    min_path: int = 1  # cells of the shortest path that a maze may have

    def __post_init__(self) -> None:
        self._set("family", canonical_family(self.family))
        if self.family != IMPORTED:
            check_family(self.family, self.height, self.width)
        elif self.height == 1:
            check_labels(self.width)
        else:
            check_shape(self.height, self.width)
        if self.family == "percolation":
            self._set("open_share", DEFAULT_OPEN_SHARE if self.open_share is None else float(self.open_share))
        elif self.open_share is not None:
            raise UserError(f"an open share belongs to percolation mazes, not to {self.family}; leave it out.")
        check_numbers(self.height, self.width, self.seed, self.min_path, self.open_share)
        if self.counts.get("train", 0) < 1 or self.counts.get("test", -1) < 0 or set(self.counts) != set(SPLITS):
            raise UserError("a dataset needs at least 1 maze to train on and 0 to test on; raise the counts.")
        own = PATH_STAR if star_shape(self.family) else "wall-list" if self.family == "astar" else "edge-list"
        self._set("format", self.format or own)
        format_named(self.format)  # raises if there is none of that name
        check_kind(self.format, is_graph=self.height == 1)
        if self.format.startswith("wall-list") and self.family in FAMILIES and self.family != "astar":
            problem = f"{self.format} lists the wall cells, and {self.family} mazes have none"
            raise UserError(f"{problem}; use edge-list or grid.")
        if self.family == "astar":
            self._set("tasks_per_layout", self.tasks_per_layout or TASKS_PER_LAYOUT[0])
            if self.tasks_per_layout not in TASKS_PER_LAYOUT:
                known = ", ".join(TASKS_PER_LAYOUT)
                raise UserError(f"the tasks per layout cannot be {self.tasks_per_layout!r}; use one of {known}.")
        elif self.tasks_per_layout is not None:
            raise UserError(f"tasks per layout belong to astar mazes, not to {self.family}; leave them out.")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def keeps_all_pairs(self) -> bool:
        """Whether layouts of the training split have several tasks."""
        return self.tasks_per_layout == "all"

    @property
    def test_draws(self) -> int:
        """Draws of start and goal before a layout of the test split is given up; see clew.mazes.generate."""
        return 1 if self.keeps_all_pairs else MAX_PAIRS

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def to_json(self) -> dict[str, Any]:
        return {"version": DATASET_VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, value: Any, where: str) -> DatasetSettings:
        """Return the settings in a dataset.json or journal; `where` names the file in errors."""
        if not isinstance(value, dict):
            raise UserError(f"{where} does not describe a dataset; make the dataset again with `clew generate`.")
        if value.get("version") != DATASET_VERSION:
            problem = f"{where} is of version {value.get('version')!r} and this Clew reads version {DATASET_VERSION}"
            raise UserError(f"{problem}; make the dataset again with `clew generate`.")
        given = {f.name: value[f.name] for f in fields(cls) if f.name in value}
        if canonical_family(str(value.get("family"))) == "astar":
            given.setdefault("tasks_per_layout", "one")  # datasets of version 0.1 do not say it
        try:
            return from_plain(cls, given, "the dataset", {"counts": _read_counts})
        except UserError as error:
            raise UserError(f"{where} cannot be used: {error} Make the dataset again with `clew generate`.") from None

    def differences(self, other: DatasetSettings) -> str:
        """Return how `other` differs, in words; empty if it does not."""
        pairs = [(f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        return ", ".join(f"{name.replace('_', ' ')} {a} and not {b}" for name, a, b in pairs if a != b)


def _read_counts(value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or any(type(count) is not int for count in value.values()):
        raise UserError("the counts of the dataset are not whole numbers.")
    return value


@dataclass(frozen=True)
class DataConfig:
    """Family, sizes and format of the training mazes, and where they come from."""

    # dataset: the same mazes epoch after epoch, from a folder; stream: fresh mazes, never the same twice.
    source: Literal["dataset", "stream"] = "stream"
    # dfs, astar, wilson, kruskal, percolation, or path-star-ARMSxLENGTH.
    family: str = "dfs"
    # Rows of the mazes, and columns too unless `width` says otherwise. Several sizes need a stream of cell-labels.
    # Path-star graphs have the size 1, and as width the number of labels, by default as many as nodes.
    sizes: tuple[int, ...] = (10,)
    # Columns of the mazes, or labels of path-star graphs; as many as rows, or as nodes, by default.
    width: int | None = None
    format: str = "edge-list"  # the text format, or cell-labels for a cell network
    seed: int = 0  # the seed of the mazes
    # The folder of the dataset; empty is data/FAMILY-SIZE.
    folder: str = ""
    # Of a dataset: the number of training mazes to use; None uses all, or makes 100,000.
    mazes: int | None = None
    # With several sizes: mix takes each step's size from all of them; grow opens the range from the smallest to the
    # largest over the first `grow_steps` steps. A step has about as many cells whatever its size: `batch_size` mazes
    # of the largest, and more of the smaller ones.
    mixture: Literal["mix", "grow"] = "mix"
    grow_steps: int = 1000  # with grow: the steps until the largest size is reached
    # Of a stream: this share of a step's mazes are each the one with the longest path of `longest_of` fresh mazes.
    long_share: float = 0.0
    longest_of: int = 64  # with long_share: how many fresh mazes are drawn for one with a long path
    # Percolation only: the chance of each passage to be open.
    open_share: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", canonical_family(self.family))
        if not self.sizes or list(self.sizes) != sorted(set(self.sizes)):
            raise UserError(f"the sizes of the mazes are {list(self.sizes)}; give at least one, each once, rising.")
        if len(self.sizes) > 1 and (self.source != "stream" or self.format != CELL_LABELS or self.width is not None):
            raise UserError("several sizes need a stream of square mazes in the format cell-labels; give one size.")
        counts = {"train": 1, "test": 0}
        for shape in self.shapes:
            DatasetSettings(self.family, *shape, self.seed, counts, self.format, self.open_share)
        if not 0 <= self.long_share <= 1 or self.longest_of < 1 or (self.long_share and self.source != "stream"):
            problem = f"long_share {self.long_share} of the longest of {self.longest_of} is impossible"
            raise UserError(f"{problem}; use a share from 0 to 1 of a stream, and the longest of 1 or more.")
        if self.grow_steps < 1:
            raise UserError(f"sizes cannot grow over {self.grow_steps} steps; use 1 or more.")
        if self.source == "stream" and (self.folder or self.mazes is not None):
            raise UserError("a folder and a number of mazes are for --data.source dataset; leave them out.")
        if self.mazes is not None and self.mazes < 1:
            raise UserError(f"{self.mazes} mazes are too few to train on; use 1 or more.")

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of each size."""
        star = star_shape(self.family)
        return tuple((size, self.width or (star.nodes if star else size)) for size in self.sizes)

    @property
    def vocabulary(self) -> int:
        """The vocabulary size that a text model needs."""
        return format_named(self.format).vocabulary(*self.shapes[-1]).size

    @property
    def bos_id(self) -> int:
        """The id of the token before a sequence, of models that have one."""
        return format_named(self.format).vocabulary(*self.shapes[-1]).id_of[BOS]

    @property
    def dataset_folder(self) -> Path:
        """The folder of the dataset, whether it exists or not."""
        if self.folder:
            return Path(self.folder)
        height, width = self.shapes[0]
        return Path("data") / f"{self.family}-{width if height in (1, width) else f'{height}x{width}'}"
