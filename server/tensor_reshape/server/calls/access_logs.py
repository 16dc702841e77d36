"""The access log, which has a line for each call of a random sample."""

import logging
import random
import time

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.call_logs import describe_call
from tensor_reshape.server.calls.records import EndedCall
from tensor_reshape.server.calls.results import GONE

_LOGGER = logging.getLogger(__name__)


class AccessLog:
    """Writes a line for each call of a random sample when the call is over (see `CallLog`).

    A call of the sample returns its request id even if the call succeeds.
    """

    def __init__(self, rate: float) -> None:
        """Writes the line of each call with the probability `rate`."""
        self._rate = rate

    def chooses(self, metadata: Metadata) -> bool:
        """Whether a new call belongs to the sample (see `CallLog`).

        The choice does not depend on the metadata, because clients could then choose whether their calls are logged.
        """
        del metadata
        return random.random() < self._rate  # noqa: S311 - a sample, not a secret

    def begin(self, info: CallInfo) -> None:
        """Adds the request id to the trailing metadata (see `CallLog`)."""
        info.return_request_id()

    def write(self, call: EndedCall) -> None:
        """Writes the line (see `CallLog`)."""
        values = describe_call(call.info, call.result or GONE, time.monotonic() - call.began)
        values |= {
            "request_messages": call.request_messages,
            "request_bytes": call.request_bytes,
            "response_messages": call.response_messages,
            "response_bytes": call.response_bytes,
            "sampled": self._rate,  # each line of the access log stands for 1 / rate calls
        }
        _LOGGER.info("call", extra=values)
