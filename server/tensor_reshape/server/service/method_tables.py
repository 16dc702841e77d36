"""The kinds of methods that a server has, as data: what takes calls from the network serves them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from tensor_reshape.server.service.works import FindWork, find_tensors

IsOver = Callable[[], bool]
"""Whether nobody waits for the answer any more."""


class Method(NamedTuple):
    """A unary method over serialized messages.

    Attributes:
        name: in full, as a path.
        answer: returns the response; asks whether the call is over where the work takes long.
        answer_light: does the same, or returns None where that would take long.
        find_work: which work a message makes that is not light.
    """

    name: str
    answer: Callable[[bytes, IsOver], bytes]
    answer_light: Callable[[bytes], bytes | None]
    find_work: FindWork = find_tensors


class Session(Protocol):
    """One call of a method that is a stream: messages in, messages out, one after another."""

    def receive(self, raw: bytes) -> Iterator[bytes]:
        """Takes a message, and gives those that answer it; a `ReshapeError` ends the stream."""

    def takes_long(self, raw: bytes) -> bool:
        """Whether to receive `raw` may take so long that other calls should not wait for it."""

    def count_room(self, raw: bytes) -> int | None:
        """Returns the bytes that come of `raw`, but for what the call has reserved; None: of the largest message."""

    @property
    def is_between_tensors(self) -> bool:
        """Whether nothing is under way."""

    def finish(self) -> None:
        """Takes the end of the client's side."""


class StreamMethod(NamedTuple):
    """A method that is a stream of messages in both directions.

    Attributes:
        name: in full, as a path.
        open: begins a call; what it is given takes so many bytes of the server's budget, or raises LimitError.
        find_work: which work a message makes that takes long.
    """

    name: str
    open: Callable[[Callable[[int], None]], Session]
    find_work: FindWork = find_tensors


class Watch(Protocol):
    """One call that brings news for as long as its caller listens."""

    @property
    def is_over(self) -> bool:
        """Whether there will be no more news."""

    def find_news(self) -> bytes | None:
        """Returns the message that is to be sent now, if there is one. The calls come one at a time."""

    def begin(self, look: Callable[[], None], source: tuple[str, str]) -> None:
        """Has `look` called, on any thread, whenever there may be news; a `LimitError` ends the call.

        Args:
            look: asks for news.
            source: whose call it is: the address and the name of the connection.
        """

    def close(self) -> None:
        """Ends that; does nothing if it has not begun, or has ended."""


class WatchMethod(NamedTuple):
    """A method with one message, and news for as long as the caller listens.

    Attributes:
        name: in full, as a path.
        open: takes the message; a `ReshapeError` ends the call.
    """

    name: str
    open: Callable[[bytes], Watch]


class MethodTable(NamedTuple):
    """All that is served."""

    unary: tuple[Method, ...]
    streams: tuple[StreamMethod, ...]
    watches: tuple[WatchMethod, ...] = ()

    @property
    def names(self) -> list[str]:
        """The paths of all methods."""
        return [method.name for methods in self for method in methods]

    def join(self, other: "MethodTable") -> "MethodTable":
        """Returns the methods of both."""
        watches = (*self.watches, *other.watches)
        return MethodTable((*self.unary, *other.unary), (*self.streams, *other.streams), watches)
