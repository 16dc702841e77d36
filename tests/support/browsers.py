"""Debian's Chromium, the explorer in a separate process, and queries as people type them into its page."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import axe_playwright_python
import pytest
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, sync_playwright

from tensor_reshape.rules.dims import format_dims, read_unknown
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.notation import parse_shape
from tensor_reshape.rules.operations import SHAPE_OPERATIONS
from tensor_reshape.rules.questions import Question, ShapeRequest

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


QUOTED = "'; rm -rf ~; '"
"""A name in quotes, which is a valid dim."""

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    QUOTED,
    "$(touch owned)",
    "N\u202e\u2066",  # characters that change the direction of writing
    "\u200f",
    "%00%0a",
    "\x00",
    "N" * 10_000,
    "," * 10_000,
    "é" * 4_000,
    "\ud7ff\U0001f600",
]
"""Texts that a page, a shell or Python must never execute or interpret."""

_LENGTHS = ["1", "2", "3", "4", "6", "12", "N", "M", "N:1..8", "4*C", "N/2", "N^2/(2*M)", "2..8", "2..", "?", " 6 "]
_ODD = ["größe", "名", str(2**63), f"2..{2**63}", f"N:1..{2**64}", "5..2", "N:9..", "4 * C"]
_ODD += ["seq + past", "floor(height/8)", "input.1_dynamic_axes_2", "'a, (b'", "'it''s \"$(id)\" `id` <b> & \\n'"]
_FORMS = ["{}", "{}", "[{}]", " {} "]


def _write_shapes(dims: list[str]) -> st.SearchStrategy[str]:
    shapes = st.lists(st.sampled_from(dims), max_size=4).map(",".join)
    return st.builds(str.format, st.sampled_from(_FORMS), shapes) | st.just("...")


_DATA = _write_shapes([*_LENGTHS, *_LENGTHS, *_ODD, "0"])
_TARGETS = _write_shapes([*_LENGTHS, *_ODD, *["0", "-1"] * 5])


class QueryText(NamedTuple):
    """The texts of a query, with the names that they have in the address of the page."""

    data: str
    shape: str
    special_zero: str = "true"
    operation: str = "static_reshape"
    expected: str = ""

    def read(self) -> ShapeRequest:
        """Returns the query, which requests all explanations."""
        question = Question(
            SHAPE_OPERATIONS[self.operation],
            read_unknown(parse_shape(self.data, "data.dims")),
            parse_shape(self.shape, "shape"),
            {"true": True, "false": False}.get(self.special_zero),
            expected=read_unknown(parse_shape(self.expected, "expected_shape.dims")) if self.expected.strip() else None,
        )
        return ShapeRequest(question, explain=True)

    def find_outcome(self) -> str:
        """Returns the output shape as text, or the reason of the rejection."""
        try:
            return format_dims(answer_question(self.read()).dims)
        except ReshapeError as error:
            return str(error.reason)


QUERY_TEXTS = st.builds(
    QueryText,
    _DATA,
    _TARGETS,
    st.sampled_from(["true", "false"]),
    st.sampled_from([*SHAPE_OPERATIONS]),
    st.just("") | _DATA,
)
"""Queries that can be parsed. Only some of them have a result."""

SHAPE_TEXTS = (
    _DATA | _TARGETS | st.text("N2*,()[].?-' \t/^xab+:%", max_size=14) | st.sampled_from(HOSTILE) | st.text(max_size=12)
)
"""Texts that may be shapes."""
