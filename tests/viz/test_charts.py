"""The pictures of the studies: bars, lines and mazes in one PNG."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from clew.mazes.generate import generate
from clew.viz.charts import Panel, Point, Series, _draw_panel, draw_panels, panel_svg

BARS = Panel(
    "bars", "size", "%", [Series("a", [Point("3x3", 40, 2), Point("4x4", 60)]), Series("b", [Point("4x4", 5)])]
)
LINES = Panel("lines", "rate", "%", [Series("a", [Point(1e-3, 50, 5), Point(1e-4, 20)], dashed=True)], log_x=True)


def drawn(panel: Panel):  # type: ignore[no-untyped-def]
    axes = Figure().subplots()
    _draw_panel(axes, panel)
    return axes


def test_bars_stand_side_by_side_over_their_words() -> None:
    axes = drawn(BARS)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3x3", "4x4"]
    assert [[round(bar.get_height()) for bar in bars] for bars in axes.containers if hasattr(bars, "patches")] == [
        [40, 60],
        [5],
    ]
    first, second = axes.containers[1].patches[1], axes.containers[-1].patches[0]
    assert first.get_x() + first.get_width() <= second.get_x() + 0.1
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"a", "b"}


def test_lines_go_from_left_to_right_through_what_was_tried() -> None:
    axes = drawn(LINES)
    assert axes.lines[0].get_xdata().tolist() == [1e-4, 1e-3]
    assert axes.lines[0].get_linestyle() == "--"
    assert {"0.0001", "0.001"} <= {label.get_text() for label in axes.get_xticklabels()}
    assert axes.get_legend() is None  # one line needs no name


@pytest.mark.parametrize("mazes", [0, 1, 6])
def test_panels_and_mazes_in_one_picture(tmp_path: Path, mazes: int) -> None:
    batch = generate("dfs", 4, 4, seed=0, first=0, count=6, split="any")
    pictures = [(*batch[i], None, f"maze {i}") for i in range(mazes)]
    draw_panels(tmp_path / "a.png", [BARS, LINES], [pictures])
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def pixels(file: Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    width, height = struct.unpack(">II", file.read_bytes()[16:24])
    return width, height


def test_every_gallery_begins_a_row_and_panels_wrap(tmp_path: Path) -> None:
    batch = generate("dfs", 4, 4, seed=0, first=0, count=5, split="any")
    pictures = [(*batch[i], None, "") for i in range(5)]
    shapes = []
    for panels, galleries in ((4, []), (5, []), (4, [pictures[:2]]), (4, [pictures[:2]] * 2), (4, [pictures])):
        draw_panels(tmp_path / "a.png", [LINES] * panels, galleries)
        shapes.append(pixels(tmp_path / "a.png"))
    assert len({width for width, _ in shapes}) == 1
    one, two, one_row, two_rows, five_mazes = (height for _, height in shapes)
    assert two == 2 * one
    assert one < one_row < two_rows == five_mazes


def test_many_mazes_are_counted_in_thousands() -> None:
    axes = drawn(Panel("curve", "mazes", "%", [Series("a", [Point(0, 1), Point(2_000_000, 2)])]))
    axes.figure.canvas.draw()
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert "500k" in labels
    assert "1M" in labels


def test_inline_charts_are_equal_and_take_the_pages_colours() -> None:
    svg = panel_svg(BARS)
    assert svg == panel_svg(BARS)
    assert svg.startswith('<svg class="chart" role="img" aria-label="% by size" ')
    assert ">4x4</text>" in svg
    assert "currentColor" in svg
    ids = re.findall(r' id="([^"]+)"', svg)
    assert ids
    assert all(f"#{each}" in svg for each in ids)
    assert not re.search(r"xlink:href|<style|<metadata|20\d\d-\d\d", svg)
    ET.fromstring(svg)


def test_close_values_on_a_logarithmic_axis_have_round_ticks() -> None:
    points = [Series(str(x), [Point(x, 90, (5, 2))]) for x in (1.0, 1.05, 14.0)]
    axes = drawn(Panel("", "passes", "%", points, log_x=True))
    assert {"1", "2", "5", "10"} <= {label.get_text() for label in axes.get_xticklabels()}
