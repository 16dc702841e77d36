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
from contextlib import contextmanager
from functools import partial
from random import Random
from statistics import median
from typing import Any, NamedTuple

import grpc
import numpy as np

from inference_requests import build_request as build_inference
from inference_requests import build_typed_request, send_request
from meters import Sampler, count_descriptors, count_threads, read_memory
from plain_requests import build_begin, build_request, build_static_request, chunk
from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, CallTimeoutError, Client
from tensor_reshape.client.connections import build_error
from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.server.oip.messages import InferMessage, find_class, find_path
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.arrays import DTYPES
from tensor_reshape.wire.methods import SERVICE

KIB, MIB = 1 << 10, 1 << 20
_SECONDS, _ROOM_SECONDS = 60.0, 1.5
_SQUARE = (2, 2)  # 16 bytes
_BEGIN, _LARGE_BEGIN = build_begin(_SQUARE), build_begin((2**22,))
_UNARY: tuple[tuple[bytes, Reason], ...] = (
    (b"\xff\xff\xff", Reason.MESSAGE_MALFORMED),
    (build_request(_SQUARE, bytes(MIB)), Reason.DATA_SIZE_MISMATCH),
    (b"\x2a\xf0\xa2\x04" + bytes(70000) + build_request(_SQUARE, bytes(16)), Reason.HEADER_TOO_LARGE),
    (build_request(_SQUARE, bytes(12), strides=(1, 1)), Reason.STRIDES_OVERLAP),
    (build_request((2**24,), bytes(4), strides=(0,)), Reason.OUTPUT_TOO_LARGE),
)
_REJECTED_STREAMS: tuple[tuple[tuple[bytes, ...], Reason], ...] = (
    ((chunk(0, bytes(16)),), Reason.CHUNK_UNEXPECTED),
    ((_BEGIN, chunk(0, bytes(8))), Reason.DATA_SIZE_MISMATCH),
    ((build_begin((2**24, 2), strides=(1, 2**24)),), Reason.TENSOR_TOO_LARGE),
    # More messages follow the rejected one. They may arrive while the server sends the rejection.
    ((_LARGE_BEGIN, chunk(4, bytes(KIB)), *[chunk(0, bytes(MIB))] * 4), Reason.CHUNK_OUT_OF_ORDER),
    ((_LARGE_BEGIN, _BEGIN, *[chunk(0, bytes(MIB))] * 4), Reason.DATA_SIZE_MISMATCH),
)
_ELEMENTS = np.random.default_rng(21).integers(0, 256, 4 * MIB, np.uint8).tobytes()


