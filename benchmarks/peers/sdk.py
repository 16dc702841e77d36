"""The SDK of this project, as a user calls it."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cells import TENSOR
from benchmarks.questions import ShapeQuestion, check_answers, make_questions
from benchmarks.sessions import Job, ThreadSession
from tensor_reshape.client import Client, InferredShape, ReshapeError, infer_locally

Ask = Callable[[], list[InferredShape | ReshapeError]]


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens clients.

    With a tensor a variant is a way of `transfer`, "stream" into an array of the caller's; "empty" sends an empty
    tensor, whatever the cell's size: what a call costs that moves nothing. With questions it is "batch" (one call for
    all), "alone" (a call for each), or "local" (no call). On an empty shape "infer" asks what "auto" executes.
    """
    if job.cell.load != TENSOR:
        questions = make_questions(job.cell.load, job.cell.size)
        connect = partial(_connect_questions, variant, job, stack, questions)
        return ThreadSession(job, stack, connect, partial(check_answers, questions))
    if variant == "empty":
        job = Job(job.address, job.cell._replace(size=0))
    if variant == "infer":
        check = lambda answer: job.check(job.array.reshape(answer.known))  # noqa: E731
        return ThreadSession(job, stack, partial(_connect_infer, job, stack), check)
    return ThreadSession(job, stack, partial(_connect_tensor, variant, job, stack), job.check)


def _open_client(job: Job, stack: ExitStack) -> Client:
    return stack.enter_context(Client(job.address, timeout=math.inf))


def _connect_tensor(variant: str, job: Job, stack: ExitStack) -> Callable[[], Any]:
    options: dict[str, Any] = {} if variant in {"auto", "empty"} else {"transfer": variant}
    if variant == "stream":
        options["out"] = np.zeros(job.target, np.float32)
    return partial(_open_client(job, stack).static_reshape, job.array, job.target, special_zero=False, **options)


def _connect_infer(job: Job, stack: ExitStack) -> Callable[[], Any]:
    return partial(_open_client(job, stack).infer_shape, job.array.shape, job.target, special_zero=False)


def _connect_questions(variant: str, job: Job, stack: ExitStack, questions: list[ShapeQuestion]) -> Ask:
    queries = [question.query for question in questions]
    if variant == "local":
        return partial(infer_locally, queries)
    client = _open_client(job, stack)
    if variant == "batch":
        return partial(client.infer_shapes, queries)
    return lambda: [
        client.infer_shape(one.data_shape, one.shape, special_zero=one.special_zero, operation=one.operation)
        for one in queries
    ]
