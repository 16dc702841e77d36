"""`tensor_reshape.v1.ReshapeService`: each method is decode, rule, backend, encode.

Refusals leave as exceptions; `interceptors` makes a status of them.
"""

from collections.abc import Callable
from functools import partial

import grpc

from tensor_reshape.core.limits import Limits
from tensor_reshape.core.operations import Operation
from tensor_reshape.core.shapes import infer_shape
from tensor_reshape.server.backend import reshape
from tensor_reshape.wire import codec
from tensor_reshape.wire.tensors import TensorView

Backend = Callable[[TensorView, tuple[int, ...], Limits], TensorView]


class ReshapeService:
    """The methods of the contract over serialized messages."""

    def __init__(self, limits: Limits, *, backend: Backend = reshape) -> None:
        """Serves within `limits`."""
        self._limits = limits
        self._backend = backend

    def execute(self, operation: Operation, request: bytes) -> bytes:
        """Executes one operation: StaticReshape, DynamicReshape, Reshape."""
        call = codec.decode_reshape_request(operation, request, self._limits)
        dims = infer_shape(call.question, self._limits)
        output = self._backend(call.data, dims, self._limits)
        return codec.encode_reshape_response(output)

    def infer(self, request: bytes) -> bytes:
        """Answers InferShape."""
        question = codec.decode_infer_request(request)
        return codec.encode_infer_response(infer_shape(question, self._limits))

    def register(self, server: grpc.Server) -> None:
        """Adds the methods to `server`, without serializers: requests and responses are bytes."""
        methods: dict[str, Callable[[bytes], bytes]] = {
            name: partial(self.execute, operation) for operation, name in codec.METHODS.items()
        }
        methods[codec.INFER_SHAPE] = self.infer
        handlers = {name: _build_handler(method) for name, method in methods.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(codec.SERVICE, handlers),))


def _build_handler(method: Callable[[bytes], bytes]) -> "grpc.RpcMethodHandler[bytes, bytes]":
    def behavior(request: bytes, context: grpc.ServicerContext) -> bytes:
        del context
        return method(request)

    return grpc.unary_unary_rpc_method_handler(behavior)
