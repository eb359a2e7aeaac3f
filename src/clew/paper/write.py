"""Write what a study measured: the numbers with what follows from them, and the picture.

write_result(study, value, place)        # results/NAME/SCALE.json and SCALE.png
redraw(study, file)                      # both again, from the numbers in the file

The picture shows the runs that converged (where none did, all of them), with the curves that the verdicts rest on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew.files import read_json, to_plain, write_json
from clew.paper.place import Place
from clew.paper.result import Result
from clew.paper.study import Study
from clew.paper.tell import curve_panels
from clew.paper.verdict import converged_only
from clew.viz.charts import draw_panels


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
    findings = study.findings(result)
    told = {
        "question": study.question,
        "the paper found": study.paper,
        "found here": [to_plain(finding) for finding in findings],
    }
    shown = converged_only(result)
    shown = shown if shown.runs else result
    show = study.show(shown)
    panels = [*show.panels, *curve_panels(shown, findings)]
    if panels or show.galleries:
        draw_panels(file.with_suffix(".png"), panels, show.galleries)
    # Last: a result that is there has its picture.
    write_json(file, {"study": study.name, **told, **{k: v for k, v in value.items() if k not in ("study", *told)}})
