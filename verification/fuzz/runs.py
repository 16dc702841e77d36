"""Runs batches of inputs, and formats mismatches."""

from verification.fuzz.comparisons import Comparison, Mismatch
from verification.tasks import Tally, Task

BATCH = 2000
_MAX_MISMATCHES = 10
_MAX_DUMP_BYTES = 4096


def run_batch(task: Task) -> Tally:
    """Compares one batch."""
    seed, batch, count = task
    comparison = Comparison()
    for mismatch in comparison.run(seed, count):
        comparison.tally.findings.append(describe(batch, mismatch))
        if len(comparison.tally.findings) >= _MAX_MISMATCHES:
            break
    return comparison.tally


def describe(batch: int, mismatch: Mismatch) -> str:
    """Returns the text of a mismatch with its bytes, and how to reproduce it."""
    raw = mismatch.input.raw
    lines = [
        f"MISMATCH in {mismatch.what} of {mismatch.input.kind}: batch {batch}, input {mismatch.number}",
        f"  have {mismatch.have!r:.2000}",
        f"  want {mismatch.want!r:.2000}",
        f"  {len(raw)} bytes" + (f", of which the first {_MAX_DUMP_BYTES}:" if len(raw) > _MAX_DUMP_BYTES else ":"),
        *dump(raw[:_MAX_DUMP_BYTES]),
    ]
    return "\n".join(lines)


def dump(raw: bytes) -> list[str]:
    """Returns bytes as hexadecimal numbers, 32 bytes in a line."""
    return [f"  {begin:06x}  {raw[begin : begin + 32].hex(' ', 4)}" for begin in range(0, len(raw), 32)]
