"""Calls as programs make them whose messages and stubs betterproto generates; the transport is grpclib's.

Its JSON is not protobuf's: enums lose the prefix of their names. So what is asked is read as bytes.
"""

import asyncio
from typing import Any

import betterproto
from gen.tensor_reshape import v1
from google.rpc import error_details_pb2  # without this import, grpclib says "Unknown" of each detail of an error
from grpclib.client import Channel
from grpclib.exceptions import GRPCError

from calls_of_python import Answer, Call, Messages, answer_calls, read_lines, send_slowly

KINDS = {
    "StaticReshape": v1.StaticReshapeRequest,
    "DynamicReshape": v1.DynamicReshapeRequest,
    "Reshape": v1.ReshapeRequest,
    "StreamReshape": v1.StreamReshapeRequest,
    "InferShape": v1.InferShapeRequest,
    "BatchInferShape": v1.BatchInferShapeRequest,
}


async def main() -> None:
    """Answers what is asked on stdin."""
    lines = read_lines()
    known = next(lines)
    messages = Messages(known["descriptors"])
    host, port = known["address"].rsplit(":", 1)
    async with Channel(host, int(port)) as channel:
        stub = v1.ReshapeServiceStub(channel)

        async def make(call: Call) -> Answer:
            try:
                return {"responses": await send(stub, messages, call)}
            except GRPCError as error:
                return describe(error)
            except TimeoutError:  # so it says that the deadline is over
                return {"code": 4, "message": "deadline exceeded"}

        await answer_calls(lines, make)


async def send(stub: v1.ReshapeServiceStub, messages: Messages, call: Call) -> list[Any]:
    """Makes a call, and returns the responses."""
    taken, given = messages.find_types(call["service"], call["method"])
    kind, method = KINDS[call["method"]], getattr(stub, betterproto.casing.snake_case(call["method"]))
    requests = [kind().parse(messages.parse(taken, request).SerializeToString()) for request in call["requests"]]
    if call["streams"]:
        sent = send_slowly(requests, holds=call["holds"])
        responses = [response async for response in method(sent, timeout=call["seconds"])]
    else:
        responses = [await method(requests[0], timeout=call["seconds"])]
    return [messages.write(given.FromString(bytes(response))) for response in responses]


def describe(error: GRPCError) -> Answer:
    """Returns what an error says, its details included."""
    infos = [detail for detail in error.details or () if isinstance(detail, error_details_pb2.ErrorInfo)]
    told = [{"reason": info.reason, "metadata": dict(info.metadata)} for info in infos]
    return {"code": error.status.value, "message": error.message, **(told[0] if told else {})}


asyncio.run(main())
