"""Clew: transformers that find their way through mazes by predicting many steps at once.

import clew
clew.load("runs/x").solve(drawing)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from clew.trained import TrainedModel

__version__ = "0.1.0"


def load(source: str | os.PathLike[str], device: str = "cpu") -> TrainedModel:
    """A solver from the name of shipped weights, or from the folder of a run or of weights."""
    from clew.trained import load  # torch takes seconds to import, so only now

    return load(source, device)
