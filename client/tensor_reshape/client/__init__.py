"""The SDK: one channel, numpy arrays in and out.

`Client` blocks, `AsyncClient` awaits; they share every name. Exceptions have one root, `TensorReshapeError`:
`InvalidRequestError` and `LimitError` are refusals, with the same reason whether this process or the server found them;
`UnauthenticatedError` and `PermissionDeniedError` are a server's that does not let this caller make the call;
`ServiceError` and its kinds mean that there was no answer.
"""

from tensor_reshape.client.experiments import load_grpc

load_grpc()  # whatever is imported next imports grpc, which reads the environment then

# isort: split
from tensor_reshape.client.aio import AsyncClient
from tensor_reshape.client.errors import (
    CallTimeoutError,
    InternalServerError,
    ResponseError,
    ServiceError,
    UnavailableError,
)
from tensor_reshape.client.packed_tensors import PackedTensor
from tensor_reshape.client.queries import DimLike, ShapeOptions, ShapeQuery, infer_locally
from tensor_reshape.client.responses import InferredShape
from tensor_reshape.client.sync import Client
from tensor_reshape.client.transfers import Progress, Transfer
from tensor_reshape.rules.dims import Dim, Expression, Interval, Symbol
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import (
    InvalidRequestError,
    LimitError,
    PermissionDeniedError,
    Reason,
    ReshapeError,
    TensorReshapeError,
    UnauthenticatedError,
)
from tensor_reshape.rules.questions import Equality, Kind, Origin
from tensor_reshape.rules.views import View, ViewPossibility
from tensor_reshape.runtime.allocators import keep_freed_memory
from tensor_reshape.wire.health import HealthStatus
from tensor_reshape.wire.servers import Feature, OperationInfo, ServerInfo, ServerLimits

__all__ = [
    "AsyncClient",
    "CallTimeoutError",
    "Client",
    "DataType",
    "Dim",
    "DimLike",
    "Equality",
    "Expression",
    "Feature",
    "HealthStatus",
    "InferredShape",
    "InternalServerError",
    "Interval",
    "InvalidRequestError",
    "Kind",
    "LimitError",
    "OperationInfo",
    "Origin",
    "PackedTensor",
    "PermissionDeniedError",
    "Progress",
    "Reason",
    "ReshapeError",
    "ResponseError",
    "ServerInfo",
    "ServerLimits",
    "ServiceError",
    "ShapeOptions",
    "ShapeQuery",
    "Symbol",
    "TensorReshapeError",
    "Transfer",
    "UnauthenticatedError",
    "UnavailableError",
    "View",
    "ViewPossibility",
    "infer_locally",
    "keep_freed_memory",
]
