"""The pages give the numbers and the states of the code."""

import re

from documents import ROOT
from tensor_reshape.client.defaults import DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.client.queries import MAX_CALL_QUERIES
from tensor_reshape.client.transfers import DEFAULT_INLINE_MAX_BYTES
from tensor_reshape.rules.batches import ITEM_STEPS, RESERVE_STEPS
from tensor_reshape.rules.budgets import MAX_STEPS
from tensor_reshape.rules.dims import MAX_FACTORS, MAX_SYMBOLS
from tensor_reshape.rules.limits import (
    GRAPH_MAX_RANK,
    LIGHT_HEADER_BYTES,
    MAX_BATCH_BYTES,
    MAX_BATCH_ITEMS,
    MAX_HEADER_BYTES,
    MAX_RANK,
)
from tensor_reshape.rules.names import MAX_SYMBOL_CHARACTERS
from tensor_reshape.rules.solvers.propagation import MAX_SEARCHED
from tensor_reshape.server.calls import lifecycle
from tensor_reshape.server.calls.budgets import MAX_READS
from tensor_reshape.server.calls.places import CROWDED_CALLS
from tensor_reshape.server.calls.stalls import MIN_BYTES_PER_SECOND, SHORT_SECONDS
from tensor_reshape.server.calls.threaded import CALL_THREADS, QUESTION_THREADS
from tensor_reshape.server.oip.shared_memory import MAX_REGIONS
from tensor_reshape.server.service.methods import LIGHT_BYTES
from tensor_reshape.server.workers import slots
from tensor_reshape.server.workers.messages import STOP_MARGIN_SECONDS
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES

KIB, MIB = 1024, 1024 * 1024
OVERVIEW = "docs/architecture/overview.md"
SENTENCES = {
    OVERVIEW: [
        f"messages above {LIGHT_BYTES // KIB} KiB, outputs above {LIGHT_BYTES // KIB} KiB",
        f"those above {LIGHT_HEADER_BYTES // KIB} KiB; every batch",
        f"first heartbeat | {slots.START_SECONDS:g} s, then KILLED",
        f"recent | {slots.SILENCE_SECONDS:g} s, then SILENT",
        f"Idle for {slots.IDLE_SECONDS:g} s: KILLED | {slots.BUSY_SECONDS:g} s since the last one",
        f"told to end | {STOP_MARGIN_SECONDS:g} s, then KILLED_AT_STOP",
    ],
    "docs/concepts/operations.md": [
        f"| {GRAPH_MAX_RANK} | {GRAPH_MAX_RANK} | the server's `--max-rank`, {MAX_RANK} by default |"
    ],
    "docs/concepts/partial-shapes.md": [
        f"{MAX_BATCH_ITEMS:,} questions and {MAX_BATCH_BYTES // MIB} MiB",
        f"{MAX_HEADER_BYTES // KIB} KiB as a message, {MAX_FACTORS} symbols in an expression",
        f"{MAX_SYMBOLS} in the question, names of 1 to {MAX_SYMBOL_CHARACTERS} printable",
        f"more than {MAX_SEARCHED} unknown dims and names are left",
        f"A question has a budget of {MAX_STEPS:,} steps",
        f"A batch has {RESERVE_STEPS:,} steps, and {ITEM_STEPS} more with each question",
        f"no question of it has more than {MAX_STEPS:,}",
        f"several calls of {MAX_CALL_QUERIES:,} questions",
    ],
    "docs/deployment/server.md": [
        f"at most {MAX_READS} messages at once",
        f"at {MIN_BYTES_PER_SECOND // MIB} MiB/s",
        f"progress at {lifecycle.TRICKLE_BYTES_PER_SECOND // KIB} KiB/s",
        f"only {CROWDED_CALLS} of them",
        f"that have made no progress for {SHORT_SECONDS * 1000:g} ms",
        f"up after {SHORT_SECONDS * 1000:g} ms without progress",
        f"at most {CALL_THREADS} calls hold a thread",
        f"{QUESTION_THREADS} questions about shapes",
        f"up to {MAX_REGIONS:,} regions",
    ],
    "docs/how-to/command-line.md": [f"calls of up to {MAX_CALL_QUERIES:,}"],
    "docs/how-to/large-arrays.md": [f"`inline_max_bytes` ({DEFAULT_INLINE_MAX_BYTES // MIB} MiB)"],
    "docs/how-to/python-client.md": [
        f"| `timeout` | {DEFAULT_TIMEOUT_SECONDS:g} |",
        f"| `inline_max_bytes` | {DEFAULT_INLINE_MAX_BYTES // MIB} MiB |",
        f"| `chunk_bytes` | {DEFAULT_CHUNK_BYTES // MIB} MiB |",
    ],
    "SECURITY.md": [f"{MAX_HEADER_BYTES // KIB} KiB and 2,048 fields"],
}


def test_pages_give_the_numbers_of_the_code():
    texts = {page: " ".join((ROOT / page).read_text().split()) for page in SENTENCES}
    missing = {page: [one for one in sentences if one not in texts[page]] for page, sentences in SENTENCES.items()}

    assert {page: sentences for page, sentences in missing.items() if sentences} == {}


def test_overview_has_a_row_for_every_state_and_names_modules_that_exist():
    page = (ROOT / OVERVIEW).read_text()
    for heading, states in (("The life of a call", lifecycle.State), ("Workers", slots.State)):
        section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| ([A-Z_, ]+) \|", section, re.MULTILINE)
        assert sorted(name for row in rows for name in row.split(", ")) == sorted(states.__members__), heading

    modules = re.findall(r"`((?:rules|wire|calls|service|auxiliary|transport|process|workers)/\w+\.py)`", page)
    assert [module for module in modules if not list(ROOT.glob(f"*/tensor_reshape/**/{module}"))] == []
