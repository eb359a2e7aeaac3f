"""Small datasets that many tests read; none may change them. Lets the tests of this folder import forged_data."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clew.data.config import DatasetSettings
from clew.data.dataset import Dataset, open_dataset
from clew.data.writer import write_dataset

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """303 + 40 dfs mazes of 5 rows and 6 columns."""
    directory: Path = tmp_path_factory.mktemp("data") / "small"
    write_dataset(DatasetSettings("dfs", 5, 6, 7, {"train": 303, "test": 40}), directory, chunk=100)
    return open_dataset(directory)


@pytest.fixture(scope="session")
def small_walls(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """100 + 20 astar mazes of 7 rows and 7 columns."""
    directory: Path = tmp_path_factory.mktemp("data") / "small-walls"
    write_dataset(DatasetSettings("astar", 7, 7, 3, {"train": 100, "test": 20}), directory)
    return open_dataset(directory)
