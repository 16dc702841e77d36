"""How health, reflection and channelz are served: as any other method, by an engine of their own.

So they are answered also while the service is full, and the same rules bound what callers hold of them. Such an engine
has room for `MAX_SILENT` messages of the largest size, and a number of places. No observer sees its calls.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace

from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.effects import perform
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.gates import Gates
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.engine.sources import Sources
from tensor_reshape.server.engine.stalls import Patience
from tensor_reshape.server.service.method_tables import Method, MethodTable, StreamMethod
from tensor_reshape.server.service.works import Work
from tensor_reshape.wire.fields import check_header_size

MAX_SILENT = 16
"""How many calls may be without their message. Of an honest one it comes microseconds after the HTTP/2 headers."""

_MAX_CALLS = 8192  # watches included: clients keep one for each of their connections
_SILENT_SECONDS = 0.1  # how long a call may be without its message while others wait
_WAIT_SECONDS = 5.0  # how long a call waits for room: a probe gives up after a few seconds

Respond = Callable[[bytes], bytes]
"""Answers a message; raises a refusal, or `statuses.StatusError`."""


def build_service(
    config: Config,
    methods: MethodTable,
    gates: Gates | None = None,
    pools: Mapping[Work, Executor] | None = None,
) -> Service:
    """Returns methods with an engine of their own.

    Args:
        config: of the server.
        methods: what is served.
        gates: are asked for each call; None: anybody may call.
        pools: threads for messages of streams above a third of the room; they are refused there.
    """
    # What `count_pool_bytes` makes of it is room for so many of the largest messages.
    budget = 2 * (MAX_SILENT + 1) * config.max_message_bytes
    engine = Engine(
        replace(config, memory_budget_bytes=budget, max_calls=_MAX_CALLS),
        gates=gates,
        patience=Patience(config.stall_timeout_seconds, _SILENT_SECONDS, _WAIT_SECONDS),
    )
    return Service(engine, perform, Sources(config.trusted_proxy), methods, pools or {}, _MAX_CALLS)


def build_method(name: str, respond: Respond) -> Method:
    """Returns a unary method: its answers are short, and so made where the message is received."""

    def answer(raw: bytes) -> bytes:
        check_header_size(len(raw))
        return respond(raw)

    return Method(name, lambda raw, _is_over: answer(raw), answer)


def build_exchange(name: str, respond: Respond) -> StreamMethod:
    """Returns a stream in which each message has its answer."""
    return StreamMethod(name, lambda _hold: _Exchange(respond))


class _Exchange:
    """One call of such a stream: a `Session`."""

    is_between_tensors = True

    def __init__(self, respond: Respond) -> None:
        self._respond = respond

    def receive(self, raw: bytes) -> Iterator[bytes]:
        check_header_size(len(raw))
        yield self._respond(raw)

    def takes_long(self, raw: bytes) -> bool:
        del raw
        return False

    def count_room(self, raw: bytes) -> int | None:
        return len(raw)

    def finish(self) -> None:
        pass
