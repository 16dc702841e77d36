"""Sends many mixed calls to a server, and watches what it takes.

Threads and tasks of both SDKs send arrays of all sizes, with and without strides, in messages and in streams; ask for
shapes; are refused; cancel, abandon, and run out of time. Every answer is checked. The server passes where its memory,
its threads and its file descriptors are in the last quarter of the calls what they were in the second.
"""

import argparse
import asyncio
import faulthandler
import secrets
import sys
import threading
import time
import traceback
from collections import Counter
from random import Random

import grpc
from verification.meters import MIB, Meter, Sample, build_table, find_growth
from verification.raw_calls import RawCalls, count_room
from verification.steps import Deck, Step, judge

from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, Client
from tensor_reshape.rules.errors import ReshapeError

_SERVINGS = ("inline", "threads")
_THREADS, _TASKS = 4, 6
_RAW_SHARE, _CANCELLED_SHARE = 0.08, 0.04
_MAX_ERRORS = 1000
_FIRST_CALLS = 50
_STUCK_SECONDS = 90.0  # above the longest deadline of a call
_REST_SECONDS = 8.0
"""Longer than a server must be idle to give back memory."""


class Turns:
    """So many calls, whoever makes them, and what became of them; safe to use from any thread."""

    def __init__(self, calls: int) -> None:
        """Starts with all of them."""
        self.kinds: Counter[str] = Counter()
        self.errors: list[str] = []
        self._left = calls
        self._lock = threading.Lock()

    @property
    def done(self) -> int:
        """How many have ended."""
        return self.kinds.total()

    def take(self) -> bool:
        """Whether there is another call to make."""
        with self._lock:
            self._left -= 1
            return self._left >= 0 and len(self.errors) < _MAX_ERRORS

    def end(self, kind: str) -> None:
        """Counts a call that ended as it must."""
        with self._lock:
            self.kinds[kind] += 1

    def fail(self) -> None:
        """Keeps the exception that is being handled: it should not have come."""
        with self._lock:
            self.kinds["failed"] += 1
            self.errors.append(traceback.format_exc())


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
    turns = Turns(calls)
    with run_server("--serving", serving) as server:
        send_calls(server.address, Turns(_FIRST_CALLS), "first")  # what is opened once, and stays open
        room = _count_room(server.address)
        meter = Meter(server.process.pid, lambda: turns.done)
        before = meter.read()
        with meter:
            send_calls(server.address, turns, seed)
        room_after = _count_room(server.address)
        after = meter.await_descriptors(before.descriptors, _REST_SECONDS)
        texts = [*turns.errors, *_find_bugs(server)]
    _show(turns, meter.samples, before, after)
    print(f"memory for {room} streams in the beginning, for {room_after} in the end", flush=True)
    problems = [*_sum_up(texts), *find_growth(meter.samples), *_find_rest(before, after)]
    if room_after < room - 1:  # which of two reads comes first makes a difference of one
        problems.append(f"there is memory for {room_after} streams in the end, for {room} in the beginning")
    return [f"--serving {serving}: {problem}" for problem in problems]


def send_calls(address: str, turns: Turns, seed: str) -> None:
    """Sends all of them."""
    with Client(address) as client, grpc.insecure_channel(address) as channel:
        workers = [
            threading.Thread(target=call_sync, args=(client, channel, turns, Random(f"{seed}-{number}")), daemon=True)
            for number in range(_THREADS)
        ]
        workers.append(threading.Thread(target=lambda: asyncio.run(call_async(address, turns, seed)), daemon=True))
        for worker in workers:
            worker.start()
        _await_end(workers, turns)


def _await_end(workers: list[threading.Thread], turns: Turns) -> None:
    """Awaits the end of all; where no call ends for a while, says where each thread is, and gives up."""
    done = -1
    while alive := [worker for worker in workers if worker.is_alive()]:
        alive[0].join(_STUCK_SECONDS)
        if alive[0].is_alive() and turns.done == done:
            faulthandler.dump_traceback()
            message = f"after {done} calls, none has ended for {_STUCK_SECONDS} seconds"
            raise RuntimeError(message)
        done = turns.done


def call_sync(client: Client, channel: grpc.Channel, turns: Turns, random: Random) -> None:
    """Makes calls that block, until there are no more to make."""
    deck, raw_calls = Deck(random), RawCalls(channel, random)
    while turns.take():
        try:
            kind = raw_calls.run() if random.random() < _RAW_SHARE else _run_sync(client, deck.deal())
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            turns.fail()
        else:
            turns.end(kind)


async def call_async(address: str, turns: Turns, seed: str) -> None:
    """Makes calls that are awaited, until there are no more to make."""
    async with AsyncClient(address) as client:
        await asyncio.gather(
            *(_call_in_turn(client, turns, Random(f"{seed}-task-{number}")) for number in range(_TASKS))
        )


async def _call_in_turn(client: AsyncClient, turns: Turns, random: Random) -> None:
    deck = Deck(random)
    while turns.take():
        try:
            cancels = random.random() < _CANCELLED_SHARE
            kind = await (_cancel(client, deck.large(), random) if cancels else _run_async(client, deck.deal()))
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            turns.fail()
        else:
            turns.end(kind)


def _run_sync(client: Client, step: Step) -> str:
    try:
        answer: object = getattr(client, step.method)(*step.arguments, **step.keywords)
    except step.admitted as error:
        return f"{step.name}: {type(error).__name__}"
    except ReshapeError as error:
        answer = error
    judge(step, answer)
    return step.name


async def _run_async(client: AsyncClient, step: Step) -> str:
    try:
        answer: object = await getattr(client, step.method)(*step.arguments, **step.keywords)
    except step.admitted as error:
        return f"{step.name}: {type(error).__name__}"
    except ReshapeError as error:
        answer = error
    judge(step, answer)
    return step.name


async def _cancel(client: AsyncClient, step: Step, random: Random) -> str:
    task = asyncio.create_task(_run_async(client, step))
    await asyncio.sleep(random.choice((0, 0.0005, 0.002, 0.01)))
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled task"
    return "cancelled task, too late"


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
    records = [record for record in server.records if record["message"] not in ("listening", "stopping", "stopped")]
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
        print(f"{name}: RSS {sample.rss / MIB:.1f} MiB, {sample.threads} threads, {sample.descriptors} fds", flush=True)


if __name__ == "__main__":
    sys.exit(main())
