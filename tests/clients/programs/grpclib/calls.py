"""Calls with grpclib, which has its own implementation of HTTP/2."""

import asyncio
from typing import Any

from grpclib.client import Channel, StreamStreamMethod, UnaryUnaryMethod

from calls_of_grpclib import run
from calls_of_python import Answer, Call, Messages, send_slowly


async def send(channel: Channel, messages: Messages, call: Call) -> list[Answer]:
    """Makes a call, and returns the responses."""
    return [messages.write(response) for response in await exchange(channel, messages, call)]


async def exchange(channel: Channel, messages: Messages, call: Call) -> list[Any]:
    """Sends messages, and returns the responses."""
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


run(send)
