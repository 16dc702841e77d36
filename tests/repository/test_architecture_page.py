"""The page of the architecture tells the lives of calls and of workers as the code does."""

import re
from enum import Enum

import pytest

from documents import ROOT
from tensor_reshape.rules.limits import LIGHT_HEADER_BYTES
from tensor_reshape.server.calls import lifecycle
from tensor_reshape.server.calls.budgets import MAX_READS
from tensor_reshape.server.calls.places import CROWDED_CALLS
from tensor_reshape.server.calls.stalls import MIN_BYTES_PER_SECOND, SHORT_SECONDS
from tensor_reshape.server.calls.threaded import CALL_THREADS, QUESTION_THREADS
from tensor_reshape.server.oip.shared_memory import MAX_REGIONS
from tensor_reshape.server.service.methods import LIGHT_BYTES
from tensor_reshape.server.workers import slots
from tensor_reshape.server.workers.messages import STOP_MARGIN_SECONDS

KIB, MIB = 1024, 1024 * 1024
PAGE = (ROOT / "docs/architecture/overview.md").read_text()
MODULES = re.findall(r"`((?:rules|wire|calls|service|auxiliary|transport|process|workers)/\w+\.py)`", PAGE)
SENTENCES = [
    (
        "docs/architecture/overview.md",
        f"messages above {LIGHT_BYTES // KIB} KiB, outputs above {LIGHT_BYTES // KIB} KiB",
    ),
    ("docs/architecture/overview.md", f"those above {LIGHT_HEADER_BYTES // KIB} KiB; every batch"),
    ("docs/architecture/overview.md", f"first heartbeat | {slots.START_SECONDS:g} s, then KILLED"),
    ("docs/architecture/overview.md", f"recent | {slots.SILENCE_SECONDS:g} s, then SILENT"),
    (
        "docs/architecture/overview.md",
        f"Idle for {slots.IDLE_SECONDS:g} s: KILLED | {slots.BUSY_SECONDS:g} s since the last one",
    ),
    ("docs/architecture/overview.md", f"told to end | {STOP_MARGIN_SECONDS:g} s, then KILLED_AT_STOP"),
    ("docs/deployment/server.md", f"at most {MAX_READS} messages at once"),
    ("docs/deployment/server.md", f"at {MIN_BYTES_PER_SECOND // MIB} MiB/s"),
    ("docs/deployment/server.md", f"progress at {lifecycle.TRICKLE_BYTES_PER_SECOND // KIB} KiB/s"),
    ("docs/deployment/server.md", f"only {CROWDED_CALLS} of them"),
    ("docs/deployment/server.md", f"that have made no progress for {SHORT_SECONDS * 1000:g} ms"),
    ("docs/deployment/server.md", f"up after {SHORT_SECONDS * 1000:g} ms without progress"),
    ("docs/deployment/server.md", f"at most {CALL_THREADS} calls hold a thread"),
    ("docs/deployment/server.md", f"{QUESTION_THREADS} questions about shapes"),
    ("docs/deployment/server.md", f"up to {MAX_REGIONS:,} regions"),
]


def read_states(heading: str) -> list[str]:
    """Returns what the first column of the table below a heading names."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [name for row in re.findall(r"^\| ([A-Z_, ]+) \|", section, re.MULTILINE) for name in row.split(", ")]


@pytest.mark.parametrize(("heading", "states"), [("The life of a call", lifecycle.State), ("Workers", slots.State)])
def test_a_table_has_a_row_for_every_state(heading: str, states: type[Enum]):
    assert sorted(read_states(heading)) == sorted(states.__members__)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_that_the_page_names_is_there(module: str):
    assert list(ROOT.glob(f"*/tensor_reshape/**/{module}")) != []


@pytest.mark.parametrize(("page", "sentence"), SENTENCES)
def test_a_page_gives_the_number_of_the_code(page: str, sentence: str):
    assert sentence in " ".join((ROOT / page).read_text().split())