class RawCalls:
    def __init__(self, channel: grpc.Channel, random: Random) -> None:
        self._channel, self._random = channel, random
        self._unary: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(f"/{SERVICE}/StaticReshape")
        self._stream: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/StreamReshape")
        self._kinds: dict[Callable[[], str], int] = {
            self._reject_unary: 4,
            self._reject_stream: 3,
            self._cancel: 2,
            self._collect: 1,
            self._infer: 10,
            self._infer_unpacked: 8,
            self._infer_stream: 3,
        }

    def run(self) -> str:
        return self._random.choices(list(self._kinds), list(self._kinds.values()))[0]()

    def _reject_unary(self) -> str:
        request, reason = self._random.choice(_UNARY)
        _check_rejected(lambda: self._unary(iter((request,)), timeout=_SECONDS), reason)
        return "rejected, by hand"

    def _reject_stream(self) -> str:
        messages, reason = self._random.choice(_REJECTED_STREAMS)
        _check_rejected(lambda: list(self._stream(iter(messages), timeout=_SECONDS)), reason)
        return "rejected stream, by hand"

    def _cancel(self) -> str:
        """Cancels a call at any time: before it begins, or while it is sent, processed or received."""
        request = build_static_request(self._random.choice((0, KIB, 64 * KIB, MIB, 8 * MIB)))
        call = self._unary.future(iter((request,)), timeout=_SECONDS)
        time.sleep(self._random.choice((0, 0, 0.0005, 0.002, 0.01)))
        call.cancel()
        return "cancelled, by hand"

    def _collect(self) -> str:
        """Streams data with strides, which the server puts in order after all of it has arrived."""
        rows, columns = self._random.randint(1, 512), self._random.randint(1, 512)
        numbers = np.arange(rows * columns, dtype="<f4")
        raw, size = numbers.tobytes(), self._random.choice((4 * KIB, 64 * KIB, MIB))
        messages = [chunk(begin, raw[begin : begin + size]) for begin in range(0, len(raw), size)]
        begin = build_begin((rows, columns), strides=(1, rows))
        answers = map(
            reshape_pb2.StreamReshapeResponse.FromString, self._stream(iter((begin, *messages)), timeout=_SECONDS)
        )
        received = b"".join(answer.chunk for answer in answers)
        assert received == numbers.reshape(columns, rows).T.tobytes(), f"{rows} by {columns}: the wrong order"
        return "strided stream, by hand"

    def _make_inference(self) -> tuple[InferMessage, InferMessage]:
        """Returns a request with raw elements, and the expected response."""
        size, rows = self._random.choice((0, KIB, KIB, 64 * KIB, MIB)), self._random.randint(1, 64)
        begin = 4 * self._random.randrange(MIB // 4)
        payload = _ELEMENTS[begin : begin + size // (4 * rows) * 4 * rows]
        columns, name = len(payload) // 4 // rows, str(self._random.getrandbits(32))
        request = build_inference("reshape", (rows, columns), payload, target=f"[{columns},{rows}]", id=name)
        output = {"name": "output", "datatype": "FP32", "shape": (columns, rows)}
        fields = {"model_name": "reshape", "model_version": "1", "id": name, "outputs": [output]}
        return request, find_class("ModelInferResponse")(**fields, raw_output_contents=[payload])

    def _infer(self) -> str:
        request, want = self._make_inference()
        assert self._send(request) == want, want.id
        return "inference"

    def _infer_unpacked(self) -> str:
        """Sends elements as numbers. The server parses long requests on a thread."""
        numbers = [self._random.randint(-(2**31), 2**31 - 1) for _ in range(self._random.randint(1, 4096))]
        (output,) = self._send(build_typed_request(numbers, datatype="INT32", target="[1,-1]")).outputs
        assert list(output.contents.int_contents) == numbers
        return "inference, numbers"

    def _infer_stream(self) -> str:
        """Sends several requests on one stream. A rejected request does not affect the others."""
        drawn = [self._make_inference() for _ in range(self._random.randint(1, 6))]
        rejected = build_inference("resnet", id="rejected").SerializeToString()
        messages = [raw for request, _ in drawn for raw in (request.SerializeToString(), rejected)]
        stub: grpc.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(find_path("ModelStreamInfer"))
        parse = find_class("ModelStreamInferResponse").FromString
        answers: list[Any] = [parse(raw) for raw in stub(iter(messages), timeout=_SECONDS)]
        assert [answer.infer_response for answer in answers[::2]] == [want for _, want in drawn]
        assert all(answer.error_message for answer in answers[1::2])
        return "inference, stream"

    def _send(self, request: InferMessage) -> InferMessage:
        return send_request(self._channel, "ModelInfer", request, _SECONDS)


def _count_streams_at_once(channel: grpc.Channel) -> int:
    """Opens streams of the maximum size until one is rejected or waits; all end before one is aborted for another."""
    ended, calls = threading.Event(), list[grpc.Call]()
    end = time.monotonic() + _ROOM_SECONDS
    stream: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/StreamReshape")

    def begin() -> Iterator[bytes]:
        yield build_begin((2**11, 2**11), strides=(1, 2**11))
        ended.wait()

    try:
        while True:
            call = stream(begin(), timeout=max(end - time.monotonic(), 0.001))
            next(call)
            calls.append(call)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            _check_reason(error, Reason.SERVER_BUSY)
    finally:
        ended.set()
        for one in calls:
            one.cancel()
    return len(calls)


def _check_rejected(call: Callable[[], object], reason: Reason) -> None:
    """Makes a call, which must be rejected for this reason."""
    try:
        call()
    except grpc.RpcError as error:
        _check_reason(error, reason)
    else:
        message = f"{reason}: the call succeeded"
        raise AssertionError(message)


def _check_reason(error: grpc.RpcError, reason: Reason) -> None:
    metadata = error.trailing_metadata() or ()
    rejection = build_error(error.code(), error.details(), metadata)  # type: ignore[arg-type] # also accepts pairs
    found = rejection.reason if isinstance(rejection, ReshapeError) else None
    assert found == reason, f"{rejection!r}; wanted {reason}"


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

    @contextmanager
    def judge_errors(self) -> Iterator[Counter[str]]:
        """Catches the admitted errors and the expected rejection of the block; yields the names of the first."""
        ends = Counter[str]()
        try:
            yield ends
        except self.admitted as error:
            ends[f"{self.name}: {type(error).__name__}"] += 1
        except ReshapeError as error:
            self.judge(error)

    def judge(self, answer: object) -> None:
        """Raises AssertionError if the result, or the rejection, differs from the expected one."""
        reason = answer.reason if isinstance(answer, ReshapeError) else None
        assert reason == self.reason, f"{self.name}: {answer!r:.300}; expected {self.reason}"
        if isinstance(answer, np.ndarray) and isinstance(self.want, np.ndarray):
            assert (answer.dtype, answer.shape) == (self.want.dtype, self.want.shape), self.name
            assert answer.tobytes() == self.want.tobytes(), f"{self.name}: other elements"
        elif reason is None:
            assert answer == self.want, f"{self.name}: {answer!r:.300}; expected {self.want!r:.300}"


_MOVES: tuple[tuple[Any, ...], ...] = (
    (150, "no elements", 0),
    (300, "1 KiB", KIB),
    (150, "64 KiB", 64 * KIB),
    (40, "1 MiB", MIB),
    (8, "1 MiB as a stream", MIB, "stream"),
    (4, "8 MiB as a stream", 8 * MIB),
    (60, "view", 64 * KIB, "view"),
    (60, "strided, 1 KiB", KIB, "inline"),
    (6, "strided, 1 MiB", MIB, "inline"),
    (1, "17 MiB in one message", 17 * MIB, "inline"),
)
"""The weights, names, sizes and transfers of reshapes."""


class StepChooser:
    """Chooses steps; the probability of each kind is its weight."""

    def __init__(self, random: Random) -> None:
        self._random = random
        kinds: dict[Callable[[], Step], float] = {partial(self._move, *move[1:]): move[0] for move in _MOVES}
        kinds |= {self._infer: 120, self._rejected: 80, self._late: 8, self._abandoned: 4}
        self._kinds = kinds

    def choose(self) -> Step:
        return self._random.choices(list(self._kinds), list(self._kinds.values()))[0]()

    def choose_large(self) -> Step:
        """Returns a step that takes long enough to be cancelled."""
        return self._move("cancelled", self._random.choice((64 * KIB, MIB, 8 * MIB)))

    def _move(self, name: str, size: int, transfer: str = "auto", **keywords: Any) -> Step:
        """Returns a step that reshapes about `size` bytes, with other elements each time."""
        method = self._random.choice(("static_reshape", "reshape"))
        dtype = self._random.choice(_TYPES) if method == "reshape" else np.dtype(self._random.choice(("f2", "f4")))
        rows = size // dtype.itemsize // 8 + self._random.randrange(64) if size else 0
        begin = 8 * self._random.randrange((_POOL.nbytes - 8 * rows * dtype.itemsize) // 8)
        array = _POOL[begin : begin + 8 * rows * dtype.itemsize].view(dtype).reshape(rows, 8)
        if name.startswith("strided"):
            array = array.T
        keywords |= {"special_zero": False, "transfer": transfer}
        reason = Reason.MESSAGE_TOO_LARGE if transfer == "inline" and size > 16 * MIB else None
        return Step(name, method, (array, (-1,)), keywords, array.reshape(-1), reason)

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
        self.kinds: Counter[str] = Counter()
        self.errors: list[str] = []
        self._left = calls
        self._lock = threading.Lock()

    def take(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0 and len(self.errors) < _MAX_ERRORS

    def end(self, kind: str) -> None:
        with self._lock:
            self.kinds[kind] += 1

    @contextmanager
    def keep_errors(self) -> Iterator[None]:
        """Counts a call that raises an exception in the block, and keeps the exception."""
        try:
            yield
        except Exception:  # noqa: BLE001 - every exception is a finding
            self.errors.append(traceback.format_exc())
            self.end("failed")


def send_calls(address: str, counter: CallCounter, seed: str) -> None:
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
        with step.judge_errors() as ends:
            step.judge(getattr(client, step.method)(*step.arguments, **step.keywords))
        return next(iter(ends), step.name)

    return call


def _call_sync(call: Callable[[], str], counter: CallCounter) -> None:
    while counter.take():
        with counter.keep_errors():
            counter.end(call())


async def _call_async(address: str, counter: CallCounter, seed: str) -> None:
    async with AsyncClient(address) as client:
        randoms = [Random(f"{seed}-task-{number}") for number in range(_TASKS)]
        await asyncio.gather(*(_call_in_turn(client, counter, random) for random in randoms))


async def _call_in_turn(client: AsyncClient, counter: CallCounter, random: Random) -> None:
    chooser = StepChooser(random)
    while counter.take():
        with counter.keep_errors():
            if random.random() < _CANCELLED_SHARE:
                counter.end(await _cancel(_run_async(client, chooser.choose_large()), random))
            else:
                counter.end(await _run_async(client, chooser.choose()))


async def _run_async(client: AsyncClient, step: Step) -> str:
    with step.judge_errors() as ends:
        step.judge(await getattr(client, step.method)(*step.arguments, **step.keywords))
    return next(iter(ends), step.name)


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
        free_streams = max(_count_streams_at_once(channel) for _ in range(3))
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
