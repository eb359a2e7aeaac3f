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


def test_a_first_visit_is_replayed_unless_the_visitor_acts(new_tab, address: str) -> None:
    with new_tab(reduced_motion="no-preference") as page:
        ready(page, address)
        solved(page)
        page.get_by_text(re.compile(r"loop [2-9] of")).wait_for()
        assert page.locator(".panel svg.maze polyline").count() == 0
        page.locator(".panel svg.maze polyline").wait_for(state="attached")  # at its end the path is shown again
    with new_tab(reduced_motion="no-preference") as page:
        ready(page, address)
        page.keyboard.press("Tab")
        solved(page)
        page.wait_for_timeout(2000)
        assert page.locator(".panel svg.maze polyline").count() == 1


def test_sizes_and_seed_give_another_maze(page, address: str) -> None:
    ready(page, address)
    first = state(page)["maze"]
    page.get_by_role("button", name="New maze").click()
    page.locator("#undo:enabled").wait_for()
    assert page.input_value("#seed") == "2"
    assert state(page)["maze"] != first
    page.fill("#seed", "1")
    page.fill("#width", "7")
    page.keyboard.press("Tab")
    page.locator("svg.maze[aria-label*='of 10 rows and 7 columns']").wait_for()
    page.fill("#width", "41")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('#width').validity.rangeOverflow")
    assert state(page)["maze"]["width"] == 7
    page.fill("#width", "10")
    page.keyboard.press("Tab")
    page.locator("svg.maze[aria-label*='of 10 rows and 10 columns']").wait_for()
    assert state(page)["maze"] == first


def test_the_wall_under_the_pointer_is_marked_and_not_saved(page, address: str, tmp_path: Path) -> None:
    ready(page, address)
    solved(page)
    for x, marked in ((3.0, "M3 3v1"), (0.05, ""), (3.0, "M3 3v1")):  # the border cannot be opened
        page.mouse.move(*cell_centre(page, x, 3.5))
        page.locator(f"#maze-1 path[data-pointer][d='{marked}']").wait_for(state="attached")
    with page.expect_download() as info:
        page.evaluate("document.querySelector('[aria-label=\"Save as SVG\"]').click()")
    info.value.save_as(tmp_path / "maze.svg")
    assert "data-pointer" not in (tmp_path / "maze.svg").read_text()


def test_a_wall_is_drawn_and_undone(page, address: str) -> None:
    ready(page, address)
    solved(page)
    before = state(page)["maze"]["cells"]
    page.mouse.click(*cell_centre(page, 3.0, 3.5))  # between columns 3 and 4
    after = state(page)["maze"]["cells"]
    assert (before[3][2] ^ after[3][2], before[3][3] ^ after[3][3]) == (8, 4)
    page.click("#undo")
    assert state(page)["maze"]["cells"] == before
    maze = state(page)["maze"]
    x, y = next((x, y) for x in range(10) for y in range(10) if [x, y] not in (maze["start"], maze["goal"]))
    page.mouse.click(*cell_centre(page, x + 0.5, y + 0.5))
    assert state(page)["maze"]["cells"][y][x] == 16
    page.keyboard.press("Control+z")
    assert state(page)["maze"]["cells"] == before


def test_an_edited_maze_is_solved_again(page, address: str) -> None:
    ready(page, address)
    solved(page)
    page.mouse.click(*cell_centre(page, 3.0, 3.5))
    page.locator(".result").filter(has_text="pass").wait_for(state="detached")
    assert "ms" in solved(page)


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
    solved(page)


