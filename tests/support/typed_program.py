"""A program that uses the API rightly and wrongly, for type checkers: mypy in scripts/check, pyright in `test_types`.

Invariant: both type checkers report an error in exactly the lines with `type: ignore`.
"""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from concurrent.futures import Future
from typing import assert_type

import ml_dtypes
import numpy as np
import numpy.typing as npt

import tensor_reshape.client as sdk
from tensor_reshape.client import (
    AsyncClient,
    Client,
    Condition,
    DataType,
    Dim,
    HealthStatus,
    InferredShape,
    LimitError,
    OperationName,
    Origin,
    PackedTensor,
    Progress,
    Reason,
    ReshapeError,
    ServerInfo,
    ShapeQuery,
    TensorReshapeError,
    infer_locally,
    infer_shape_locally,
)
from tensor_reshape.testing import ReshapeServer, run_server

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float32]


def reshape(client: Client, images: Floats, packed: PackedTensor, report: Progress) -> None:
    assert_type(client.static_reshape(images, [0, -1], special_zero=True), Floats)
    assert_type(client.static_reshape(images, (0, -1), special_zero=True, timeout=5, request_id="job-7"), Floats)
    assert_type(client.dynamic_reshape(images, np.array([6], np.int32), special_zero=False), Floats)
    assert_type(client.reshape(images, [6], special_zero=False, transfer="stream", progress=report), Floats)
    assert_type(client.reshape(images, [6], special_zero=False, out=images, progress=True), Floats)
    assert_type(client.reshape(np.zeros((2, 3)), [6], special_zero=False), npt.NDArray[np.float64])
    assert_type(client.reshape([[1, 2], [3, 4]], [4], special_zero=False, expected_shape=[None]), Array)
    assert_type(client.reshape(packed, [6], special_zero=False), PackedTensor)
    assert_type(client.reshape(images, [6], special_zero=False, writable=True, like=None), Floats)
    assert_type(client.reshape(np.zeros(6), images, special_zero=False, like=images), npt.NDArray[np.float64])
    assert_type(client.reshape([1, 2], [2], special_zero=False, like=images), Array)
    assert_type(client.submit(client.static_reshape, images, [6], special_zero=False), Future[Floats])
    client.reshape(packed, [6], special_zero=False, like=images)  # type: ignore[call-overload]
    client.reshape(images, [6])  # type: ignore[call-overload]
    client.reshape(images, ["6"], special_zero=False)  # type: ignore[list-item]
    client.reshape(images, [6], special_zero=False, transfer="streams")  # type: ignore[call-overload]
    client.reshape(images, [6], special_zero=False, progress="yes")  # type: ignore[call-overload]


def infer(client: Client) -> None:
    inferred = client.infer_shape(["N", (2, 8), 4, None], [0, -1], special_zero=True, explain=True)
    assert_type(inferred, InferredShape)
    assert_type(inferred[0], int | Dim | None)
    assert_type(inferred.known, tuple[int, ...])
    assert_type(inferred.origins, tuple[Origin, ...])
    assert_type(inferred.conditions, tuple[Condition, ...])
    for data_type in (DataType.F32, "f32", np.float32, np.dtype(np.float32), ml_dtypes.bfloat16):
        client.infer_shape((6,), (-1,), special_zero=False, data_type=data_type, operation="reshape")
    assert_type(infer_shape_locally(["N", 6], (-1,), special_zero=False, operation="onnx_reshape"), InferredShape)
    client.infer_shape((6,), (-1,))  # type: ignore[call-arg]
    infer_shape_locally((6,), (-1,))  # type: ignore[call-arg]
    infer_shape_locally((6,), (-1,), special_zero=False, timeout=5)  # type: ignore[call-arg]
    client.infer_shape((6,), (-1,), special_zero=False, operation="Reshape-1")  # type: ignore[arg-type]
    client.infer_shape(6, (-1,), special_zero=False)  # type: ignore[arg-type]


def ask(client: Client, queries: list[ShapeQuery], operation: OperationName) -> None:
    assert_type(client.infer_shapes(queries), list[InferredShape | ReshapeError])
    assert_type(infer_locally(query for query in queries), list[InferredShape | ReshapeError])
    assert_type(client.submit(client.infer_shape, (6,), (-1,), special_zero=False), Future[InferredShape])
    assert_type(client.check_health(), HealthStatus)
    assert_type(client.server_info(), ServerInfo)
    for name in client.server_info().operations:
        infer_shape_locally((6,), (-1,), special_zero=False, operation=name)
    ShapeQuery(data_shape=(6,), shape=(-1,), special_zero=False, operation=operation)
    ShapeQuery(data_shape=(6,), shape=(-1,))  # type: ignore[call-arg]
    ShapeQuery(data_shape=(6,), shape=(-1,), special_zero=False, operation="transpose")  # type: ignore[arg-type]
    infer_locally(queries[0])  # type: ignore[arg-type]


def handle(error: TensorReshapeError) -> None:
    assert_type(error.request_id, str | None)
    if isinstance(error, ReshapeError):
        assert_type(error.reason, Reason | str)
        assert_type(error.metadata, dict[str, str])
    if isinstance(error, LimitError):
        assert_type(error.retry_seconds, float | None)


async def wait(client: AsyncClient, packed: PackedTensor) -> None:
    assert_type(await client.reshape(np.zeros(6), [2, 3], special_zero=False), npt.NDArray[np.float64])
    assert_type(await client.reshape(packed, [6], special_zero=False), PackedTensor)
    assert_type(await client.infer_shape((6,), (-1,), special_zero=False), InferredShape)


def run() -> None:
    with run_server("--drain-seconds", "0") as server, Client(server.address) as client:
        assert_type(server, ReshapeServer)
        infer(client)
        assert_type(sdk.__version__, str)
