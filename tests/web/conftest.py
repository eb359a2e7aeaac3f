"""A server of the page in a process of its own, and a browser where one is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of `clew serve`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "clew", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.match(r"(http://\S+)/", line)
    assert found, line
    yield found.group(1)
    process.terminate()
    process.wait(timeout=10)


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
def page(browser, address: str) -> Iterator[object]:
    """A new tab that fails the test if the page reports an error or loads something from elsewhere."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
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
