"""The page in a real browser."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

SCREENSHOTS = os.environ.get("CLEW_SCREENSHOTS")  # a folder that screenshots are written to
ASCII = "#######\n#S#   #\n# # # #\n#   #E#\n#######"  # as maze-dataset draws one


def axe_source() -> str | None:
    """The text of axe-core, if its npm package is installed."""
    places = [Path(folder) / "axe-core" / "axe.min.js" for folder in os.environ.get("CLEW_NODE_MODULES", "").split(":")]
    places.append(Path(__file__).parents[2] / ".venv" / "node_modules" / "axe-core" / "axe.min.js")
    return next((place.read_text() for place in places if place.is_file()), None)


def ready(page, address: str, path: str = "/") -> None:
    page.goto(address + path)
    page.wait_for_selector("body[data-ready=yes]", timeout=20_000)


def solved(page, panel: int = 1) -> str:
    result = page.locator(f".panel:nth-of-type({panel}) .result")
    result.filter(has_text=re.compile("pass")).wait_for(timeout=20_000)
    return result.inner_text()


def state(page) -> dict:
    return page.evaluate(
        "import('/static/maze.js').then((module) => module.decodeState(window.location.hash.slice(1)))"
    )


def screenshot(page, name: str) -> None:
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=True)


def cell_centre(page, x: float, y: float) -> tuple[float, float]:
    return tuple(
        page.evaluate(
            """([x, y]) => {
                const svg = document.querySelector('.panel svg.maze');
                svg.scrollIntoView({block: 'center'});
                const point = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
                return [point.x, point.y];
            }""",
            [x, y],
        )
    )


def test_a_first_visit_shows_a_solved_maze(page, address: str) -> None:
    ready(page, address)
    assert "shortest" in solved(page)
    assert page.locator(".panel svg.maze polyline").count() == 1
    screenshot(page, "playground")
    # A second load has the model in memory; two seconds is what the page promises.
    page.evaluate("window.location.hash = ''")
    page.goto(address + "/runs")
    page.goto(address)
    solved(page)
    seconds = page.evaluate("performance.now() / 1000")
    assert seconds < 10  # a bound for busy machines; docs/web.md has the measured time


def test_a_wall_is_drawn_and_undone(page, address: str) -> None:
    ready(page, address)
    solved(page)
    before = state(page)["maze"]["cells"]
    page.mouse.click(*cell_centre(page, 3.0, 3.5))  # between columns 3 and 4
    after = state(page)["maze"]["cells"]
    assert (before[3][2] ^ after[3][2], before[3][3] ^ after[3][3]) == (8, 4)
    page.click("#undo")
    assert state(page)["maze"]["cells"] == before
    page.mouse.click(*cell_centre(page, 5.5, 5.5))
    assert state(page)["maze"]["cells"][5][5] == 16 or state(page)["maze"]["cells"] == before


def test_the_start_is_dragged(page, address: str) -> None:
    ready(page, address)
    solved(page)
    maze = state(page)["maze"]
    target = next([x, 0] for x in range(10) if [x, 0] not in (maze["start"], maze["goal"]))
    x, y = maze["start"]
    page.mouse.move(*cell_centre(page, x + 0.5, y + 0.5))
    page.mouse.down()
    page.mouse.move(*cell_centre(page, target[0] + 0.5, target[1] + 0.5), steps=5)
    page.mouse.up()
    assert state(page)["maze"]["start"] == target
    page.click("#solve-1")
    solved(page)


def test_a_pasted_drawing_is_solved(page, address: str) -> None:
    ready(page, address)
    page.click("#paste-section summary")
    page.fill("#paste", ASCII)
    page.click("#read")
    page.locator("svg.maze[aria-label*='of 2 rows and 3 columns']").wait_for()
    assert "path" in solved(page)


def test_two_models_side_by_side_and_steps(page, address: str) -> None:
    ready(page, address)
    solved(page)
    page.click("#pair")
    second = page.locator(".panel").nth(1)
    assert second.locator("select").first.input_value() == "text-dfs-4-next"
    solved(page)
    solved(page, 2)
    slider = second.get_by_label("Step of decoding")
    assert int(slider.get_attribute("max")) > 1
    slider.fill("1")
    assert "step 1 of" in second.inner_text()
    second.get_by_label("One step ahead").click()
    assert "step 2 of" in second.inner_text()
    second.get_by_text("Show the exact path").click()
    assert second.locator("polyline").count() == 1
    screenshot(page, "two-models")


def test_a_link_restores_maze_models_and_decoder(page, address: str) -> None:
    ready(page, address)
    solved(page)
    page.select_option("#decoder-1", "walk")
    wanted = state(page)
    page.goto("about:blank")
    page.goto(f"{address}/#{json_hash(page, wanted, address)}")
    page.wait_for_selector("body[data-ready=yes]")
    assert state(page) == wanted
    assert page.input_value("#decoder-1") == "walk"
    page.goto("about:blank")
    page.goto(f"{address}/#damaged")
    page.wait_for_selector("body[data-ready=yes]")
    assert "damaged" in page.locator("#message").inner_text()
    page.clew_errors.clear()


def json_hash(page, value: dict, address: str) -> str:
    import base64

    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def test_the_keyboard_alone_is_enough(page, address: str) -> None:
    ready(page, address)
    solved(page)
    before = state(page)["maze"]
    page.focus("#maze-1")
    page.keyboard.press("Shift+ArrowDown" if before["start"][1] < 9 else "Shift+ArrowUp")
    assert state(page)["maze"]["cells"] != before["cells"]
    page.keyboard.press("Control+z")
    assert state(page)["maze"] == before
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    for _ in range(20):
        page.keyboard.press("ArrowDown")
    if before["goal"] != [9, 9]:
        page.keyboard.press("g")
        assert state(page)["maze"]["goal"] == [9, 9]
    page.keyboard.press("Enter")
    solved(page)


def test_a_damaged_upload_gets_a_sentence(page, address: str, tmp_path: Path) -> None:
    ready(page, address)
    before = state(page)["maze"]
    damaged = tmp_path / "maze.png"
    damaged.write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(200))
    page.set_input_files("#file", str(damaged))
    page.locator("#message").filter(has_text="file").wait_for()
    assert state(page)["maze"] == before
    page.clew_errors.clear()


def test_saving(page, address: str, tmp_path: Path) -> None:
    ready(page, address)
    solved(page)
    heads = {"PNG": b"\x89PNG", "SVG": b"<svg", "GIF": b"GIF8", "JSON": b"{"}
    for name, head in heads.items():
        with page.expect_download() as info:
            page.locator(".panel").get_by_role("button", name=name, exact=True).click()
        info.value.save_as(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(head)


@pytest.mark.parametrize("path", ["/", "/runs", "/results"])
def test_a_phone_shows_everything_without_scrolling_sideways(page, address: str, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(address + path)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    screenshot(page, f"phone{path.replace('/', '-')}")


@pytest.mark.parametrize("path", ["/", "/runs", "/results"])
def test_axe_finds_no_serious_problem(browser, address: str, path: str) -> None:
    source = axe_source()
    if source is None:
        pytest.skip("axe-core is not installed; `npm install axe-core` in a folder that CLEW_NODE_MODULES names")
    context = browser.new_context(bypass_csp=True, viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto(address + path)
    page.wait_for_load_state("networkidle")
    page.add_script_tag(content=source)
    violations = page.evaluate("axe.run().then((found) => found.violations)")
    context.close()
    serious = [each for each in violations if each["impact"] in ("serious", "critical")]
    assert serious == [], json.dumps(serious, indent=1)[:3000]


def test_other_pages(page, address: str) -> None:
    page.goto(address + "/runs")
    page.locator("#message").filter(has_text="clew serve --runs").wait_for()
    screenshot(page, "runs")
    page.goto(address + "/results")
    page.wait_for_load_state("networkidle")
    screenshot(page, "results")
