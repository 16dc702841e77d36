"""Counts the calls over HTTP, in the same metrics as calls over gRPC."""

import time

from tensor_reshape.server.calls.records import EndedCall
from tensor_reshape.server.calls.results import GONE
from tensor_reshape.server.http.admission import Admission
from tensor_reshape.server.service.header_cache import Lookups
from tensor_reshape.server.telemetry.gauges import CopiedCounters
from tensor_reshape.server.telemetry.metric_families import (
    BUDGET_BYTES,
    CALL_SECONDS,
    MAX_CALLS,
    OPEN_CALLS,
    OTHER,
    PROCESSING,
    REJECTIONS,
    REQUEST_BYTES,
    RESPONSE_BYTES,
    USED_BYTES,
)
from tensor_reshape.server.telemetry.shared_counters import MethodCells, SharedCounters, observe
from tensor_reshape.wire.methods import split_method


class HttpCounters:
    """The metrics of one process. Only the thread of the event loop uses them."""

    def __init__(self, counters: SharedCounters, methods: tuple[str, ...], lookups: Lookups) -> None:
        """Stores the counts and the lookups in `counters`, which must have been created for the same methods."""
        self._counters = counters
        self._copied = CopiedCounters(counters, lookups)
        self._methods = {name: MethodCells(counters, split_method(name)) for name in methods}
        self._other = MethodCells(counters, (OTHER, OTHER))
        self._reasons = {reason: cell for (reason,), cell in counters.cells[REJECTIONS].items()}

    def count(self, call: EndedCall) -> None:
        """Counts a call that is over."""
        cells = self._methods.get(call.method, self._other)
        code, reason = call.result or GONE
        cells.codes[code][0] += 1.0
        if reason:
            self._reasons[reason][0] += 1.0
        if call.request_messages:
            observe(REQUEST_BYTES, cells.requests, call.request_bytes)
        if call.response_messages:
            observe(RESPONSE_BYTES, cells.responses, call.response_bytes)
        observe(CALL_SECONDS, cells.seconds, time.monotonic() - call.began)

    def count_other(self, code: str) -> None:
        """Counts a request that does not begin a call, for example because its path does not exist."""
        self._other.codes[code][0] += 1.0

    def update(self, admission: Admission) -> None:
        """Writes the gauges, and the counters of other modules."""
        self._counters.set(MAX_CALLS, admission.max_requests)
        self._counters.set(OPEN_CALLS, len(admission), "working")
        self._counters.set(USED_BYTES, admission.used_bytes, PROCESSING)
        self._counters.set(BUDGET_BYTES, admission.max_bytes, PROCESSING)
        self._copied.update()
