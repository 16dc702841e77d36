"""Sends many mixed calls to a server, and measures its resources.

Threads and tasks of both SDKs, and raw gRPC callers, send arrays of all sizes in messages and streams, and make shape
queries. Some calls are rejected, cancelled, abandoned, or exceed their deadline. Others use the Open Inference
Protocol. Every result is checked. The server passes if its memory, threads and file
descriptors in the last quarter of the calls are the same as in the second quarter, and if it has memory for as many
streams at the end as at the beginning.
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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from statistics import median
from typing import Any, NamedTuple

import grpc
import numpy as np

from meters import Sampler, count_descriptors, count_threads, read_memory
from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, CallTimeoutError, Client, DataType, PackedTensor, Reason
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.wire.arrays import DTYPES
from verification.soak_calls import RawCalls, count_free_streams

KIB, MIB = 1 << 10, 1 << 20
# Each rejected call writes a line, up to a limit each second; many of these calls are to be rejected.
_EXPECTED = ("listening", "serving", "rejected", "records suppressed", "stopping", "stopped")
_THREADS, _TASKS, _RAW_SHARE, _CANCELLED_SHARE = 4, 6, 0.4, 0.04
_FIRST_CALLS, _MAX_ERRORS = 50, 1000
_STUCK_SECONDS = 90.0  # longer than the longest deadline of a call
_REST_SECONDS = 8.0  # a server gives back memory after a shorter idle time
_SAMPLE_SECONDS = 0.2
_MOST_MORE = {"memory in bytes": 8 * MIB, "threads": 8, "file descriptors": 3}
"""The allowed ratio of the last quarter's median to that of the second; thread pools fill up slowly."""

_POOL = np.random.default_rng(20).integers(0, 256, 32 * MIB, np.uint8)
_TYPES = [dtype for data_type, dtype in DTYPES.items() if not data_type.is_packed]
_PACKED = [data_type for data_type in DataType if data_type.is_packed]
_REJECTED = (((2, 3), (4, -1), Reason.NOT_DIVISIBLE), ((2, 3), (7,), Reason.VOLUME_MISMATCH))


class AbandonedError(Exception):
    """Raised by a caller that abandons a call."""


class Step(NamedTuple):
    """One call: its kind, the client's method with its arguments, and the expected result."""

    name: str
    method: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    want: object
    reason: Reason | None = None
    admitted: tuple[type[Exception], ...] = ()

    def judge(self, answer: object) -> None:
        """Raises AssertionError if the result, or the rejection, differs from the expected one."""
        reason = answer.reason if isinstance(answer, ReshapeError) else None
        assert reason == self.reason, f"{self.name}: {answer!r:.300}; expected {self.reason}"
        if isinstance(answer, np.ndarray) and isinstance(self.want, np.ndarray):
            assert (answer.dtype, answer.shape) == (self.want.dtype, self.want.shape), self.name
            assert answer.tobytes() == self.want.tobytes(), f"{self.name}: other elements"
        elif reason is None:
            assert answer == self.want, f"{self.name}: {answer!r:.300}; expected {self.want!r:.300}"


