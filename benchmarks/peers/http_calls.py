"""Prepared calls over HTTP, with the client of the standard library."""

import http.client
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from email.message import Message
from functools import partial
from typing import NamedTuple

import numpy as np
from google.protobuf import json_format

from benchmarks.peers.channels import SERVICE
from benchmarks.peers.stock import decode, encode
from benchmarks.sessions import Array, Call, Job, ThreadSession
from tensor_reshape.v1 import reshape_pb2

_LENGTH = "Inference-Header-Content-Length"
_PATH = f"{SERVICE}/StaticReshape"


class _Prepared(NamedTuple):
    """A request, and the function that reads the array of a response."""

    path: str
    headers: dict[str, str]
    body: bytes
    read: Callable[[bytes, Message], Array]


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens a connection for each client. The variant is "inference", "proto", "json" or "echo"."""
    prepared = _VARIANTS[variant](job)
    return ThreadSession(
        job, stack, partial(_connect, prepared, job, stack), lambda answer: job.check(prepared.read(*answer))
    )


def _connect(prepared: _Prepared, job: Job, stack: ExitStack) -> Call:
    connection = http.client.HTTPConnection(job.address)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stack.callback(connection.close)

    def call() -> tuple[bytes, Message]:
        connection.request("POST", prepared.path, prepared.body, prepared.headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != http.HTTPStatus.OK:
            message = f"{response.status}: {content[:100]!r}"
            raise ValueError(message)
        return content, response.headers

    return call


def _prepare_inference(job: Job) -> _Prepared:
    """Returns a request of the Open Inference Protocol over REST, with the elements as bytes."""
    size = {"binary_data_size": job.array.nbytes}
    data = {"name": "data", "datatype": "FP32", "shape": job.array.shape, "parameters": size}
    parameters = {"shape": list(job.target), "special_zero": False, "binary_data_output": True}
    head = json.dumps({"inputs": [data], "parameters": parameters}).encode()

    def read(content: bytes, headers: Message) -> Array:
        length = int(headers[_LENGTH])
        (output,) = json.loads(content[:length])["outputs"]
        return np.frombuffer(content[length:], np.float32).reshape(output["shape"])

    return _Prepared("/v2/models/reshape/infer", {_LENGTH: f"{len(head)}"}, head + job.array.tobytes(), read)


def _prepare_proto(job: Job) -> _Prepared:
    """Returns a message of the API."""
    return _Prepared(
        _PATH,
        {"content-type": "application/proto"},
        encode(job).SerializeToString(),
        lambda content, _: decode(reshape_pb2.StaticReshapeResponse.FromString(content)),
    )


def _prepare_json(job: Job) -> _Prepared:
    """Returns a message of the API as JSON, with the elements in base64."""
    return _Prepared(
        _PATH,
        {"content-type": "application/json"},
        json_format.MessageToJson(encode(job), indent=None).encode(),
        lambda content, _: decode(json_format.Parse(content, reshape_pb2.StaticReshapeResponse())),
    )


def _prepare_echo(job: Job) -> _Prepared:
    """Returns a request whose response is its body."""
    return _Prepared(
        "/", {}, job.array.tobytes(), lambda content, _: np.frombuffer(content, np.float32).reshape(job.target)
    )


_VARIANTS = {"inference": _prepare_inference, "proto": _prepare_proto, "json": _prepare_json, "echo": _prepare_echo}
