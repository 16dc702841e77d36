"""The numbers in the pages are those of the code."""

import pytest

from documents import ROOT
from tensor_reshape.client.defaults import DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.client.queries import MAX_CALL_QUERIES
from tensor_reshape.client.transfers import DEFAULT_INLINE_MAX_BYTES
from tensor_reshape.rules.batches import ITEM_STEPS, RESERVE_STEPS
from tensor_reshape.rules.budgets import MAX_STEPS
from tensor_reshape.rules.dims import MAX_FACTORS, MAX_SYMBOLS
from tensor_reshape.rules.limits import GRAPH_MAX_RANK, MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_HEADER_BYTES, MAX_RANK
from tensor_reshape.rules.names import MAX_SYMBOL_CHARACTERS
from tensor_reshape.rules.solvers.propagation import MAX_SEARCHED
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES

KIB, MIB = 1024, 1024 * 1024
SENTENCES = [
    (
        "docs/concepts/operations.md",
        f"| {GRAPH_MAX_RANK} | {GRAPH_MAX_RANK} | the server's `--max-rank`, {MAX_RANK} by default |",
    ),
    ("docs/concepts/partial-shapes.md", f"{MAX_BATCH_ITEMS:,} questions and {MAX_BATCH_BYTES // MIB} MiB"),
    (
        "docs/concepts/partial-shapes.md",
        f"{MAX_HEADER_BYTES // KIB} KiB as a message, {MAX_FACTORS} symbols in an expression",
    ),
    (
        "docs/concepts/partial-shapes.md",
        f"{MAX_SYMBOLS} in the question, names of 1 to {MAX_SYMBOL_CHARACTERS} printable",
    ),
    ("docs/concepts/partial-shapes.md", f"more than {MAX_SEARCHED} unknown dims and names are left"),
    ("docs/concepts/partial-shapes.md", f"A question has a budget of {MAX_STEPS:,} steps"),
    (
        "docs/concepts/partial-shapes.md",
        f"A batch has {RESERVE_STEPS:,} steps, and {ITEM_STEPS} more with each question",
    ),
    ("docs/concepts/partial-shapes.md", f"no question of it has more than {MAX_STEPS:,}"),
    ("docs/concepts/partial-shapes.md", f"several calls of {MAX_CALL_QUERIES:,} questions"),
    ("docs/how-to/command-line.md", f"calls of up to {MAX_CALL_QUERIES:,}"),
    ("docs/how-to/python-client.md", f"| `timeout` | {DEFAULT_TIMEOUT_SECONDS:g} |"),
    ("docs/how-to/python-client.md", f"| `inline_max_bytes` | {DEFAULT_INLINE_MAX_BYTES // MIB} MiB |"),
    ("docs/how-to/python-client.md", f"| `chunk_bytes` | {DEFAULT_CHUNK_BYTES // MIB} MiB |"),
    ("docs/how-to/large-arrays.md", f"`inline_max_bytes` ({DEFAULT_INLINE_MAX_BYTES // MIB} MiB)"),
    ("SECURITY.md", f"{MAX_HEADER_BYTES // KIB} KiB and 2,048 fields"),
]


@pytest.mark.parametrize(("page", "sentence"), SENTENCES)
def test_a_page_gives_the_number_of_the_code(page: str, sentence: str):
    assert sentence in " ".join((ROOT / page).read_text().split())
