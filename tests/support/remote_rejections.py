"""Rejections as a client receives them, and requests that the SDK never sends."""

from collections.abc import Callable, Iterable
from typing import cast

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from tensor_reshape.client.connections import build_error
from tensor_reshape.rules.errors import ReshapeError, TensorReshapeError
from tensor_reshape.wire.methods import SERVICE


def send_raw(channel: grpc.Channel, method: str, request: bytes, timeout: float = 20) -> bytes:
    """Sends bytes unchanged and returns the bytes of the response."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/{method}")
    return call(request, timeout=timeout)


def catch_status(call: Callable[[], object]) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def catch_remote(call: Callable[[], object]) -> TensorReshapeError:
    """Returns the SDK's exception for the status of a call."""
    status = catch_status(call)
    return build_error(status.code(), status.details(), read_trailing(status).items())


def read_trailing(status: grpc.RpcError | grpc.Call) -> dict[str, str | bytes]:
    """Returns the trailing metadata, which are pairs although their type stubs differ."""
    pairs = cast("Iterable[tuple[str, str | bytes]]", status.trailing_metadata())
    return dict(pairs)


def read_retry_seconds(status: grpc.RpcError | grpc.Call) -> float | None:
    """Returns the retry delay of the server; None if there is none."""
    packed, info = read_trailing(status).get("grpc-status-details-bin", b""), RetryInfo()
    assert isinstance(packed, bytes)
    asked = any(detail.Unpack(info) for detail in Status.FromString(packed).details)
    return info.retry_delay.ToTimedelta().total_seconds() if asked else None


def catch_local(call: Callable[[], object]) -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        call()
    return caught.value


def describe(error: TensorReshapeError) -> tuple[type, str, str, dict[str, str]]:
    """Returns the parts of an exception that a caller may rely on."""
    assert isinstance(error, ReshapeError), error
    return type(error), error.reason, error.field, error.metadata
