"""A server of the page in a process of its own, and a browser where one is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

import clew

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `clew serve` in a process of its own; yield its address and the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "clew", "serve", "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.match(r"(http://\S+)/", line)
    assert found, line
    try:
        yield found.group(1), process
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture(scope="session")
def serve() -> Callable[..., AbstractContextManager[tuple[str, subprocess.Popen[str]]]]:
    """See `serving`."""
    return serving


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of a path-star model after two steps."""
    folder = tmp_path_factory.mktemp("runs")
    config = clew.config("star-2x4-mlmu", steps=2, batch_size=4, held_out=4)
    clew.train(config, folder / "star", quiet=True)
    return folder


@pytest.fixture(scope="session")
def address(runs: Path) -> Iterator[str]:
    """The address of `clew serve`."""
    with serving("--runs", str(runs)) as (address, _):
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Debian's Chromium, driven by Playwright."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed; `apt-get install chromium` runs the browser tests")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*flags, "--disable-sync", "--no-first-run"]
        )
        yield browser
        browser.close()


@pytest.fixture
def new_tab(browser, address: str) -> Callable[..., AbstractContextManager[object]]:
    """See `tab`."""
    return partial(tab, browser, address)


@pytest.fixture
def page(browser, address: str) -> Iterator[object]:
    """A new tab of a screen of 1200x900 pixels; see `tab`."""
    with tab(browser, address, viewport={"width": 1200, "height": 900}, accept_downloads=True) as page:
        yield page


@pytest.fixture
def phone(browser, address: str) -> Iterator[object]:
    """A new tab of a phone with touch."""
    screen = {"width": 390, "height": 800}
    with tab(browser, address, viewport=screen, has_touch=True, is_mobile=True, device_scale_factor=2) as page:
        yield page


@contextmanager
def tab(browser, address: str, **options: object) -> Iterator[object]:
    """Open a tab that fails the test if the page reports an error or loads something from elsewhere.

    Motion is reduced, so that a first visit is not replayed while a test uses the page.
    """
    context = browser.new_context(**{"reduced_motion": "reduce", **options})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    foreign: list[str] = []
    page.on("request", lambda request: foreign.append(request.url) if is_foreign(request.url, address) else None)
    page.clew_errors = errors
    yield page
    context.close()
    assert foreign == []
    assert [error for error in errors if "400 (Bad Request)" not in error] == []


def is_foreign(url: str, address: str) -> bool:
    return not url.startswith((address, "blob:", "data:"))
