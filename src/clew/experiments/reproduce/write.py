"""Write what a study measured: the numbers with what follows from them, and the picture.

write_result(study, value, place)        # results/NAME/SCALE.json and SCALE.png
redraw(study, file)                      # both again, from the numbers in the file
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew.experiments.reproduce.place import Place
from clew.experiments.reproduce.result import Result
from clew.experiments.reproduce.study import Study
from clew.files import read_json, write_json
from clew.plain_json import to_plain
from clew.report.panels import draw_panels


def write_result(study: Study, value: dict[str, Any], place: Place) -> Path:
    """Write the file of a study, and its picture."""
    file = place.result(study.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    _write(study, value, file)
    return file


def redraw(study: Study, file: Path) -> None:
    """Say and draw again what follows from the numbers."""
    _write(study, read_json(file), file)


def _write(study: Study, value: dict[str, Any], file: Path) -> None:
    result = Result(value)
    told = {
        "question": study.question,
        "the paper found": study.paper,
        "found here": [to_plain(finding) for finding in study.findings(result)],
    }
    show = study.show(result)
    if show.panels or show.pictures:
        draw_panels(file.with_suffix(".png"), show.panels, show.pictures)
    # Last: a result that is there has its picture.
    write_json(file, {"study": study.name, **told, **{k: v for k, v in value.items() if k not in ("study", *told)}})
