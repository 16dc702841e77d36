"""Sends many mixed calls to a server, and watches what it takes.

Threads and tasks of both SDKs send arrays of all sizes, with and without strides, in messages and in streams; ask for
shapes; are refused; cancel, abandon, and run out of time. Others do so by the Open Inference Protocol, with shared
memory. Every answer is checked. The server passes where its memory,
its threads and its file descriptors are in the last quarter of the calls what they were in the second.
"""

import argparse
import secrets
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc

from meters import Sampler
from server_processes import ServerProcess, run_server
from verification.soak.callers import Turns, send_calls
from verification.soak.growth import (
    MIB,
    SAMPLE_SECONDS,
    Sample,
    await_descriptors,
    build_table,
    find_growth,
    take_sample,
)
from verification.soak.raw_calls import count_room

_SERVINGS = ("inline", "threads")
# Calls that are refused have a line each, so many in a second: many of these calls are to be refused.
_EXPECTED = ("listening", "serving", "refused", "records suppressed", "stopping", "stopped")
_FIRST_CALLS = 50
_REST_SECONDS = 8.0
"""Longer than a server must be idle to give back memory."""


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/soak", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="for each way of serving")
    parser.add_argument("--serving", nargs="+", choices=_SERVINGS, default=_SERVINGS)
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same calls")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where something grew, or a call did not end as it must."""
    arguments = parse_arguments()
    problems = [
        problem
        for serving in arguments.serving
        for problem in soak(serving, arguments.calls, f"{arguments.seed}-{serving}")
    ]
    print("\n".join(problems) or "passed")
    return 1 if problems else 0


def soak(serving: str, calls: int, seed: str) -> list[str]:
    """Sends the calls to a server of its own, and returns what is wrong."""
    print(f"--serving {serving}, {calls} calls, seed {seed}", flush=True)
    turns, begin = Turns(calls), time.monotonic()

    def take() -> Sample:
        return take_sample(server.process.pid, turns.done, time.monotonic() - begin)

    with (
        TemporaryDirectory() as shared,
        run_server("--serving", serving, "--shared-memory-dir", shared) as server,
    ):
        send_calls(server.address, Turns(_FIRST_CALLS), "first", Path(shared))  # what is opened once, and stays open
        room = _count_room(server.address)
        before = take()
        with Sampler(take, SAMPLE_SECONDS) as sampler:
            send_calls(server.address, turns, seed, Path(shared))
        room_after = _count_room(server.address)
        after = await_descriptors(take, before.descriptors, _REST_SECONDS)
        texts = [*turns.errors, *_find_bugs(server)]
    _show(turns, sampler.samples, before, after)
    print(f"memory for {room} streams in the beginning, for {room_after} in the end", flush=True)
    problems = [*_sum_up(texts), *find_growth(sampler.samples), *_find_rest(before, after)]
    if room_after < room - 1:  # which of two reads comes first makes a difference of one
        problems.append(f"there is memory for {room_after} streams in the end, for {room} in the beginning")
    return [f"--serving {serving}: {problem}" for problem in problems]


def _count_room(address: str) -> int:
    """Asks how much memory the server has left to give, and lets it rest before and after."""
    time.sleep(_REST_SECONDS)
    with grpc.insecure_channel(address) as channel:
        room = count_room(channel)
    time.sleep(_REST_SECONDS)
    return room


def _find_rest(before: Sample, after: Sample) -> list[str]:
    """Returns what is left of connections that are closed."""
    if after.descriptors <= before.descriptors:
        return []
    return [f"{after.descriptors} file descriptors are open in the end, {before.descriptors} in the beginning"]


def _find_bugs(server: ServerProcess) -> list[str]:
    """Returns what the server has logged while it served, and how it ended, where that is not as it must be."""
    code = server.stop()
    records = [record for record in server.records if record["message"] not in _EXPECTED]
    logged = [f"the server logged {record['message']}\n{record.get('exc_info', record)}" for record in records]
    return logged if code == 0 else [*logged, f"the server ended with {code}"]


def _sum_up(texts: list[str]) -> list[str]:
    """Returns the first of those that end alike, and how many there are."""
    firsts = {text.strip().rpartition("\n")[2]: text for text in reversed(texts)}
    counts = Counter(text.strip().rpartition("\n")[2] for text in texts)
    return [f"{counts[last]} times {text}" for last, text in firsts.items()]


def _show(turns: Turns, samples: list[Sample], before: Sample, after: Sample) -> None:
    for kind, count in sorted(turns.kinds.items()):
        print(f"  {count:8} {kind}")
    print("\n".join(build_table(samples)))
    for name, sample in (("before", before), ("after", after)):
        print(
            f"{name}: RSS {sample.rss_bytes / MIB:.1f} MiB, {sample.threads} threads, {sample.descriptors} fds",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
