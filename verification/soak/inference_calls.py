"""The calls of a soak on the Open Inference Protocol: elements in each form, questions, refusals, streams, probes."""

from pathlib import Path
from random import Random
from typing import Any

import grpc
import numpy as np

from inference_requests import build_question, build_request, build_typed_request, send_request
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.oip.messages import InferMessage, find_class, find_path
from verification.soak.raw_calls import check_refused
from verification.soak.steps import KIB, MIB, WrongAnswerError

_TIMEOUT_SECONDS = 60.0
_ELEMENTS = np.random.default_rng(21).integers(0, 256, 4 * MIB, np.uint8).tobytes()
_SIZES = {"no elements": 0, "1 KiB": KIB, "64 KiB": 64 * KIB, "1 MiB": MIB}
_WEIGHTS = (2, 6, 3, 1)
_MODELS = ("static_reshape", "dynamic_reshape", "reshape")
_MAX_TYPED = 4096
_REFUSED: tuple[tuple[dict[str, Any], Reason], ...] = (
    ({"model": "resnet"}, Reason.MODEL_UNKNOWN),
    ({"target": "[4]"}, Reason.VOLUME_MISMATCH),
    ({"target": None}, Reason.FIELD_MISSING),
    ({"payload": bytes(23)}, Reason.DATA_SIZE_MISMATCH),
    ({"datatype": "BYTES"}, Reason.DATA_TYPE_UNSUPPORTED),
    ({"special_zero": None}, Reason.SPECIAL_ZERO_MISSING),
    ({"payload": bytes(MIB)}, Reason.DATA_SIZE_MISMATCH),
)
_PROBES: dict[str, dict[str, str]] = {
    "ServerLive": {},
    "ServerReady": {},
    "ModelReady": {"name": "reshape"},
    "ServerMetadata": {},
    "ModelMetadata": {"name": "reshape"},
    "ModelStatistics": {},
}


