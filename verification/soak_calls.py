"""The raw calls of the soak test: rejections, streams, cancelled calls, and the Open Inference Protocol."""

import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import grpc
import numpy as np

from inference_requests import build_question, build_typed_request, send_request
from inference_requests import build_request as build_inference
from plain_requests import build_begin, build_chunk, build_request, build_static_request
from tensor_reshape.client.connections import build_error
from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.server.oip.messages import InferMessage, find_class, find_path
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import SERVICE

KIB, MIB = 1 << 10, 1 << 20
_SECONDS, _ROOM_SECONDS = 60.0, 1.5
_SQUARE = (2, 2)  # 16 bytes
_BEGIN, _LARGE_BEGIN = build_begin(_SQUARE), build_begin((2**22,))
_UNARY: tuple[tuple[bytes, Reason], ...] = (
    (b"\xff\xff\xff", Reason.MESSAGE_MALFORMED),
    (build_request(_SQUARE, bytes(MIB)), Reason.DATA_SIZE_MISMATCH),
    (b"\x2a\xf0\xa2\x04" + bytes(70000) + build_request(_SQUARE, bytes(16)), Reason.HEADER_TOO_LARGE),
    (build_request(_SQUARE, bytes(12), strides=(1, 1)), Reason.STRIDES_OVERLAP),
    (build_request((2**24,), bytes(4), strides=(0,)), Reason.OUTPUT_TOO_LARGE),
)
_STREAMS: tuple[tuple[tuple[bytes, ...], Reason], ...] = (
    ((build_chunk(0, bytes(16)),), Reason.CHUNK_UNEXPECTED),
    ((_BEGIN, build_chunk(0, bytes(8))), Reason.DATA_SIZE_MISMATCH),
    ((build_begin((2**24, 2), strides=(1, 2**24)),), Reason.TENSOR_TOO_LARGE),
    # More messages follow the rejected one. They may arrive while the server sends the rejection.
    ((_LARGE_BEGIN, build_chunk(4, bytes(KIB)), *[build_chunk(0, bytes(MIB))] * 4), Reason.CHUNK_OUT_OF_ORDER),
    ((_LARGE_BEGIN, _BEGIN, *[build_chunk(0, bytes(MIB))] * 4), Reason.DATA_SIZE_MISMATCH),
)
_INFERENCES: tuple[tuple[dict[str, Any], Reason], ...] = (
    ({"model": "resnet"}, Reason.MODEL_UNKNOWN),
    ({"target": "[4]"}, Reason.VOLUME_MISMATCH),
    ({"datatype": "BYTES"}, Reason.DATA_TYPE_UNSUPPORTED),
    ({"payload": bytes(MIB)}, Reason.DATA_SIZE_MISMATCH),
)
_PROBES = {"ServerReady": {}, "ModelReady": {"name": "reshape"}, "ModelStatistics": {}}
_ELEMENTS = np.random.default_rng(21).integers(0, 256, 4 * MIB, np.uint8).tobytes()


