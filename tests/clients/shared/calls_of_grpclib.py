"""Common code of all clients with the transport of grpclib."""

import asyncio
from collections.abc import Awaitable, Callable

# Without this import, grpclib shows each detail of an error as "Unknown".
from google.rpc import error_details_pb2
from grpclib.client import Channel
from grpclib.exceptions import GRPCError

from calls_of_python import Answer, Call, Messages, answer_calls, describe_info, read_lines

Send = Callable[[Channel, Messages, Call], Awaitable[list[Answer]]]
"""Makes a call, and returns the responses."""


def run(send: Send) -> None:
    """Makes the calls on stdin."""
    asyncio.run(_answer(send))


async def _answer(send: Send) -> None:
    lines = read_lines()
    known = next(lines)
    messages = Messages(known["descriptors"])
    host, port = known["address"].rsplit(":", 1)
    async with Channel(host, int(port)) as channel:

        async def make(call: Call) -> Answer:
            try:
                return {"responses": await send(channel, messages, call)}
            except GRPCError as error:
                return _describe(error)
            except TimeoutError:  # the exception for an exceeded deadline
                return {"code": 4, "message": "deadline exceeded"}

        await answer_calls(lines, make)


def _describe(error: GRPCError) -> Answer:
    answer = {"code": error.status.value, "message": error.message}
    for detail in error.details or ():
        if isinstance(detail, error_details_pb2.ErrorInfo):
            answer |= describe_info(detail)
    return answer