class StepChooser:
    """Chooses steps; the probability of each kind is its weight."""

    def __init__(self, random: Random) -> None:
        """Takes all decisions from `random`."""
        self._random = random
        self._kinds: dict[Callable[[], Step], float] = {
            lambda: self._move("no elements", 0): 150,
            lambda: self._move("1 KiB", KIB): 300,
            lambda: self._move("64 KiB", 64 * KIB): 150,
            lambda: self._move("1 MiB", MIB): 40,
            lambda: self._move("1 MiB as a stream", MIB, transfer="stream"): 8,
            lambda: self._move("8 MiB as a stream", 8 * MIB): 4,
            lambda: self._move("view", 64 * KIB, transfer="view"): 60,
            lambda: self._move("strided, 1 KiB", KIB, is_strided=True, transfer="inline"): 60,
            lambda: self._move("strided, 1 MiB", MIB, is_strided=True, transfer="inline"): 6,
            self._too_large: 1,
            self._packed: 40,
            self._infer: 120,
            self._rejected: 80,
            self._late: 8,
            self._abandoned: 4,
        }

    def choose(self) -> Step:
        """Returns the next step."""
        return self._random.choices(list(self._kinds), list(self._kinds.values()))[0]()

    def choose_large(self) -> Step:
        """Returns a step that takes long enough to be cancelled."""
        return self._move("cancelled", self._random.choice((64 * KIB, MIB, 8 * MIB)))

    def _move(self, name: str, size: int, *, is_strided: bool = False, **keywords: Any) -> Step:
        """Returns a step that reshapes about `size` bytes, with other elements each time."""
        method = self._random.choice(("static_reshape", "reshape"))
        dtype = self._random.choice(_TYPES) if method == "reshape" else np.dtype(self._random.choice(("f2", "f4")))
        rows = size // dtype.itemsize // 8 + self._random.randrange(64) if size else 0
        begin = 8 * self._random.randrange((_POOL.nbytes - 8 * rows * dtype.itemsize) // 8)
        array = _POOL[begin : begin + 8 * rows * dtype.itemsize].view(dtype).reshape(rows, 8)
        if is_strided:
            array = array.T
        return Step(name, method, (array, (-1,)), {"special_zero": False, **keywords}, array.reshape(-1))

    def _too_large(self) -> Step:
        return self._move("17 MiB in one message", 17 * MIB, transfer="inline")._replace(
            reason=Reason.MESSAGE_TOO_LARGE
        )

    def _packed(self) -> Step:
        data_type, groups = self._random.choice(_PACKED), self._random.randrange(1, 400)
        data = self._random.randbytes(groups * data_type.group_bytes)
        dims = groups, data_type.group_items
        tensor, want = PackedTensor(data_type, dims, data), PackedTensor(data_type, dims[::-1], data)
        return Step("packed", "reshape", (tensor, want.dims), {"special_zero": False}, want)

    def _infer(self) -> Step:
        dims = tuple(self._random.randint(1, 9) for _ in range(3))
        return Step("infer_shape", "infer_shape", (dims, (0, -1)), {"special_zero": True}, (dims[0], dims[1] * dims[2]))

    def _rejected(self) -> Step:
        dims, target, reason = self._random.choice(_REJECTED)
        return Step("rejected", "infer_shape", (dims, target), {"special_zero": True}, None, reason)

    def _late(self) -> Step:
        """Returns a step whose deadline is mostly too short."""
        size, timeout = self._random.choice((KIB, MIB, 8 * MIB)), self._random.choice((0.0002, 0.001, 0.005))
        return self._move("deadline", size, timeout=timeout)._replace(admitted=(CallTimeoutError,))

    def _abandoned(self) -> Step:
        """Returns a step that ends a stream in the middle."""
        rest = self._random.randint(1, 3 * MIB)

        def stop(arrived: int, total: int) -> None:
            if total - arrived < rest:
                raise AbandonedError

        step = self._move("abandoned stream", 3 * MIB, transfer="stream", progress=stop)
        return step._replace(admitted=(AbandonedError,))


class CallCounter:
    """The remaining calls, and the outcomes of the others; safe to use from any thread."""

    def __init__(self, calls: int) -> None:
        """Starts with all calls remaining."""
        self.kinds: Counter[str] = Counter()
        self.errors: list[str] = []
        self._left = calls
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Returns whether there is another call to make."""
        with self._lock:
            self._left -= 1
            return self._left >= 0 and len(self.errors) < _MAX_ERRORS

    def end(self, kind: str) -> None:
        """Counts a call that ended as expected, or otherwise keeps the current exception."""
        with self._lock:
            self.kinds[kind] += 1
            if kind == "failed":
                self.errors.append(traceback.format_exc())


def send_calls(address: str, counter: CallCounter, seed: str) -> None:
    """Makes all calls."""
    with Client(address) as client, grpc.insecure_channel(address) as channel:
        randoms = [Random(f"{seed}-{number}") for number in range(_THREADS)]
        callers = [_choose_calls(client, RawCalls(channel, random), random) for random in randoms]
        workers = [threading.Thread(target=_call_sync, args=(call, counter), daemon=True) for call in callers]
        workers.append(threading.Thread(target=lambda: asyncio.run(_call_async(address, counter, seed)), daemon=True))
        for worker in workers:
            worker.start()
        done = -1
        while alive := [worker for worker in workers if worker.is_alive()]:
            alive[0].join(_STUCK_SECONDS)
            if alive[0].is_alive() and counter.kinds.total() == done:
                faulthandler.dump_traceback()
                message = f"after {done} calls, no call has ended for {_STUCK_SECONDS} seconds"
                raise RuntimeError(message)
            done = counter.kinds.total()


def _choose_calls(client: Client, raw_calls: RawCalls, random: Random) -> Callable[[], str]:
    """Returns a function that makes a call, with an SDK or raw, and returns the name of its kind."""
    chooser = StepChooser(random)

    def call() -> str:
        if random.random() < _RAW_SHARE:
            return raw_calls.run()
        step = chooser.choose()
        try:
            step.judge(getattr(client, step.method)(*step.arguments, **step.keywords))
        except step.admitted as error:
            return f"{step.name}: {type(error).__name__}"
        except ReshapeError as error:
            step.judge(error)
        return step.name

    return call


def _call_sync(call: Callable[[], str], counter: CallCounter) -> None:
    while counter.take():
        try:
            counter.end(call())
        except Exception:  # noqa: BLE001 - every exception is a finding
            counter.end("failed")


async def _call_async(address: str, counter: CallCounter, seed: str) -> None:
    async with AsyncClient(address) as client:
        randoms = [Random(f"{seed}-task-{number}") for number in range(_TASKS)]
        await asyncio.gather(*(_call_in_turn(client, counter, random) for random in randoms))


async def _call_in_turn(client: AsyncClient, counter: CallCounter, random: Random) -> None:
    chooser = StepChooser(random)
    while counter.take():
        try:
            if random.random() < _CANCELLED_SHARE:
                counter.end(await _cancel(_run_async(client, chooser.choose_large()), random))
            else:
                counter.end(await _run_async(client, chooser.choose()))
        except Exception:  # noqa: BLE001 - every exception is a finding
            counter.end("failed")


async def _run_async(client: AsyncClient, step: Step) -> str:
    try:
        step.judge(await getattr(client, step.method)(*step.arguments, **step.keywords))
    except step.admitted as error:
        return f"{step.name}: {type(error).__name__}"
    except ReshapeError as error:
        step.judge(error)
    return step.name


async def _cancel(call: Awaitable[str], random: Random) -> str:
    task = asyncio.ensure_future(call)
    await asyncio.sleep(random.choice((0, 0.0005, 0.002, 0.01)))
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled task"
    return "cancelled task, too late"


class Sample(NamedTuple):
    """The resources of the process after a number of calls."""

    calls: int
    rss_bytes: int
    threads: int
    descriptors: int


def find_growth(samples: Sequence[Sample]) -> Iterator[str]:
    """Prints the medians of each quarter of the calls, and yields the resources that have grown since the second."""
    print(f"  memory at its peak: {max(sample.rss_bytes for sample in samples) / MIB:.1f} MiB")
    total = samples[-1].calls + 1
    quarters: list[list[Sample]] = [[] for _ in range(4)]
    for sample in samples:
        quarters[sample.calls * 4 // total].append(sample)
    if not all(quarters):
        yield "too few samples"
        return
    medians = [[median(column) for column in zip(*quarter, strict=True)][1:] for quarter in quarters]
    for name, values in zip(_MOST_MORE, zip(*medians, strict=True), strict=True):
        print(f"  {name}, by quarters: {', '.join(f'{value:.0f}' for value in values)}")
        if values[3] > values[1] + _MOST_MORE[name]:
            yield f"{name} have grown from {values[1]:.0f} to {values[3]:.0f}"


def soak(calls: int, seed: str) -> Iterator[str]:
    """Sends the calls to a new server, and yields what is wrong."""
    print(f"{calls} calls, seed {seed}", flush=True)
    counter = CallCounter(calls)
    with run_server() as server:
        pid = server.process.pid
        send_calls(server.address, CallCounter(_FIRST_CALLS), "first")  # opens the files that stay open
        free_streams, before = _count_free_streams(server.address), count_descriptors(pid)

        def take() -> Sample:
            return Sample(counter.kinds.total(), read_memory(pid, "VmRSS"), count_threads(pid), count_descriptors(pid))

        with Sampler(take, _SAMPLE_SECONDS) as sampler:
            send_calls(server.address, counter, seed)
        free_streams_after, after = _count_free_streams(server.address), count_descriptors(pid)
        yield from _find_bugs(server)
    print(*(f"  {count:8} {kind}" for kind, count in sorted(counter.kinds.items())), sep="\n")
    print(f"  memory for {free_streams} streams at the beginning, for {free_streams_after} at the end", flush=True)
    yield from _sum_up(counter.errors)
    yield from find_growth(sampler.samples)
    if after > before:
        yield f"{after} file descriptors are open at the end, {before} at the beginning"
    if free_streams_after < free_streams - 1:  # the order of two reads makes a difference of one
        yield f"memory for {free_streams_after} streams at the end, for {free_streams} at the beginning"


def _count_free_streams(address: str) -> int:
    """Counts the streams that the server has memory for, with a pause before and after."""
    time.sleep(_REST_SECONDS)
    with grpc.insecure_channel(address) as channel:
        free_streams = count_free_streams(channel)
    time.sleep(_REST_SECONDS)
    return free_streams


def _find_bugs(server: ServerProcess) -> Iterator[str]:
    code = server.stop()
    if code:
        yield f"the server ended with {code}"
    yield from _sum_up([str(record) for record in server.records if record["message"] not in _EXPECTED])


def _sum_up(texts: list[str]) -> list[str]:
    """Returns the first of the texts with the same ending, and the number of them."""
    firsts = {text.strip().rpartition("\n")[2]: text for text in reversed(texts)}
    counts = Counter(text.strip().rpartition("\n")[2] for text in texts)
    return [f"{counts[last]} times {text}" for last, text in firsts.items()]


def main() -> int:
    """Runs the soak test. The status is 1 if a resource grew, or a call did not end as expected."""
    parser = argparse.ArgumentParser("scripts/verify soak", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="how many")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="any text; the same one gives the same calls")
    arguments = parser.parse_args()
    problems = list(soak(arguments.calls, arguments.seed))
    print("\n".join(problems) or "passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
