"""The choice of calls that get a span, which is made before anything else is made for a call.

- OpenTelemetry's samplers decide when a span starts, and need a context and a trace id. With a sampling rate of 1 %,
  this preparation of 99 % of the calls would take longer than the spans. `CallSampling` makes the same choices without
  it.
- The choice follows `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`. With a parent-based sampler, a call whose
  client has a trace gets a span if the client samples this trace.
- If OpenTelemetry does not accept these variables, OpenTelemetry's own sampler decides.
"""

import random
import re
from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON, Decision, Sampler, TraceIdRatioBased
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tensor_reshape.server.calls.call_info import Metadata

_PARENT_KEY = "traceparent"
_DEFAULT = "parentbased_always_on"
_PREFIX = "parentbased_"
_RATES = {"always_on": 1.0, "always_off": 0.0}
_RATIO = "traceidratio"
# Most valid `traceparent` headers of clients that do not sample the trace match this expression.
_UNSAMPLED = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-00")
_PROPAGATOR = TraceContextTextMapPropagator()


class _MetadataGetter(Getter[Metadata]):
    """Lets OpenTelemetry read the metadata of a call like the headers of a request."""

    def get(self, carrier: Metadata, key: str) -> list[str] | None:
        """Returns the values of a name, or None if the name is missing."""
        return [value for name, value in carrier if name == key and isinstance(value, str)] or None

    def keys(self, carrier: Metadata) -> list[str]:
        """Returns the names."""
        return [name for name, _ in carrier]


_GETTER = _MetadataGetter()


def find_parent(metadata: Metadata) -> Context:
    """Returns the context of the client's span, which is empty if the metadata contain no valid W3C Trace Context."""
    # The parent context must not be the current context of this thread, because the thread serves calls of all clients.
    return _PROPAGATOR.extract(metadata, Context(), _GETTER)


class CallSampling:
    """Chooses calls as the sampler of OpenTelemetry's environment variables does.

    Attributes:
        sampler: the sampler for the tracer of the chosen calls. None: OpenTelemetry's own sampler.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Reads the variables of `environ`."""
        name = environ.get("OTEL_TRACES_SAMPLER", _DEFAULT).lower()
        rate = _find_rate(name.removeprefix(_PREFIX), environ.get("OTEL_TRACES_SAMPLER_ARG", ""))
        self._asks_parent = name.startswith(_PREFIX)
        self._rate = 1.0 if rate is None else rate
        # This sampler chooses the same traces as the samplers of other servers with the same rate.
        self._ratio = TraceIdRatioBased(self._rate) if name == _RATIO else None
        self.sampler: Sampler | None = None
        if rate is not None:
            self.sampler = DEFAULT_ON if self._asks_parent else ALWAYS_ON

    def chooses(self, metadata: Metadata) -> bool:
        """Whether a new call gets a span."""
        if self._asks_parent or self._ratio is not None:
            for name, value in metadata:
                if name == _PARENT_KEY:
                    return self._follow(str(value), metadata)
        return random.random() < self._rate  # noqa: S311 - a sample, not a secret

    def _follow(self, traceparent: str, metadata: Metadata) -> bool:
        """Whether a call whose client has a trace gets a span. If the trace is invalid, the rate decides."""
        if self._asks_parent and _UNSAMPLED.fullmatch(traceparent):  # this check is much faster than OpenTelemetry's
            return False
        parent = get_current_span(find_parent(metadata)).get_span_context()
        if not parent.is_valid:
            return random.random() < self._rate  # noqa: S311 - as above
        if self._ratio is None:
            return parent.trace_flags.sampled
        return self._ratio.should_sample(None, parent.trace_id, "").decision is not Decision.DROP


def _find_rate(sampler: str, argument: str) -> float | None:
    """Returns the sampling rate of calls without a trace, or None if OpenTelemetry does not accept the variables."""
    if sampler != _RATIO:
        return _RATES.get(sampler)
    try:
        rate = float(argument)
    except ValueError:
        return None
    return rate if 0 <= rate <= 1 else None
