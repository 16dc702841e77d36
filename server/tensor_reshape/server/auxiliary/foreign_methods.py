"""The methods of health, under all its names, of reflection and of channelz as grpcio is told of them.

All are registered as taking a stream of messages, which is the same on the wire: grpcio would let a thread wait for the
one message of a unary call before anybody here knows of it.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import grpc
from grpc_health.v1 import health_pb2

from tensor_reshape.server.auxiliary.bounded_calls import MAX_SILENT, AuxiliaryCall
from tensor_reshape.server.auxiliary.call_slots import CallSlots
from tensor_reshape.server.auxiliary.health import MAX_WATCHES, Health
from tensor_reshape.server.auxiliary.inline_calls import AnswerCall, BoundedCall, ExchangeCall, WatchCall, serve_inline
from tensor_reshape.server.auxiliary.threaded_calls import SPARE_THREADS, ThreadedMethod, ThreadedWatch
from tensor_reshape.server.calls import core_calls
from tensor_reshape.server.calls.gates import Gates
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.server.calls.router import Submit
from tensor_reshape.wire.status import Status

MAX_THREADED_WATCHES = 256
"""How many watches may be open where each holds a thread."""

HEALTH_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"]

_OPEN = Gates()

Respond: TypeAlias = "Callable[[bytes], bytes | Status]"


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    Attributes:
        name: in full, as a path.
        submit: serves a call, as `ThreadPoolExecutor.submit`.
        handler: what grpcio hands over to `submit`.
    """

    name: str
    submit: Submit
    handler: "grpc.RpcMethodHandler[bytes, bytes]"


class AuxiliaryHandlers(grpc.GenericRpcHandler):
    """What finds the methods' handlers."""

    def __init__(self, methods: Iterable[Method]) -> None:
        """Serves `methods`."""
        self._handlers = {method.name: method.handler for method in methods}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Returns how a method's calls are served."""
        return self._handlers.get(handler_call_details.method)


def build_health(resets: ResetBuckets) -> tuple[Health, list[Method]]:
    """Returns what a server says of itself, and the methods that say it; `resets` is told how their calls end."""
    health = Health(max_watches=MAX_WATCHES if core_calls.is_supported() else MAX_THREADED_WATCHES)
    responds: dict[str, Respond] = {f"/{HEALTH_SERVICE.full_name}/Check": health.check}
    if hasattr(health_pb2, "HealthListRequest"):  # not in the package's older versions
        responds[f"/{HEALTH_SERVICE.full_name}/List"] = health.list
    methods = build_checks(responds, health, resets)
    name = f"/{HEALTH_SERVICE.full_name}/Watch"
    submit = _choose_way(name, partial(WatchCall, name, health), MAX_THREADED_WATCHES + MAX_SILENT, resets, _OPEN)
    watch = Method(name, submit, grpc.stream_stream_rpc_method_handler(ThreadedWatch(name, health).watch))
    return health, [*methods, watch]


def build_checks(responds: Mapping[str, Respond], health: Health, resets: ResetBuckets) -> list[Method]:
    """Returns methods that ask for health, under whatever names: by their paths, what answers them.

    They share the slots of `health`: no more calls without a message for each name that health has. Anybody may call
    them: health is asked for by who has no credentials.
    """
    return build_answers(responds, health.silent, resets, _OPEN)


def build_answers(
    responds: Mapping[str, Respond], slots: CallSlots[AuxiliaryCall], resets: ResetBuckets, gates: Gates
) -> list[Method]:
    """Returns methods whose calls have one message, and its answer; `gates` are asked for them."""
    return [_build_answer(name, respond, slots, resets, gates) for name, respond in responds.items()]


def build_exchange(
    name: str, respond: Respond, slots: CallSlots[AuxiliaryCall], resets: ResetBuckets, gates: Gates
) -> Method:
    """Returns a method whose calls have any number of messages, each with its answer; `gates` are asked for them."""
    submit = _choose_way(name, partial(ExchangeCall, name, slots, respond), MAX_SILENT, resets, gates)
    answer_each = ThreadedMethod(name, respond, slots, gates).answer_each
    return Method(name, submit, grpc.stream_stream_rpc_method_handler(answer_each))


def _build_answer(
    name: str, respond: Respond, slots: CallSlots[AuxiliaryCall], resets: ResetBuckets, gates: Gates
) -> Method:
    submit = _choose_way(name, partial(AnswerCall, name, slots, respond), MAX_SILENT, resets, gates)
    answer_one = ThreadedMethod(name, respond, slots, gates).answer_one
    return Method(name, submit, grpc.stream_unary_rpc_method_handler(answer_one))


def _choose_way(
    name: str, open_call: Callable[[Any, Any], BoundedCall], slots: int, resets: ResetBuckets, gates: Gates
) -> Submit:
    """Returns how calls are served; where they hold threads, more of them than there are slots.

    There `resets` is told nothing: that a call is over is only seen by its thread.
    """
    if core_calls.is_supported():
        return serve_inline(open_call, resets, gates)
    return ThreadPoolExecutor(max_workers=slots + SPARE_THREADS, thread_name_prefix=name).submit
