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
from tensor_reshape.client import Client, infer_locally


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens one client, which all threads share.

    With a tensor a variant is a way of `transfer`, "stream" into an array of the caller's; "empty" sends an empty
    tensor, whatever the cell's size: what a call costs that moves nothing; "stock" is `calls="stock"`. With questions
    it is "batch" (one call for all), "alone" (a call for each), or "local" (no call). On an empty shape "infer" asks
    what "auto" executes.
    """
    if variant == "local":
        questions = make_questions(job.cell.load, job.cell.size)
        queries = [question.query for question in questions]
        return ThreadSession(job, stack, lambda: partial(infer_locally, queries), partial(check_answers, questions))
    # Named only where it is asked for: an older checkout, which this one is measured beside, may not know it.
    calls: dict[str, Any] = {"calls": "stock"} if variant == "stock" else {}
    client = stack.enter_context(Client(job.address, timeout=math.inf, **calls))
    if job.cell.load != TENSOR:
        questions = make_questions(job.cell.load, job.cell.size)
        ask = _prepare_questions(variant, client, questions)
        return ThreadSession(job, stack, lambda: ask, partial(check_answers, questions))
    if variant == "empty":
        job = Job(job.address, job.cell._replace(size=0))
    if variant == "infer":
        call = partial(client.infer_shape, job.array.shape, job.target, special_zero=False)
        check = lambda answer: job.check(job.array.reshape(answer.known))  # noqa: E731
        return ThreadSession(job, stack, lambda: call, check)
    return ThreadSession(job, stack, partial(_prepare_tensor, variant, client, job), job.check)


def _prepare_tensor(variant: str, client: Client, job: Job) -> Callable[[], Any]:
    options: dict[str, Any] = {} if variant in {"auto", "empty", "stock"} else {"transfer": variant}
    if variant == "stream":
        options["out"] = np.zeros(job.target, np.float32)  # each thread has its own
    return partial(client.static_reshape, job.array, job.target, special_zero=False, **options)


def _prepare_questions(variant: str, client: Client, questions: list[ShapeQuestion]) -> Callable[[], list[Any]]:
    queries = [question.query for question in questions]
    if variant == "batch":
        return partial(client.infer_shapes, queries)
    return lambda: [
        client.infer_shape(one.data_shape, one.shape, special_zero=one.special_zero, operation=one.operation)
        for one in queries
    ]
