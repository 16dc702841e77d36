"""Calls with messages and stubs that betterproto generates; the transport is that of grpclib.

Its JSON differs from protobuf's, because enum names lose their prefix. So the requests are converted through bytes.
"""

import betterproto
from gen.tensor_reshape import v1
from grpclib.client import Channel

from calls_of_grpclib import run
from calls_of_python import Answer, Call, Messages, send_slowly

KINDS = {
    "StaticReshape": v1.StaticReshapeRequest,
    "DynamicReshape": v1.DynamicReshapeRequest,
    "Reshape": v1.ReshapeRequest,
    "StreamReshape": v1.StreamReshapeRequest,
    "InferShape": v1.InferShapeRequest,
    "BatchInferShape": v1.BatchInferShapeRequest,
}


async def send(channel: Channel, messages: Messages, call: Call) -> list[Answer]:
    """Makes a call, and returns the responses."""
    taken, given = messages.find_types(call["service"], call["method"])
    stub = v1.ReshapeServiceStub(channel)
    kind, method = KINDS[call["method"]], getattr(stub, betterproto.casing.snake_case(call["method"]))
    requests = [kind().parse(messages.parse(taken, request).SerializeToString()) for request in call["requests"]]
    if call["streams"]:
        sent = send_slowly(requests, holds=call["holds"])
        responses = [response async for response in method(sent, timeout=call["seconds"])]
    else:
        responses = [await method(requests[0], timeout=call["seconds"])]
    return [messages.write(given.FromString(bytes(response))) for response in responses]


run(send)
