"""The context of a single call. A context consists of the deadline and the metadata of the call.

Invariants: metadata are checked before a request is sent. All attempts of a call, and all calls of a batch, share one
context. With tracing, a call belongs to the trace of its caller. If the caller has no current span, the call sends no
trace.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypedDict

from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.runtime.lazy_imports import advise_install
from tensor_reshape.wire.status import MAX_REQUEST_ID_CHARACTERS, REQUEST_ID_KEY, find_request_id, is_request_id

LEAST_TIMEOUT_SECONDS = 1e-3
"""The shortest timeout that is passed to grpc. A call with this timeout ends with grpc's usual timeout error."""


class Deadline:
    """The time at which a call must have ended, including its retries and the pauses between them.

    Attributes:
        seconds: the timeout of the call. None means that the call has no timeout.
    """

    def __init__(self, seconds: float | None) -> None:
        """Starts the clock."""
        self.seconds = seconds
        # The clock is monotonic, so a change of the system time has no effect.
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def remaining_seconds(self) -> float | None:
        """The remaining seconds, as the `timeout` argument of grpc. None without a deadline."""
        return None if self._end is None else max(self._end - time.monotonic(), LEAST_TIMEOUT_SECONDS)

    def is_within(self, seconds: float) -> bool:
        """Whether the deadline is less than `seconds` away."""
        return self._end is not None and time.monotonic() + seconds >= self._end


Metadata = Sequence[tuple[str, str | bytes]]
CheckedMetadata = tuple[tuple[str, str | bytes], ...]

_METADATA_KEY = re.compile("[0-9a-z_.-]+")


class CallOptions(TypedDict, total=False):
    """Options that every call accepts in addition to its own arguments and the timeout.

    Attributes:
        metadata: metadata of the call, which the client sends after its own metadata.
        request_id: id of the call in the server's log and in the error of the call. The id may have at most 128 visible
            ASCII characters. By default, the server creates an id, which is also in the error of the call.

    >>> client.infer_shape((2, 3), (-1,), special_zero=False, request_id="job-7/3", metadata=[("tenant", "a")])
    InferredShape([6])
    """

    metadata: Metadata
    request_id: str | None


CALL_OPTIONS = CallOptions.__annotations__.keys()
"""The names of the options in `CallOptions`."""


class ClientContext(NamedTuple):
    """The context of a single call. Use the context as a context manager around the call.

    If an error leaves the `with` block, the context sets the request id of the error. This id is the server's id if the
    server sent one, and otherwise the id that the client sent.

    Attributes:
        deadline: the time at which the call must have ended.
        metadata: metadata of this call only, in addition to the metadata of the client.
    """

    deadline: Deadline
    metadata: CheckedMetadata

    def __enter__(self) -> Self:
        """Returns the context."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Sets the request id of the error that leaves the block."""
        if isinstance(error, TensorReshapeError) and error.request_id is None:
            error.request_id = find_request_id(self.metadata)


def build_metadata(options: CallOptions) -> CheckedMetadata:
    """Returns the metadata of one call.

    Raises:
        ValueError: grpc cannot send a value, or the request id is invalid.
    """
    metadata, request_id = check_metadata(options.get("metadata", ())), options.get("request_id")
    if request_id is None:
        return metadata
    if not is_request_id(request_id):
        message = f"request_id is {request_id!r}; use visible ASCII characters, at most {MAX_REQUEST_ID_CHARACTERS}"
        raise ValueError(message)
    if any(key == REQUEST_ID_KEY for key, _ in metadata):
        raise ValueError(f"both the metadata and request_id contain an {REQUEST_ID_KEY}: remove one of them")
    return (*metadata, (REQUEST_ID_KEY, request_id))


def check_metadata(metadata: Metadata) -> CheckedMetadata:
    """Returns `metadata` if grpc can send it.

    Raises:
        TypeError: an item is not a pair.
        ValueError: a key contains characters other than lower-case letters, digits, "_", "-" and ".", or a value has a
            type or characters that its key does not allow.
    """
    if metadata and (isinstance(metadata, Mapping | str) or not isinstance(metadata, Iterable)):
        # The error message does not show the metadata, because metadata may contain credentials.
        raise TypeError(f"metadata is of the type {type(metadata).__name__}: write pairs, such as [('key', 'value')]")
    # the metadata pairs are copied before the check, because an iterator can be read only once
    checked = tuple(metadata)
    for key, value in checked:
        binary = key.endswith("-bin")
        printable = isinstance(value, str) and value.isascii() and value.isprintable()
        if not _METADATA_KEY.fullmatch(key) or not (isinstance(value, bytes) if binary else printable):
            message = (
                f"metadata cannot hold {key!r}: use a lower-case key with ASCII text, or with bytes if it ends in -bin"
            )
            raise ValueError(message)
    return checked


TRACE_KEY = "traceparent"
"""The metadata key of a trace."""


def find_trace_reader() -> Callable[[], CheckedMetadata]:
    """Returns a function that returns the current trace of the thread or task that calls it.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """
    try:
        # OpenTelemetry is imported only when it is used, because it is optional and slow to import.
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"tracing=True needs OpenTelemetry: {advise_install('tracing')}") from error
    inject = TraceContextTextMapPropagator().inject

    def read_trace() -> CheckedMetadata:
        headers: dict[str, str] = {}
        inject(headers)
        return tuple(headers.items())

    return read_trace
