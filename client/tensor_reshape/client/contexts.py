"""What one call is made under: until when, and what is sent beside its message.

Laws: metadata are checked before anything is sent; all attempts of a call, and all calls of a batch, are made under one
context.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypedDict

from tensor_reshape.client.deadlines import Deadline
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.wire.request_ids import (
    MAX_REQUEST_ID_CHARACTERS,
    REQUEST_ID_KEY,
    find_request_id,
    is_request_id,
)

Metadata = Sequence[tuple[str, str | bytes]]
CheckedMetadata = tuple[tuple[str, str | bytes], ...]

_METADATA_KEY = re.compile("[0-9a-z_.-]+")


class CallOptions(TypedDict, total=False):
    """What every call takes besides its own arguments and its timeout.

    Attributes:
        metadata: sent with the call, behind the client's.
        request_id: names the call in the server's log; the error that it ends with has it, too. Visible ASCII
            characters, at most 128. Without one the server makes one, which errors have as well.

    >>> client.infer_shape((2, 3), (-1,), special_zero=False, request_id="job-7/3", metadata=[("tenant", "a")])
    InferredShape([6])
    """

    metadata: Metadata
    request_id: str | None


CALL_OPTIONS = CallOptions.__annotations__.keys()
"""Their names."""


class ClientContext:
    """The context of one call, as gRPC has it in other languages; a block of it is the call.

    An error that leaves the block has the request id: the server's where it told one, else that which was sent.

    Attributes:
        deadline: when the call must have ended.
        metadata: sent with this call alone, besides the client's.
    """

    __slots__ = ("deadline", "metadata")

    def __init__(self, deadline: Deadline, metadata: CheckedMetadata) -> None:
        """Keeps both."""
        self.deadline = deadline
        self.metadata = metadata

    def __enter__(self) -> Self:
        """Returns the context itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Names the call in its error."""
        if isinstance(error, TensorReshapeError):
            self.name_call(error)

    def name_call(self, error: TensorReshapeError) -> None:
        """Gives an error the request id of the call, unless it has the server's."""
        if error.request_id is None:
            error.request_id = find_request_id(self.metadata)


def build_metadata(options: CallOptions) -> CheckedMetadata:
    """Returns what is sent with one call.

    Raises:
        ValueError: grpc could not send it, or the request id is none.
    """
    metadata, request_id = check_metadata(options.get("metadata", ())), options.get("request_id")
    if request_id is None:
        return metadata
    if not is_request_id(request_id):
        message = (
            f"request_id is {request_id!r}; it is of visible ASCII characters, at most {MAX_REQUEST_ID_CHARACTERS}"
        )
        raise ValueError(message)
    if any(key == REQUEST_ID_KEY for key, _ in metadata):
        message = f"the metadata hold an {REQUEST_ID_KEY}, and there is a request_id besides"
        raise ValueError(message)
    return (*metadata, (REQUEST_ID_KEY, request_id))


def check_metadata(metadata: Metadata) -> CheckedMetadata:
    """Returns `metadata` where grpc can send it.

    Raises:
        TypeError: they are no pairs.
        ValueError: a key is not of lower-case letters, digits, "_", "-" and ".", or a value does not go with it.
    """
    if metadata and (isinstance(metadata, Mapping | str) or not isinstance(metadata, Iterable)):
        # Nothing of them is shown: they may be credentials.
        message = f"metadata is of the type {type(metadata).__name__}: write pairs, as [('key', 'value')]"
        raise TypeError(message)
    checked = tuple(metadata)  # first: what is read only once would be gone
    for key, value in checked:
        binary = key.endswith("-bin")
        printable = isinstance(value, str) and value.isascii() and value.isprintable()
        if not _METADATA_KEY.fullmatch(key) or not (isinstance(value, bytes) if binary else printable):
            message = f"metadata cannot hold {key!r}: a lower-case key, and ASCII text, or bytes where it ends in -bin"
            raise ValueError(message)
    return checked
