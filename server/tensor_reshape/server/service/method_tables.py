"""The kinds of methods of a server, as data for the network layers that serve them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from tensor_reshape.server.service.works import FindWork, Work, always, decline_light_work
from tensor_reshape.wire.fields import check_header_size

IsOver = Callable[[], bool]
"""Whether the client no longer waits for the response."""


class Method(NamedTuple):
    """A unary method over serialized messages.

    Attributes:
        name: the full name, as a path.
        respond: returns the response. During long work it checks whether the call is over.
        respond_light: like `respond`, but returns None if the work would take long. Default: always None.
        find_work: returns the kind of work for a message that is not light.
    """

    name: str
    respond: Callable[[bytes, IsOver], bytes]
    respond_light: Callable[[bytes], bytes | None] = decline_light_work
    find_work: FindWork = always(Work.TENSORS)


def limit_header(respond: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Returns a function that rejects messages above the limit of headers, and calls `respond` for others."""

    def respond_to_short(raw: bytes) -> bytes:
        check_header_size(len(raw))
        return respond(raw)

    return respond_to_short


def build_light_method(name: str, respond: Callable[[bytes], bytes]) -> Method:
    """Returns a method that accepts only short messages and responds at once, on the receiving thread."""
    respond_light = limit_header(respond)
    return Method(name, lambda raw, _is_over: respond_light(raw), respond_light)


class Estimate(NamedTuple):
    """The effort for a message of a stream.

    Attributes:
        takes_long: whether other calls should not wait for it.
        needed_bytes: memory for it in addition to the memory that the call has reserved. None: as much as for the
            largest message.
    """

    takes_long: bool
    needed_bytes: int | None


class Session(Protocol):
    """One call of a streaming method: messages in, messages out."""

    def receive(self, raw: bytes) -> Iterator[bytes]:
        """Processes a message and yields the responses. A `ReshapeError` ends the stream."""

    def estimate(self, raw: bytes) -> Estimate:
        """Returns the effort for `raw`, before `receive` processes it."""

    @property
    def is_between_tensors(self) -> bool:
        """Whether no tensor is incomplete."""

    def finish(self) -> None:
        """Handles the end of the client's messages."""


class StreamMethod(NamedTuple):
    """A method that streams messages in both directions.

    Attributes:
        name: the full name, as a path.
        open: starts a call. Its argument reserves bytes of the server's budget, or raises LimitError.
        find_work: returns the kind of work for a message that takes long.
    """

    name: str
    open: Callable[[Callable[[int], None]], Session]
    find_work: FindWork = always(Work.TENSORS)


class Watch(Protocol):
    """One call that sends updates while the client listens."""

    @property
    def is_over(self) -> bool:
        """Whether there will be no more updates."""

    def find_update(self) -> bytes | None:
        """Returns the message to send now, or None. Calls of it do not overlap."""

    def begin(self, notify: Callable[[], None], source: tuple[str, str]) -> None:
        """Registers `notify`, which is called on any thread when there may be an update. A `LimitError` ends the call.

        Args:
            notify: makes the handler call `find_update`.
            source: the address and the name of the client's connection.
        """

    def close(self) -> None:
        """Removes the registration. Without one it does nothing."""


class WatchMethod(NamedTuple):
    """A method with one request and updates while the client listens.

    Attributes:
        name: the full name, as a path.
        open: starts a call with the request. A `ReshapeError` ends the call.
    """

    name: str
    open: Callable[[bytes], Watch]


class MethodTable(NamedTuple):
    """All methods of a server."""

    unary: tuple[Method, ...]
    streams: tuple[StreamMethod, ...]
    watches: tuple[WatchMethod, ...] = ()

    @property
    def names(self) -> list[str]:
        """The paths of all methods."""
        return [method.name for methods in self for method in methods]

    def join(self, other: "MethodTable") -> "MethodTable":
        """Returns the methods of both tables."""
        watches = (*self.watches, *other.watches)
        return MethodTable((*self.unary, *other.unary), (*self.streams, *other.streams), watches)
