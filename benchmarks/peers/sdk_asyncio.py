"""The SDK of this project in an event loop."""

import math
from contextlib import ExitStack
from functools import partial

from benchmarks.sessions import AsyncCall, Job, LoopSession
from tensor_reshape.client import AsyncClient


def open_session(variant: str, job: Job, stack: ExitStack) -> LoopSession:
    """Opens one AsyncClient whose calls are tasks; there is one variant."""
    del variant
    return LoopSession(job, stack, partial(_connect, job))


async def _connect(job: Job) -> tuple[AsyncCall, AsyncCall]:
    client = AsyncClient(job.address, timeout=math.inf)
    return partial(client.static_reshape, job.array, job.target, special_zero=False), client.close