def drag_by_touch(page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Send the touch events of a finger that moves from one point to another."""
    session = page.context.new_cdp_session(page)

    def send(kind: str, *points: tuple[float, float]) -> None:
        touches = [{"x": x, "y": y} for x, y in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    send("touchStart", start)
    for step in range(1, 9):
        send("touchMove", tuple(a + (b - a) * step / 8 for a, b in zip(start, end, strict=True)))
    send("touchEnd")


def test_a_finger_drags_the_goal_taps_a_wall_and_scrolls(phone, address: str) -> None:
    ready(phone, address)
    solved(phone)
    maze = state(phone)["maze"]
    x, y = maze["goal"]
    target = next([x, row] for row in (9, 0, 8, 1) if [x, row] not in (maze["start"], maze["goal"]))
    drag_by_touch(phone, cell_centre(phone, x + 0.5, y + 0.5), cell_centre(phone, target[0] + 0.5, target[1] + 0.5))
    assert state(phone)["maze"]["goal"] == target
    before = state(phone)["maze"]["cells"]
    phone.touchscreen.tap(*cell_centre(phone, 6.0, 4.5))
    after = state(phone)["maze"]["cells"]
    assert (before[4][5] ^ after[4][5], before[4][6] ^ after[4][6]) == (8, 4)
    # A finger that moves over other cells scrolls the page and changes nothing.
    free = next(x for x in range(10) if abs(x - target[0]) > 2 and abs(x - maze["start"][0]) > 2)
    top = phone.evaluate("window.scrollY")
    drag_by_touch(phone, cell_centre(phone, free + 0.5, 8.5), cell_centre(phone, free + 0.5, 2.5))
    phone.wait_for_function(f"window.scrollY > {top}")
    assert state(phone)["maze"]["cells"] == after
    screenshot(phone, "touch")


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
    second.get_by_role("button", name="Play steps").click()
    last = slider.get_attribute("max")
    second.get_by_text(f"step {last} of {last}").wait_for()
    second.get_by_role("button", name="Play steps").wait_for()
    # The exact path and the model's.
    assert second.locator("polyline").count() == 2
    screenshot(page, "two-models")


def test_a_link_restores_maze_models_and_decoder(page, address: str) -> None:
    ready(page, address)
    solved(page)
    page.select_option("#decoder-1", "walk")
    solved(page)
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
    page.focus("#maze-1")
    page.keyboard.press("ArrowLeft")
    assert re.fullmatch(r"row \d+, column \d+: .*(pass|probability).*", page.locator("#readout-1").inner_text())


def test_every_control_is_reached_by_tab(page, address: str) -> None:
    ready(page, address)
    solved(page)
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.id"))
    assert {"family", "height", "pair", "link", "model-1", "decoder-1", "solve-1", "exact-1"} <= reached
    assert {"Step of decoding", "Loop of the network", "Save as GIF", "Save as JSON"} <= reached
    assert {"Play steps of the decoder", "Play loops of the network"} <= reached
    assert any(label.startswith("Maze of 10 rows") for label in reached)


def test_loops_and_readout(page, address: str) -> None:
    ready(page, address)
    solved(page)
    loops = page.get_by_label("Loop of the network")
    loops.wait_for()
    after_steps = page.locator("#maze-1").inner_html()
    loops.fill("0")
    assert "loop 1 of" in page.locator(".panel").inner_text()
    assert page.locator("#maze-1 polyline").count() == 0
    early = page.locator("#maze-1").inner_html()
    loops.fill("5")
    assert page.locator("#maze-1").inner_html() not in (early, after_steps)
    page.mouse.move(*cell_centre(page, 2.5, 3.5))
    assert re.match(r"row 4, column 3: .*probability \d\.\d{3}", page.locator("#readout-1").inner_text())


def test_path_star_graphs(page, address: str) -> None:
    ready(page, address)
    solved(page)
    page.select_option("#family", "path-star-5x4")
    page.locator(".result").filter(has_text="not solved").wait_for()
    page.locator("svg.maze[aria-label*='5 arms']").wait_for()
    page.select_option("#family", "path-star-2x4")
    assert page.input_value("#model-1") == "star"
    assert "pass" in solved(page)
    assert re.search(r"pass 1, \d\.\d\d", page.locator(".tokens span").first.inner_text())
    assert page.locator("#height").is_disabled()
    page.mouse.move(*cell_centre(page, 0, 0))
    assert re.match(r"node \d: (not )?committed", page.locator("#readout-1").inner_text())
    page.get_by_text("Show the exact path").click()
    assert page.locator("#maze-1 polyline").count() >= 1
    screenshot(page, "path-star")


def test_a_dropped_file_is_read(page, address: str) -> None:
    ready(page, address)
    page.evaluate(
        """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], 'maze.txt', {type: 'text/plain'}));
            document.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
        }""",
        ASCII,
    )
    page.locator("svg.maze[aria-label*='of 2 rows and 3 columns']").wait_for()


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
            page.locator(".panel").get_by_role("button", name=f"Save as {name}").click()
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


def test_runs_are_refreshed_while_they_train(page, address: str, runs: Path) -> None:
    page.goto(address + "/runs")
    row = page.locator("#runs tbody tr")
    row.filter(has_text="path-star-2x4").wait_for()
    assert "step 2" in row.inner_text()
    assert re.search(r"\d+\.\d %", row.inner_text()), "the held-out accuracy is shown"
    page.locator("#charts polyline").nth(1).wait_for(state="attached")
    assert page.locator("#charts svg").count() == page.locator("#charts polyline").count() == 2
    metrics = runs / "star" / "metrics.jsonl"
    before = metrics.read_text()
    step = next(line for line in map(json.loads, before.splitlines()) if line["kind"] == "step")
    with metrics.open("a") as file:
        file.write(json.dumps(step | {"step": 4321, "progress": 0.5}) + "\n")
    row.filter(has_text="step 4,321").wait_for(timeout=15_000)
    screenshot(page, "runs")
    metrics.write_text(before)


def test_results_show_the_paper_beside_ours(page, address: str) -> None:
    page.goto(address + "/results")
    page.get_by_role("heading", name="The paper's main claims").wait_for()
    assert page.locator("ol.claims li").count() == 6
    # The server runs in the repository, whose results/ has the accuracy of the shipped models.
    assert "cells-dfs" in page.locator("table").first.inner_text()
    screenshot(page, "results")
