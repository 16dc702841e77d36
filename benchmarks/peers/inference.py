"""Calls of the Open Inference Protocol over REST and over gRPC, with the elements as bytes."""

import http.client
import json
import socket
from contextlib import ExitStack
from functools import partial
from typing import Any

import grpc
import numpy as np

from benchmarks.peers.stock import OPTIONS
from benchmarks.sessions import Array, Call, Job, ThreadSession
from tensor_reshape.server.oip.messages import find_class, find_path

_LENGTH = "Inference-Header-Content-Length"


def open_session(variant: str, job: Job, stack: ExitStack) -> ThreadSession:
    """Opens a connection for each client; the variant is "rest" or "grpc"."""
    if variant == "rest":
        connect = partial(_connect_rest, job, stack)
        return ThreadSession(job, stack, connect, lambda answer: job.check(_read(job, *answer)))
    message = find_class("ModelInferRequest")(
        model_name="reshape",
        inputs=[{"name": "data", "datatype": "FP32", "shape": job.array.shape}],
        raw_input_contents=[job.array.tobytes()],
        parameters={
            "shape": {"string_param": json.dumps(list(job.target))},
            "special_zero": {"bool_param": False},
        },
    ).SerializeToString()
    channel = stack.enter_context(grpc.insecure_channel(job.address, OPTIONS))
    send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(find_path("ModelInfer"))
    return ThreadSession(job, stack, lambda: partial(send, message), lambda answer: job.check(_parse(answer)))


def _connect_rest(job: Job, stack: ExitStack) -> Call:
    size = job.array.nbytes
    data = {"name": "data", "datatype": "FP32", "shape": job.array.shape, "parameters": {"binary_data_size": size}}
    parameters = {"shape": list(job.target), "special_zero": False, "binary_data_output": True}
    head = json.dumps({"inputs": [data], "parameters": parameters}).encode()
    body, headers = head + job.array.tobytes(), {_LENGTH: str(len(head))}
    connection = http.client.HTTPConnection(job.address)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stack.callback(connection.close)

    def call() -> tuple[bytes, int]:
        connection.request("POST", "/v2/models/reshape/infer", body, headers)
        response = connection.getresponse()
        return response.read(), int(response.headers[_LENGTH])

    return call


def _read(job: Job, body: bytes, length: int) -> Array:
    (output,) = json.loads(body[:length])["outputs"]
    return np.frombuffer(body[length:], job.array.dtype).reshape(output["shape"])


def _parse(answer: bytes) -> Array:
    message: Any = find_class("ModelInferResponse").FromString(answer)
    return np.frombuffer(message.raw_output_contents[0], np.float32).reshape(message.outputs[0].shape)
