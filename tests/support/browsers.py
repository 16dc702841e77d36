"""Debian's Chromium, and the explorer in a separate process."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

_AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
_STOP_SECONDS = 30
_SERIOUS = {"serious", "critical"}


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Opens a browser without a window. If there is no browser, it skips the test.

    While the browser is open, this thread has a running event loop, so no other test may run in it.
    """
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def run_explorer(*arguments: str) -> Iterator[str]:
    """Runs `tensor-reshape explore` until the end of the block, and yields the link that it prints."""
    command = [sys.executable, "-m", "tensor_reshape.cli", "explore", "--no-open", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)  # as a user stops it; after SIGTERM its coverage would not be measured
        process.wait(_STOP_SECONDS)
        process.stdout.close()  # type: ignore[union-attr] # a pipe


def find_faults(page: Page) -> list[str]:
    """Returns the accessibility problems of a page that axe-core calls serious or critical."""
    found = page.evaluate(f"{_AXE.read_text()}\naxe.run({{resultTypes: ['violations']}})")
    serious = [fault for fault in found["violations"] if fault["impact"] in _SERIOUS]
    return [f"{fault['id']}: {[node['html'][:120] for node in fault['nodes']]}" for fault in serious]


def find_overflow(page: Page) -> int:
    """Returns by how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def find_port(link: str) -> int:
    match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", link)
    assert match is not None, link
    return int(match[1])
