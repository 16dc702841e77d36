"""The facts about a call that is over, for the access log and for traces."""

from collections.abc import Mapping
from typing import Protocol

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.results import CallResult


class EndedCall(Protocol):
    """The facts about a call that is over.

    Attributes:
        info: the facts that were known before the message arrived.
        method: the full path of the method, which is always a method of this server.
        began: the time at which the call began, as returned by `time.monotonic`.
        seconds: the time that the call has spent in each state, by the name of the state in lower case.
        request_messages: the number of received messages.
        request_bytes: the total size of the received messages in bytes.
        response_messages: the number of response messages.
        response_bytes: the total size of the response messages in bytes.
        result: the result of the call, or None if the client has disconnected before the server decided on a result.
    """

    info: CallInfo
    method: str
    began: float
    request_messages: int
    request_bytes: int
    response_messages: int
    response_bytes: int
    result: CallResult | None

    @property
    def seconds(self) -> Mapping[str, float]:
        """See the attributes of the class."""


class CallLog(Protocol):
    """Records calls that are over, for example in the access log or in a trace."""

    def chooses(self, metadata: Metadata) -> bool:
        """Whether to record a call that begins."""

    def begin(self, info: CallInfo) -> None:
        """Handles the beginning of a chosen call, before the gates check the call."""

    def write(self, call: EndedCall) -> None:
        """Records a call. This method must not block, because it may run on the thread that receives calls."""
