"""All studies by name: those of the paper's tables and figures in its order, then our own."""

from __future__ import annotations

from clew.paper.studies import ablations, cells, descriptive, objectives
from clew.paper.studies.path_star import PATH_STAR, PATH_STAR_VARIANTS
from clew.paper.study import Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        objectives.ACCURACY_BY_SIZE,
        objectives.ASTAR,
        objectives.DATA_EFFICIENCY,
        objectives.CONVERGENCE,
        objectives.OVERFITTING,
        objectives.MODEL_SIZE,
        ablations.POSITION_PRECISION,
        ablations.ARCHITECTURES,
        ablations.RATES_AND_DECAYS,
        ablations.ORDERED_MASKS,
        objectives.SMALLER_MAZES,
        descriptive.FAILURES_STUDY,
        descriptive.PATH_LENGTHS,
        PATH_STAR,
        PATH_STAR_VARIANTS,
        cells.DECODERS_STUDY,
        ablations.MASK_RATES,
        ablations.POSITION_ENCODINGS,
        cells.OBJECTIVE_ON_CELLS,
    )
}
