"""Common code of all Python clients.

The first line on stdin is JSON with the server's address, and each further line is a call. Each result is printed as
one line.
"""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

Answer = dict[str, Any]
Call = dict[str, Any]

_DETAILS_KEY = "grpc-status-details-bin"


def read_lines() -> Iterator[Any]:
    """Yields the description of the server, then each call."""
    return map(json.loads, sys.stdin)


def print_answer(answer: Answer) -> None:
    print(json.dumps(answer), flush=True)


async def answer_calls(calls: Iterator[Call], make: Callable[[Call], Awaitable[Answer]]) -> None:
    """Makes the calls one after another."""
    for call in calls:
        print_answer(await make(call))


async def send_slowly(messages: list[Any], *, holds: bool) -> AsyncIterator[Any]:
    """Yields the messages. If the caller keeps its half of the stream open, the iterator does not end."""
    for message in messages:
        yield message
    if holds:
        await asyncio.Event().wait()


def describe_error(error: Any) -> Answer:  # noqa: ANN401 - grpc's errors are also calls
    """Returns the outcome of a failed grpcio call, including the details of its status."""
    answer = {"code": error.code().value[0], "message": error.details()}
    details = [value for key, value in error.trailing_metadata() or () if key == _DETAILS_KEY]
    for packed in Status.FromString(details[0]).details if details else ():
        info = ErrorInfo()
        if packed.Unpack(info):
            answer |= describe_info(info)
    return answer


def describe_info(info: ErrorInfo) -> Answer:
    """Returns the contents of a status detail."""
    return {"reason": info.reason, "metadata": dict(info.metadata)}


class Messages:
    """Converts the messages of descriptors to JSON and back."""

    def __init__(self, descriptors: str) -> None:
        """Parses a FileDescriptorSet in base64."""
        self._pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(base64.b64decode(descriptors)).file:
            self._pool.Add(file)

    def find_types(self, service: str, method: str) -> tuple[type[Message], type[Message]]:
        """Returns the request and response types of a method."""
        found = self._pool.FindServiceByName(service).methods_by_name[method]
        return message_factory.GetMessageClass(found.input_type), message_factory.GetMessageClass(found.output_type)

    def parse(self, kind: type[Message], value: dict[str, Any]) -> Message:
        return ParseDict(value, kind(), descriptor_pool=self._pool)

    def write(self, message: Message) -> dict[str, Any]:
        return MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=self._pool)
