"""Calls as programs make them that use grpclib, which has an HTTP/2 of its own."""

import asyncio
from typing import Any

# Without this import, grpclib says "Unknown" of each detail of an error.
from google.rpc import error_details_pb2
from grpclib.client import Channel, StreamStreamMethod, UnaryUnaryMethod
from grpclib.exceptions import GRPCError

from calls_of_python import Answer, Call, Messages, answer_calls, read_lines, send_slowly


async def main() -> None:
    """Answers what is asked on stdin."""
    lines = read_lines()
    known = next(lines)
    messages = Messages(known["descriptors"])
    host, port = known["address"].rsplit(":", 1)
    async with Channel(host, int(port)) as channel:

        async def make(call: Call) -> Answer:
            try:
                return {"responses": [messages.write(response) for response in await send(channel, messages, call)]}
            except GRPCError as error:
                return describe(error)
            except TimeoutError:  # so it says that the deadline is over
                return {"code": 4, "message": "deadline exceeded"}

        await answer_calls(lines, make)


async def send(channel: Channel, messages: Messages, call: Call) -> list[Any]:
    """Makes a call, and returns the responses."""
    taken, given = messages.find_types(call["service"], call["method"])
    requests = [messages.parse(taken, request) for request in call["requests"]]
    path = f"/{call['service']}/{call['method']}"
    if not call["streams"]:
        return [await UnaryUnaryMethod(channel, path, taken, given)(requests[0], timeout=call["seconds"])]
    async with StreamStreamMethod(channel, path, taken, given).open(timeout=call["seconds"]) as stream:
        await stream.send_request()

        async def send_all() -> None:
            async for request in send_slowly(requests, holds=call["holds"]):
                await stream.send_message(request)
            await stream.end()

        sender = asyncio.create_task(send_all())
        try:
            return [response async for response in stream]
        finally:
            sender.cancel()


def describe(error: GRPCError) -> Answer:
    """Returns what an error says, its details included."""
    infos = [detail for detail in error.details or () if isinstance(detail, error_details_pb2.ErrorInfo)]
    told = [{"reason": info.reason, "metadata": dict(info.metadata)} for info in infos]
    return {"code": error.status.value, "message": error.message, **(told[0] if told else {})}


asyncio.run(main())
