"""The SDK of tensor-reshape.

`Client` makes blocking calls, and `AsyncClient` is for asyncio. Both clients have the same methods. All exceptions
derive from `TensorReshapeError`. `InvalidRequestError` and `LimitError` mean that this process or the server rejected
the request. The client and the server reject a request with the same reason. `UnauthenticatedError` and
`PermissionDeniedError` mean that the server does not allow the call. A `ServiceError` means that the call failed for a
reason other than a rule or a limit.

You need only the standard library to import this package and to infer shapes locally. The first use of another name of
the package, such as `Client`, imports gRPC and numpy.
"""

from typing import TYPE_CHECKING

from tensor_reshape.client.arguments import DataTypeLike
from tensor_reshape.client.errors import (
    CallTimeoutError,
    InternalServerError,
    ResponseError,
    ServiceError,
    UnavailableError,
)
from tensor_reshape.client.experiments import use_fast_polling
from tensor_reshape.client.queries import DimLike, ShapeOptions, ShapeQuery, infer_locally, infer_shape_locally
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.rules.conditions import Condition, ConditionKind
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
from tensor_reshape.rules.operations import OperationName
from tensor_reshape.rules.questions import DimGroup, Kind, Origin
from tensor_reshape.runtime.lazy_imports import build_getters

if TYPE_CHECKING:
    from tensor_reshape.client.aio import AsyncClient
    from tensor_reshape.client.arrays import PackedTensor
    from tensor_reshape.client.output_memory import keep_output_memory
    from tensor_reshape.client.progress import Progress
    from tensor_reshape.client.sync import Client
    from tensor_reshape.client.transfers import Transfer
    from tensor_reshape.wire.servers import Feature, HealthStatus, OperationInfo, ServerInfo, ServerLimits

    __version__: str

__all__ = [
    "AsyncClient",
    "CallTimeoutError",
    "Client",
    "Condition",
    "ConditionKind",
    "DataType",
    "DataTypeLike",
    "Dim",
    "DimGroup",
    "DimLike",
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
    "OperationName",
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
    "infer_locally",
    "infer_shape_locally",
    "keep_output_memory",
    "use_fast_polling",
]

_LATER = {
    "__version__": "tensor_reshape.client.version",
    "AsyncClient": "tensor_reshape.client.aio",
    "Client": "tensor_reshape.client.sync",
    "PackedTensor": "tensor_reshape.client.arrays",
    "keep_output_memory": "tensor_reshape.client.output_memory",
    "Progress": "tensor_reshape.client.progress",
    "Transfer": "tensor_reshape.client.transfers",
    **dict.fromkeys(
        ("Feature", "HealthStatus", "OperationInfo", "ServerInfo", "ServerLimits"), "tensor_reshape.wire.servers"
    ),
}

if not TYPE_CHECKING:  # type checkers do not see this function, because they would otherwise accept every name
    __getattr__, __dir__ = build_getters(__name__, _LATER)
