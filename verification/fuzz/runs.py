"""Batches of inputs in processes of their own, what came of them, and the planted bugs that they must find."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from verification.fuzz.comparisons import Comparison, Mismatch, Tally
from verification.fuzz.inputs import KINDS
from verification.fuzz.plants import PLANTS
from verification.tasks import Progress, run_all

ROOT = Path(__file__).parents[2]
BATCH = 2000
_FORMS = ("canonical", "parsed", "refused", "failed")
_MAX_SHOWN = 10
_MAX_DUMP_BYTES = 4096
_PLANT_INPUTS = 400_000

_Task = tuple[str, int, int]


def list_tasks(seed: str, inputs: int) -> list[_Task]:
    """Returns the batches, each with its number and how many inputs it has."""
    return [
        (f"{seed}-{number}", number, min(BATCH, inputs - begin)) for number, begin in enumerate(range(0, inputs, BATCH))
    ]


def run_batch(task: _Task) -> tuple[int, Tally]:
    """Compares one batch."""
    seed, number, count = task
    comparison = Comparison()
    for _ in comparison.run(seed, count):
        if len(comparison.tally.mismatches) >= _MAX_SHOWN:
            break
    return number, comparison.tally


def run_tasks(tasks: list[_Task], processes: int) -> Tally:
    """Compares all batches, and says how far it is and where there is a mismatch."""
    tally, progress = Tally(), Progress(sum(count for _, _, count in tasks), "inputs")
    for number, batch in run_all(run_batch, tasks, processes):
        for mismatch in batch.mismatches[: max(_MAX_SHOWN - len(tally.mismatches), 0)]:
            print(describe(number, mismatch), flush=True)
        tally.add(batch)
        progress.show(tally.inputs, len(tally.mismatches))
    return tally


def describe(batch: int, mismatch: Mismatch) -> str:
    """Writes a mismatch with its bytes, and how to see it again."""
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
    """Writes bytes as hexadecimal numbers, 32 a line."""
    return [f"  {begin:06x}  {raw[begin : begin + 32].hex(' ', 4)}" for begin in range(0, len(raw), 32)]


def show(tally: Tally, seconds: float) -> None:
    """Prints what became of all inputs."""
    forms = [form for form in _FORMS if any((kind, form) in tally.outcomes for kind in KINDS)]
    print("".join([f"{'':16}", *[f"{form:>12}" for form in forms]]))
    for kind in KINDS:
        print("".join([f"{kind:16}", *[f"{tally.outcomes[kind, form]:12}" for form in forms]]))
    totals = [sum(tally.outcomes[kind, form] for kind in KINDS) for form in forms]
    print("".join([f"{'together':16}", *[f"{total:12}" for total in totals]]))
    print("refused: " + ", ".join(f"{reason} {count}" for reason, count in tally.reasons.most_common()))
    print("servers: " + ", ".join(f"{what} {count}" for what, count in tally.answers.most_common()))
    pace = tally.inputs / max(seconds, 1e-9)
    print(f"{tally.inputs} inputs in {seconds:.0f} s, {pace:.0f} a second: {len(tally.mismatches)} mismatches")


def find_plants(seed: str, processes: int) -> bool:
    """Runs with each of the planted bugs until it is found; returns whether all were."""

    def find(index: int) -> bool:
        command = [sys.executable, "-m", "verification.fuzz.plants", str(index), seed, str(_PLANT_INPUTS)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(f"{PLANTS[index].name}: {done.stdout.strip() or done.stderr}", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(processes) as threads:
        found = sum(threads.map(find, range(len(PLANTS))))
    print(f"{found} of {len(PLANTS)} planted bugs are found")
    return found == len(PLANTS)