class RawCalls:
    """Makes raw calls on a channel."""

    def __init__(self, channel: grpc.Channel, random: Random) -> None:
        """Takes all decisions from `random`."""
        self._channel, self._random = channel, random
        self._unary: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(f"/{SERVICE}/StaticReshape")
        self._stream: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/StreamReshape")
        self._kinds: dict[Callable[[], str], int] = {
            self._reject_unary: 4,
            self._reject_stream: 3,
            self._cancel: 2,
            self._collect: 1,
            self._infer: 10,
            self._infer_unpacked: 8,
            self._infer_stream: 3,
            self._reject_inference: 4,
            self._probe: 2,
        }

    def run(self) -> str:
        """Makes one call, and returns the name of its kind."""
        return self._random.choices(list(self._kinds), list(self._kinds.values()))[0]()

    def _reject_unary(self) -> str:
        request, reason = self._random.choice(_UNARY)
        _check_rejected(lambda: self._unary(iter((request,)), timeout=_SECONDS), reason)
        return "rejected, by hand"

    def _reject_stream(self) -> str:
        messages, reason = self._random.choice(_STREAMS)
        _check_rejected(lambda: list(self._stream(iter(messages), timeout=_SECONDS)), reason)
        return "rejected stream, by hand"

    def _cancel(self) -> str:
        """Cancels a call at any time: before it begins, or while it is sent, processed or received."""
        request = build_static_request(self._random.choice((0, KIB, 64 * KIB, MIB, 8 * MIB)))
        call = self._unary.future(iter((request,)), timeout=_SECONDS)
        time.sleep(self._random.choice((0, 0, 0.0005, 0.002, 0.01)))
        call.cancel()
        return "cancelled, by hand"

    def _collect(self) -> str:
        """Streams data with strides, which the server puts in order after all of it has arrived."""
        rows, columns = self._random.randint(1, 512), self._random.randint(1, 512)
        numbers = np.arange(rows * columns, dtype="<f4")
        raw, size = numbers.tobytes(), self._random.choice((4 * KIB, 64 * KIB, MIB))
        messages = [build_chunk(begin, raw[begin : begin + size]) for begin in range(0, len(raw), size)]
        begin = build_begin((rows, columns), strides=(1, rows))
        answers = map(
            reshape_pb2.StreamReshapeResponse.FromString, self._stream(iter((begin, *messages)), timeout=_SECONDS)
        )
        received = b"".join(answer.chunk for answer in answers)
        assert received == numbers.reshape(columns, rows).T.tobytes(), f"{rows} by {columns}: the wrong order"
        return "strided stream, by hand"

    def _make_inference(self) -> tuple[InferMessage, InferMessage]:
        """Returns a request with raw elements, and the expected response."""
        size, rows = self._random.choice((0, KIB, KIB, 64 * KIB, MIB)), self._random.randint(1, 64)
        begin = 4 * self._random.randrange(MIB // 4)
        payload = _ELEMENTS[begin : begin + size // (4 * rows) * 4 * rows]
        columns, name = len(payload) // 4 // rows, str(self._random.getrandbits(32))
        request = build_inference("reshape", (rows, columns), payload, target=f"[{columns},{rows}]", id=name)
        output = {"name": "output", "datatype": "FP32", "shape": (columns, rows)}
        fields = {"model_name": "reshape", "model_version": "1", "id": name, "outputs": [output]}
        return request, find_class("ModelInferResponse")(**fields, raw_output_contents=[payload])

    def _infer(self) -> str:
        request, want = self._make_inference()
        assert self._send(request) == want, want.id
        return "inference"

    def _infer_unpacked(self) -> str:
        """Sends elements as numbers, or a shape query; the server parses long requests on a thread."""
        if self._random.random() < 0.5:
            numbers = [self._random.randint(-(2**31), 2**31 - 1) for _ in range(self._random.randint(1, 4096))]
            (output,) = self._send(build_typed_request(numbers, datatype="INT32", target="[1,-1]")).outputs
            assert list(output.contents.int_contents) == numbers
            return "inference, numbers"
        text = "x" * self._random.choice((0, 8 * KIB))
        response = self._send(build_question([-1, 2, 3], "[0,-1]", special_zero=True, id=text))
        assert np.frombuffer(response.raw_output_contents[0], "<i8").tolist() == [-1, 6]
        return "inference, infer_shape"

    def _infer_stream(self) -> str:
        """Sends several requests on one stream. A rejected request does not affect the others."""
        drawn = [self._make_inference() for _ in range(self._random.randint(1, 6))]
        rejected = build_inference("resnet", id="rejected").SerializeToString()
        messages = [raw for request, _ in drawn for raw in (request.SerializeToString(), rejected)]
        stub: grpc.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(find_path("ModelStreamInfer"))
        parse = find_class("ModelStreamInferResponse").FromString
        answers: list[Any] = [parse(raw) for raw in stub(iter(messages), timeout=_SECONDS)]
        assert [answer.infer_response for answer in answers[::2]] == [want for _, want in drawn]
        assert all(answer.error_message for answer in answers[1::2])
        return "inference, stream"

    def _reject_inference(self) -> str:
        fields, reason = self._random.choice(_INFERENCES)
        _check_rejected(lambda: self._send(build_inference(**fields)), reason)
        return "inference, rejected"

    def _probe(self) -> str:
        name = self._random.choice(list(_PROBES))
        self._call(name, **_PROBES[name])
        return "inference, probe"

    def _send(self, request: InferMessage) -> InferMessage:
        return send_request(self._channel, "ModelInfer", request, _SECONDS)

    def _call(self, method: str, /, **fields: object) -> InferMessage:
        return send_request(self._channel, method, find_class(f"{method}Request")(**fields), _SECONDS)


def count_free_streams(channel: grpc.Channel) -> int:
    """Returns the number of streams for which the server has memory at once, each of the maximum size."""
    return max(_count_free_streams_once(channel) for _ in range(3))


def _count_free_streams_once(channel: grpc.Channel) -> int:
    """Opens streams until the server rejects one or lets it wait; all end before it would abort one for another."""
    ended, calls = threading.Event(), list[grpc.Call]()
    end = time.monotonic() + _ROOM_SECONDS
    stream: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/StreamReshape")

    def begin() -> Iterator[bytes]:
        yield build_begin((2**11, 2**11), strides=(1, 2**11))
        ended.wait()

    try:
        while True:
            call = stream(begin(), timeout=max(end - time.monotonic(), 0.001))
            next(call)
            calls.append(call)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            _check_reason(error, Reason.SERVER_BUSY)
    finally:
        ended.set()
        for one in calls:
            one.cancel()
    return len(calls)


def _check_rejected(call: Callable[[], object], reason: Reason) -> None:
    """Makes a call, which must be rejected for this reason."""
    try:
        call()
    except grpc.RpcError as error:
        _check_reason(error, reason)
    else:
        message = f"{reason}: the call succeeded"
        raise AssertionError(message)


def _check_reason(error: grpc.RpcError, reason: Reason) -> None:
    metadata = error.trailing_metadata() or ()
    rejection = build_error(error.code(), error.details(), metadata)  # type: ignore[arg-type] # also accepts pairs
    found = rejection.reason if isinstance(rejection, ReshapeError) else None
    assert found == reason, f"{rejection!r}; wanted {reason}"
