"""All studies by name: those of the paper's tables and figures in its order, then our own.

STUDIES["astar"]
studies_named(("astarr",))      # UserError that says which was meant
"""

from __future__ import annotations

import difflib

from clew.errors import UserError
from clew.paper.studies import ablations, cells, descriptive, objectives
from clew.paper.studies.path_star import PATH_STAR
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
        cells.DECODERS_STUDY,
        ablations.MASK_RATES,
        ablations.POSITION_ENCODINGS,
        cells.OBJECTIVE_OR_REPRESENTATION,
    )
}
ALL = "all"


def studies_named(names: tuple[str, ...]) -> list[Study]:
    """Return the studies of these names, or all of them."""
    if ALL in names:
        return list(STUDIES.values())
    for name in names:
        if name not in STUDIES:
            near = difflib.get_close_matches(name, [*STUDIES, ALL], n=1)
            hint = f"did you mean {near[0]}?" if near else "`clew reproduce --list` shows all."
            raise UserError(f"there is no study {name!r}; {hint}")
    return [STUDIES[name] for name in dict.fromkeys(names)]
