"""All studies by name, in the order of the paper, then our own.

STUDIES["astar"]
study_named("astarr")      # UserError that says which was meant
"""

from __future__ import annotations

import difflib

from clew.errors import UserError
from clew.paper.studies import (
    accuracy_by_size,
    astar,
    cells,
    data_efficiency,
    decoders,
    failures,
    masks,
    model_size,
    next_token_choices,
    objective_or_representation,
    path_lengths,
    path_star,
    position_encodings,
    position_precision,
    smaller_mazes,
    training_curves,
)
from clew.paper.study import Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        accuracy_by_size.STUDY,
        astar.STUDY,
        data_efficiency.STUDY,
        training_curves.CONVERGENCE,
        training_curves.OVERFITTING,
        model_size.STUDY,
        position_precision.STUDY,
        next_token_choices.ARCHITECTURES,
        next_token_choices.RATES_AND_DECAYS,
        masks.ORDERED_MASKS,
        smaller_mazes.STUDY,
        failures.STUDY,
        path_lengths.STUDY,
        path_star.STUDY,
        decoders.STUDY,
        masks.MASK_RATES,
        position_encodings.STUDY,
        cells.STUDY,
        objective_or_representation.STUDY,
    )
}
ALL = "all"


def studies_named(names: tuple[str, ...]) -> list[Study]:
    """The studies of these names, or all of them."""
    if ALL in names:
        return list(STUDIES.values())
    return [study_named(name) for name in dict.fromkeys(names)]


def study_named(name: str) -> Study:
    """The study of this name."""
    if name not in STUDIES:
        near = difflib.get_close_matches(name, [*STUDIES, ALL], n=1)
        hint = f"did you mean {near[0]}?" if near else "`clew reproduce --list` shows all."
        raise UserError(f"there is no study {name!r}; {hint}")
    return STUDIES[name]
