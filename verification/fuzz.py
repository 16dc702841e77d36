"""Compares the reader of messages with the generated classes, on as many inputs as there is time for.

Every input is read by the product and, as a whole, by the generated class; both must say the same, or refuse it for the
same reason. Every request is also answered by a server that has just been made, and by one that has seen all the others
of its batch; both must answer with the same bytes, whose numbers every reader in use takes. All follows from the seed.
"""

import argparse
import multiprocessing
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import google.protobuf
from google.protobuf.internal import api_implementation
from verification.differences import Comparison, Mismatch, Tally
from verification.inputs import KINDS
from verification.plants import PLANTS

ROOT = Path(__file__).parents[1]
BATCH = 2000
_FORMS = ("canonical", "parsed", "refused", "failed")
_MAX_SHOWN = 10
_MAX_DUMP_BYTES = 4096
_PROGRESS_SECONDS = 10.0
_PLANT_INPUTS = 100_000

_Task = tuple[str, int, int]


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/fuzz", description=__doc__)
    parser.add_argument("inputs", nargs="?", type=int, default=1_000_000, help="how many")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same inputs")
    parser.add_argument("--batch", type=int, help="only this one, as a mismatch names it")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--plant", action="store_true", help="put known bugs into the reader: each must be found")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where there is a mismatch, or a planted bug is not found."""
    arguments = parse_arguments()
    version = f"protobuf {google.protobuf.__version__} ({api_implementation.Type()})"
    print(f"seed {arguments.seed}, {arguments.processes} processes, {version}", flush=True)
    if arguments.plant:
        return find_plants(arguments.seed, arguments.processes)
    tasks = list_tasks(arguments.seed, arguments.inputs)
    begin = time.monotonic()
    tally = run_tasks(tasks if arguments.batch is None else tasks[arguments.batch :][:1], arguments.processes)
    show(tally, time.monotonic() - begin)
    return 1 if tally.mismatches or not tally.inputs else 0


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
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return _collect(pool.imap_unordered(run_batch, tasks), sum(count for _, _, count in tasks))


def _collect(batches: Iterable[tuple[int, Tally]], total: int) -> Tally:
    tally, begin = Tally(), time.monotonic()
    shown = begin
    for number, batch in batches:
        for mismatch in batch.mismatches[: max(_MAX_SHOWN - len(tally.mismatches), 0)]:
            print(describe(number, mismatch), flush=True)
        tally.add(batch)
        if time.monotonic() - shown > _PROGRESS_SECONDS:
            shown = time.monotonic()
            pace = tally.inputs / (shown - begin)
            found = len(tally.mismatches)
            print(f"  {tally.inputs} of {total} inputs, {pace:.0f} a second, {found} mismatches", flush=True)
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


def find_plants(seed: str, processes: int) -> int:
    """Runs with each of the planted bugs, until it is found."""

    def find(index: int) -> bool:
        command = [sys.executable, "-m", "verification.plants", str(index), seed, str(_PLANT_INPUTS)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(f"{PLANTS[index].name}: {done.stdout.strip() or done.stderr}", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(processes) as threads:
        found = sum(threads.map(find, range(len(PLANTS))))
    print(f"{found} of {len(PLANTS)} planted bugs are found")
    return 0 if found == len(PLANTS) else 1


if __name__ == "__main__":
    sys.exit(main())
