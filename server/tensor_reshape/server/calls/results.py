"""The results of calls, for logs, metrics and traces."""

from typing import NamedTuple


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
