"""Keeps what goes wrong in the services of others, health and reflection, from reaching a caller."""

import functools
from collections.abc import Callable
from typing import NoReturn, TypeAlias, TypeVar

import grpc

from tensor_reshape.server.refusals import choose_status
from tensor_reshape.wire.status import Status

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_Behavior = Callable[[_Request, grpc.ServicerContext], _Response]
_Handler: TypeAlias = "grpc.RpcMethodHandler[_Request, _Response]"  # a generic in its stubs alone


class RefusalInterceptor(grpc.ServerInterceptor):
    """Turns a refusal into its status, and any other exception into INTERNAL with a constant text."""

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "_Handler[_Request, _Response] | None"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "_Handler[_Request, _Response] | None":
        """Guards every unary method."""
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        return grpc.unary_unary_rpc_method_handler(
            _guard(handler.unary_unary, handler_call_details.method),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )


def end_call(context: grpc.ServicerContext, status: Status) -> NoReturn:
    """Ends a call of the stock path with `status`."""
    context.set_trailing_metadata(status.trailing_metadata)
    context.abort(status.code, status.details)


def _guard(behavior: _Behavior[_Request, _Response], method: str) -> _Behavior[_Request, _Response]:
    @functools.wraps(behavior)  # keeps the attributes that tell grpcio which threads to use
    def guarded(request: _Request, context: grpc.ServicerContext) -> _Response:
        try:
            return behavior(request, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told no more than that
            end_call(context, choose_status(error, method))

    return guarded
