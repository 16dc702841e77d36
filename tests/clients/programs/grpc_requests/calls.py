"""Calls with grpc_requests, which gets the protobuf definition by reflection."""

import threading
from collections.abc import Iterator
from typing import Any

import grpc
from grpc_requests import Client

from calls_of_python import Answer, Call, describe_error, print_answer, read_lines

MESSAGE_BYTES = 32 * 2**20  # the default limit for received messages is 4 MiB


def main() -> None:
    """Makes the calls on stdin."""
    lines = read_lines()
    client = Client(next(lines)["address"], channel_options=[("grpc.max_receive_message_length", MESSAGE_BYTES)])
    for call in lines:
        print_answer(make(client, call))


def make(client: Client, call: Call) -> Answer:
    """Makes a call, and returns its result."""
    is_over = threading.Event()
    asked: Any = send_slowly(call["requests"], is_over if call["holds"] else None)
    asked = asked if call["streams"] else call["requests"][0]
    try:
        given = client.request(call["service"], call["method"], asked, timeout=call["seconds"])
        return {"responses": list(given) if call["streams"] else [given]}
    except grpc.RpcError as error:
        return describe_error(error)
    finally:
        is_over.set()


def send_slowly(requests: list[Any], is_over: threading.Event | None) -> Iterator[Any]:
    """Yields the requests. With an event, the stream stays open until the call is over."""
    yield from requests
    if is_over is not None:
        is_over.wait()


main()
