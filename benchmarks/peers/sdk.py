"""The SDK of this project, used like in a program."""

import itertools
import math
import random
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contestants import TENSOR
from benchmarks.questions import check_answers, make_questions
from benchmarks.sessions import Array, Job, ThreadSession
from tensor_reshape.client import Client, ShapeQuery, infer_locally

_SHAPES = 10_000


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens one client, which all threads share.

    For a tensor, a variant is a value of `transfer`. "stream" receives into an array of the caller. "empty" sends an
    empty tensor, whatever the cell's size, to measure a call without data. "query" only infers the shape. "connections"
    opens a connection for each client, for a server with several workers. "shapes" sends the tensor in 10,000 pairs of
    an input shape and a requested shape, in random order. For queries, a variant is "batch" (one call for all), "alone"
    (a call for each), or "local" (no call).
    """
    if job.cell.load == TENSOR:
        if variant == "empty":
            job = Job(job.address, job.cell._replace(size=0))
        connections = job.cell.clients if variant == "connections" else 1
        client = stack.enter_context(Client(job.address, timeout=math.inf, connections=connections))
        if variant == "query":
            ask = partial(client.infer_shape, job.array.shape, job.target, special_zero=False)
            return ThreadSession(job, stack, lambda: ask, lambda shape: job.check_shape(shape.known))
        if variant == "shapes":
            calls = _list_calls(job)
            # Each pair of shapes is called once before the measurement, as in a program that runs for a while.
            for array, target in calls:
                client.static_reshape(array, target, special_zero=False)
            connect = partial(_prepare_shapes, client, calls)
            return ThreadSession(job, stack, connect, lambda array: job.check(array.reshape(job.target)))
        return ThreadSession(job, stack, partial(_prepare_tensor, variant, client, job), job.check)
    queries = make_questions(job.cell.load, job.cell.size)
    call: Callable[[], list[Any]] = partial(infer_locally, queries)
    if variant != "local":
        call = _prepare_questions(variant, stack.enter_context(Client(job.address, timeout=math.inf)), queries)
    return ThreadSession(job, stack, lambda: call, partial(check_answers, queries))


def _prepare_tensor(variant: str, client: Client, job: Job) -> Callable[[], Any]:
    options: dict[str, Any] = {} if variant in {"auto", "empty", "connections"} else {"transfer": variant}
    if variant == "stream":
        options["out"] = np.zeros(job.target, np.float32)  # each thread has its own
    return partial(client.static_reshape, job.array, job.target, special_zero=False, **options)


def _list_calls(job: Job) -> list[tuple[Array, tuple[int, ...]]]:
    chosen = random.Random(1)  # noqa: S311 - it makes test data
    found = {(_split(job.array.size, chosen), _split(job.array.size, chosen)) for _ in range(2 * _SHAPES)}
    return [(job.array.reshape(dims), target) for dims, target in sorted(found)[:_SHAPES]]


def _prepare_shapes(client: Client, calls: list[tuple[Array, tuple[int, ...]]]) -> Callable[[], Any]:
    shuffled = itertools.cycle(random.sample(calls, len(calls)))  # each thread has another order

    def call() -> Array:
        array, target = next(shuffled)
        return client.static_reshape(array, target, special_zero=False)

    return call


def _split(volume: int, chosen: random.Random) -> tuple[int, ...]:
    """Returns a random shape of rank 6 with this number of elements, which is a power of 2."""
    ends = sorted(chosen.choices(range(volume.bit_length()), k=5))
    return tuple(2 ** (end - begin) for begin, end in itertools.pairwise((0, *ends, volume.bit_length() - 1)))


def _prepare_questions(variant: str, client: Client, queries: list[ShapeQuery]) -> Callable[[], list[Any]]:
    if variant == "batch":
        return partial(client.infer_shapes, queries)
    return lambda: [
        client.infer_shape(one.data_shape, one.shape, special_zero=one.special_zero, operation=one.operation)
        for one in queries
    ]
