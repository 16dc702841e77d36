"""The results of calls, and the facts about a call that is over, for logs, metrics and traces."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tensor_reshape.server.calls.call_info import CallInfo


class CallResult(NamedTuple):
    """The result of a call.

    Attributes:
        code: the name of the gRPC status code, for example "OK" for success.
        reason: the name of the `rules.errors.Reason` of a rejection; empty if the call was not rejected.
    """

    code: str
    reason: str = ""


GONE = CallResult("CANCELLED")
"""The result of a call whose client cancelled, reached its deadline or lost its connection.

The server does not distinguish these three cases.
"""

OK = CallResult("OK")
"""The result of a successful call."""


@dataclass(eq=False)
class EndedCall:
    """The facts about a call that is over.

    Attributes:
        info: the method, the client, the metadata and the first response bytes of the call.
        began: the time at which the call began, as returned by `time.monotonic`.
        request_messages: the number of received messages.
        request_bytes: the total size of the received messages in bytes.
        response_messages: the number of response messages.
        response_bytes: the total size of the response messages in bytes.
        result: the result of the call, or None if the client disconnected before the server decided on a result.
        seconds: maps the lower-case name of each state of the engine to the number of seconds that the call has spent
            in this state. For HTTP calls, this dict is empty.
    """

    info: CallInfo
    began: float
    request_messages: int = 0
    request_bytes: int = 0
    response_messages: int = 0
    response_bytes: int = 0
    result: CallResult | None = None
    seconds: dict[str, float] = field(default_factory=dict)