class InferenceCalls:
    """Makes the calls on a channel; see `RawCalls`."""

    def __init__(self, channel: grpc.Channel, random: Random, directory: Path) -> None:
        """Makes those that `random` decides; `directory` is that of the server's shared memory."""
        self._channel = channel
        self._random = random
        self._directory = directory
        self._kinds = {
            self._move: 10,
            self._number: 4,
            self._ask: 4,
            self._refuse: 4,
            self._stream: 3,
            self._share: 2,
            self._probe: 2,
            self._cancel: 1,
        }

    def run(self) -> str:
        """Makes one, and returns the name of its kind."""
        return self._random.choices(list(self._kinds), list(self._kinds.values()))[0]()

    def _move(self) -> str:
        name, request, want = self._draw()
        _check(self._infer(request), want)
        return f"inference, {name}"

    def _draw(self) -> tuple[str, InferMessage, InferMessage]:
        """Returns a request whose elements are raw, what it is called, and what answers it."""
        (name, size), rows = self._random.choices(list(_SIZES.items()), _WEIGHTS)[0], self._random.randint(1, 64)
        begin = 4 * self._random.randrange(MIB // 4)
        payload = _ELEMENTS[begin : begin + size // (4 * rows) * 4 * rows]
        columns = len(payload) // 4 // rows
        request_id = str(self._random.getrandbits(32))
        model = self._random.choice(_MODELS)
        request = build_request(model, (rows, columns), payload, target=f"[{columns},{rows}]", id=request_id)
        want = find_class("ModelInferResponse")(
            model_name=model,
            model_version="1",
            id=request_id,
            outputs=[{"name": "output", "datatype": "FP32", "shape": (columns, rows)}],
            raw_output_contents=[payload],
        )
        return name, request, want

    def _number(self) -> str:
        """Sends elements as numbers."""
        numbers = [self._random.randint(-(2**31), 2**31 - 1) for _ in range(self._random.randint(1, _MAX_TYPED))]
        response = self._infer(build_typed_request(numbers, datatype="INT32", target="[1,-1]"))
        (output,) = response.outputs
        if list(output.contents.int_contents) != numbers or list(output.shape) != [1, len(numbers)]:
            message = "numbers came back as others"
            raise WrongAnswerError(message)
        return "inference, numbers"

    def _ask(self) -> str:
        """Asks for a shape without data; long ones are read on a thread."""
        dims = [self._random.choice((-1, self._random.randint(1, 9))) for _ in range(3)]
        request_id = "x" * self._random.choice((0, 0, 8 * KIB))
        response = self._infer(build_question(dims, "[0,-1]", special_zero=True, id=request_id))
        want = [dims[0], -1 if -1 in dims[1:] else dims[1] * dims[2]]
        if np.frombuffer(response.raw_output_contents[0], "<i8").tolist() != want:
            message = f"infer_shape answered {response} to {dims}"
            raise WrongAnswerError(message)
        return "inference, infer_shape"

    def _refuse(self) -> str:
        fields, reason = self._random.choice(_REFUSED)
        check_refused(lambda: self._infer(build_request(**fields)), reason)
        return "inference, refused"

    def _stream(self) -> str:
        """Sends several requests on one stream; those that are refused leave the others alone."""
        drawn = [self._draw() for _ in range(self._random.randint(1, 6))]
        refused = build_request("resnet", id="refused").SerializeToString()
        messages = [raw for _, request, _ in drawn for raw in (request.SerializeToString(), refused)]
        stub: grpc.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(find_path("ModelStreamInfer"))
        answers = [_parse_streamed(raw) for raw in stub(iter(messages), timeout=_TIMEOUT_SECONDS)]
        for answer, (_, _, want) in zip(answers[::2], drawn, strict=True):
            _check(answer.infer_response, want)
        if [answer.infer_response.id for answer in answers[1::2] if answer.error_message] != ["refused"] * len(drawn):
            message = "a stream answered what it must refuse"
            raise WrongAnswerError(message)
        return "inference, stream"

    def _share(self) -> str:
        """Has elements read from one part of a file, and written to another."""
        size, name = 4 * self._random.choice((1, KIB, 256 * KIB)), f"soak-{self._random.getrandbits(64)}"
        file, payload = self._directory / name, _ELEMENTS[: 4 * size][::4]
        file.write_bytes(payload + bytes(size))
        try:
            self._call("SystemSharedMemoryRegister", name=name, key=name, byte_size=2 * size)
            request = build_request(
                raw_input_contents=[],
                target="[-1,1]",
                inputs=[{"name": "data", "datatype": "FP32", "shape": [size // 4], "parameters": _place(name, size)}],
                outputs=[{"name": "output", "parameters": _place(name, size, size)}],
            )
            self._infer(request)
            self._call("SystemSharedMemoryUnregister", name=name)
            if file.read_bytes() != payload + payload:
                message = "a region of shared memory has other bytes"
                raise WrongAnswerError(message)
        finally:
            file.unlink()
        return "inference, shared memory"

    def _probe(self) -> str:
        name = self._random.choice(list(_PROBES))
        self._call(name, **_PROBES[name])
        return "inference, probe"

    def _cancel(self) -> str:
        _, request, _ = self._draw()
        stub: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(find_path("ModelInfer"))
        stub.future(request.SerializeToString(), timeout=_TIMEOUT_SECONDS).cancel()
        return "inference, cancelled"

    def _infer(self, request: InferMessage) -> InferMessage:
        return send_request(self._channel, "ModelInfer", request, _TIMEOUT_SECONDS)

    def _call(self, method: str, /, **fields: object) -> InferMessage:
        return send_request(self._channel, method, find_class(f"{method}Request")(**fields), _TIMEOUT_SECONDS)


def _place(name: str, size: int, offset: int = 0) -> dict[str, InferMessage]:
    parameter = find_class("InferParameter")
    return {
        "shared_memory_region": parameter(string_param=name),
        "shared_memory_byte_size": parameter(int64_param=size),
        "shared_memory_offset": parameter(int64_param=offset),
    }


def _parse_streamed(raw: bytes) -> InferMessage:
    return find_class("ModelStreamInferResponse").FromString(raw)


def _check(have: InferMessage, want: InferMessage) -> None:
    if have != want:
        message = f"ModelInfer answered {have!s:.300}; wanted {want!s:.300}"
        raise WrongAnswerError(message)
