"""All studies by name: those of the paper's tables and figures in its order, then our own.

STUDIES["astar"]
study_named("astarr")      # UserError that says which was meant
"""

from __future__ import annotations

import difflib

from clew.errors import UserError
from clew.paper.studies.ablations import (
    ARCHITECTURES,
    MASK_RATES,
    ORDERED_MASKS,
    POSITION_ENCODINGS,
    POSITION_PRECISION,
    RATES_AND_DECAYS,
)
from clew.paper.studies.accuracy import ACCURACY_BY_SIZE, ASTAR, MODEL_SIZE, SMALLER_MAZES
from clew.paper.studies.cells import CELLS, DECODERS_STUDY, OBJECTIVE_OR_REPRESENTATION
from clew.paper.studies.failures import FAILURES_STUDY
from clew.paper.studies.path_lengths import PATH_LENGTHS
from clew.paper.studies.path_star import PATH_STAR
from clew.paper.studies.training import CONVERGENCE, DATA_EFFICIENCY, OVERFITTING
from clew.paper.study import Study

STUDIES: dict[str, Study] = {
    "accuracy-by-size": ACCURACY_BY_SIZE,
    "astar": ASTAR,
    "data-efficiency": DATA_EFFICIENCY,
    "convergence": CONVERGENCE,
    "overfitting": OVERFITTING,
    "model-size": MODEL_SIZE,
    "position-precision": POSITION_PRECISION,
    "architectures": ARCHITECTURES,
    "rates-and-decays": RATES_AND_DECAYS,
    "ordered-masks": ORDERED_MASKS,
    "smaller-mazes": SMALLER_MAZES,
    "failures": FAILURES_STUDY,
    "path-lengths": PATH_LENGTHS,
    "path-star": PATH_STAR,
    "decoders": DECODERS_STUDY,
    "mask-rates": MASK_RATES,
    "position-encodings": POSITION_ENCODINGS,
    "cells": CELLS,
    "objective-or-representation": OBJECTIVE_OR_REPRESENTATION,
}
ALL = "all"


def studies_named(names: tuple[str, ...]) -> list[Study]:
    """Return the studies of these names, or all of them."""
    if ALL in names:
        return list(STUDIES.values())
    return [study_named(name) for name in dict.fromkeys(names)]


def study_named(name: str) -> Study:
    """Return the study of this name."""
    if name not in STUDIES:
        near = difflib.get_close_matches(name, [*STUDIES, ALL], n=1)
        hint = f"did you mean {near[0]}?" if near else "`clew reproduce --list` shows all."
        raise UserError(f"there is no study {name!r}; {hint}")
    return STUDIES[name]
