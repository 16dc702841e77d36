"""The methods of health, under all its names, of reflection and of channelz, as data: what serves calls serves them.

Their calls take no part in the engine's budget, and what a caller can hold of them is bounded by slots: see
`bounded_calls`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from grpc_health.v1 import health_pb2

from tensor_reshape.server.builtin.bounded_calls import BoundedCall
from tensor_reshape.server.builtin.call_slots import CallSlots
from tensor_reshape.server.builtin.health import Health
from tensor_reshape.server.engine.gates import Gates
from tensor_reshape.wire.status import Status

HEALTH_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"]

_OPEN = Gates()

Respond: TypeAlias = "Callable[[bytes], bytes | Status]"
"""Answers a message."""


class Shape(Enum):
    """What the calls of a method look like."""

    ANSWER = auto()
    """One message, and its answer."""
    EXCHANGE = auto()
    """Any number of messages, each answered before the next one is received."""
    WATCH = auto()
    """One message, and news for as long as the caller listens."""


@dataclass(frozen=True, slots=True)
class BuiltinMethod:
    """One method.

    Attributes:
        name: in full, as a path.
        shape: of its calls.
        respond: answers a message; of a watch nothing, since `health` does.
        slots: for calls without their message.
        gates: are asked for its calls.
        health: what a watch tells of.
    """

    name: str
    shape: Shape
    respond: Respond
    slots: CallSlots[BoundedCall]
    gates: Gates = _OPEN
    health: Health | None = None


def build_health() -> tuple[Health, list[BuiltinMethod]]:
    """Returns what a server says of itself, and the methods that say it."""
    health = Health()
    responds: dict[str, Respond] = {f"/{HEALTH_SERVICE.full_name}/Check": health.check}
    if hasattr(health_pb2, "HealthListRequest"):  # not in the package's older versions
        responds[f"/{HEALTH_SERVICE.full_name}/List"] = health.list
    name = f"/{HEALTH_SERVICE.full_name}/Watch"
    watch = BuiltinMethod(name, Shape.WATCH, health.check, health.silent, health=health)
    return health, [*build_checks(responds, health), watch]


def build_checks(responds: Mapping[str, Respond], health: Health) -> list[BuiltinMethod]:
    """Returns methods that ask for health, under whatever names: by their paths, what answers them.

    They share the slots of `health`, so another name for health does not admit more calls without a message. They have
    no gates, because probes have no credentials.
    """
    return [BuiltinMethod(name, Shape.ANSWER, respond, health.silent) for name, respond in responds.items()]
