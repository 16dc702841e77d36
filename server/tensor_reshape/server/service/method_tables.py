"""Describes the methods of a server for the network layers, and lists the kinds of work that need threads."""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tensor_reshape.wire.fields import check_header_size


class Work(Enum):
    """The kinds of long work. Each kind has its own threads, so that no kind blocks another kind."""

    TENSORS = auto()
    """Calls that copy the elements of tensors."""

    QUERIES = auto()
    """Single queries, which take turns."""

    BATCHES = auto()
    """Batches of queries, which take turns."""

    NUMBERS = auto()
    """Messages whose parser holds the interpreter lock, so that more threads would not be faster."""


QUERY_THREADS = 8
"""The number of threads for single queries, and also the number of threads for batches.

These threads take turns. By default, the processing pool gives each connection memory for five queries at the same
time, so other connections find a free thread. Batches have their own threads, so they delay neither single queries nor
tensors.
"""

TENSOR_THREADS = 16
"""The number of threads for calls with tensors.

More threads would not be faster, because fewer threads already use the whole memory bandwidth.
"""

WORK_THREADS: Mapping[Work, int] = MappingProxyType(
    {
        Work.TENSORS: TENSOR_THREADS,
        Work.QUERIES: QUERY_THREADS,
        Work.BATCHES: QUERY_THREADS,
        Work.NUMBERS: 1,
    }
)
"""The number of threads for each kind of work."""

FindWork = Callable[[bytes], Work]
"""A function that returns the kind of work for a message that takes long.

The receiving thread calls this function, so it must be fast.
"""


def always(work: Work) -> FindWork:
    """Returns a function that always returns `work`."""
    return lambda _raw: work


def decline_light_work(_raw: bytes) -> None:
    """Returns None, so that worker threads process all messages of the method."""


IsOver = Callable[[], bool]
"""A function that returns whether the client no longer waits for the response."""


class UnaryMethod(NamedTuple):
    """A unary method as functions from serialized requests to serialized responses.

    Attributes:
        name: the full method path.
        respond: the function that returns the response. The function stops long work if the call is over.
        respond_light: a function that returns the same response, or None if the work would take long. The default
            function always returns None.
        find_work: the function that returns the kind of work for a message that needs a worker thread.
    """

    name: str
    respond: Callable[[bytes, IsOver], bytes]
    respond_light: Callable[[bytes], bytes | None] = decline_light_work
    find_work: FindWork = always(Work.TENSORS)


def limit_header(respond: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Returns a function that calls `respond`, but rejects messages larger than the limit for request headers."""

    def respond_to_short(raw: bytes) -> bytes:
        check_header_size(len(raw))
        return respond(raw)

    return respond_to_short


def build_light_method(name: str, respond: Callable[[bytes], bytes]) -> UnaryMethod:
    """Returns a method that accepts only short messages. The receiving thread itself processes these messages."""
    respond_light = limit_header(respond)
    return UnaryMethod(name, lambda raw, _is_over: respond_light(raw), respond_light)


class Estimate(NamedTuple):
    """The estimated cost of processing a message of a stream.

    Attributes:
        takes_long: whether a worker thread must process the message, because the processing takes long.
        needed_bytes: the number of bytes needed to process the message, in addition to the memory that the call has
            already reserved. None stands for the number of bytes that the largest message needs.
    """

    takes_long: bool
    needed_bytes: int | None


class Session(Protocol):
    """The session of one streaming call. A session processes the messages of the client and yields the responses."""

    def receive(self, raw: bytes) -> Iterator[bytes]:
        """Processes a message and yields its responses.

        If this method raises a `ReshapeError`, the stream ends with the error.
        """

    def estimate(self, raw: bytes) -> Estimate:
        """Returns the estimated cost of a message, before `receive` processes the message."""

    @property
    def is_between_tensors(self) -> bool:
        """Whether no tensor has begun, or the last tensor is complete."""

    def finish(self) -> None:
        """Ends the session after the client's last message.

        If this method raises a `ReshapeError`, the call ends with the error.
        """


class StreamMethod(NamedTuple):
    """A method that streams messages in both directions.

    Attributes:
        name: the full method path.
        open: the function that starts a call. The argument of `open` is a function that reserves bytes of the server's
            memory budget or raises LimitError.
        find_work: the function that returns the kind of work for a message that takes long.
    """

    name: str
    open: Callable[[Callable[[int], None]], Session]
    find_work: FindWork = always(Work.TENSORS)


class Watch(Protocol):
    """The watch of one call, which sends updates until the client ends the call."""

    @property
    def is_over(self) -> bool:
        """Whether the watch will send no more updates."""

    def find_update(self) -> bytes | None:
        """Returns the message to send now, or None if there is no update.

        Only one thread at a time calls this method.
        """

    def close(self) -> None:
        """Ends the notifications of this watch."""


class WatchMethod(NamedTuple):
    """A method that takes one request and sends updates until the client ends the call.

    Attributes:
        name: the full method path.
        open: the function that starts a watch. Its first argument is the request message. Its second argument is a
            function that any thread may call when there may be an update. Its third argument is the pair of the
            client's address and the name of the connection. If `open` raises a `ReshapeError`, the call ends with the
            error.
    """

    name: str
    open: Callable[[bytes, Callable[[], None], tuple[str, str]], Watch]


class MethodTable(NamedTuple):
    """All methods of a server."""

    unary: tuple[UnaryMethod, ...]
    streams: tuple[StreamMethod, ...]
    watches: tuple[WatchMethod, ...] = ()

    @property
    def names(self) -> list[str]:
        """The full paths of all methods."""
        return [method.name for methods in self for method in methods]

    def join(self, other: "MethodTable") -> "MethodTable":
        """Returns a table with the methods of this table and of `other`."""
        watches = (*self.watches, *other.watches)
        return MethodTable((*self.unary, *other.unary), (*self.streams, *other.streams), watches)
