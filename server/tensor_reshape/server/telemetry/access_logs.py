"""The access log, which has a line for each call that is over, at the level DEBUG."""

import logging
import time

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.records import EndedCall
from tensor_reshape.server.calls.results import GONE
from tensor_reshape.server.telemetry.call_logs import describe_call

_LOGGER = logging.getLogger(__name__)


class AccessLog:
    """Writes a line for each call when the call is over (see `CallLog`).

    Each call returns its request id even if the call succeeds.
    """

    def chooses(self, metadata: Metadata) -> bool:
        """Chooses every call (see `CallLog`)."""
        del metadata
        return True

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
        }
        _LOGGER.debug("call", extra=values)
