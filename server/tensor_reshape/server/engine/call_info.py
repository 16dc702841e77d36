"""Facts about a call that are known before its message arrives: method, client, metadata and trailing metadata.

The first bytes of the response are added later, for observers that report the call when it is over.

- gRPC's core, the fallback server and HTTP use the same class.
- Everything except `method`, `peer` and the certificate that TLS has verified is untrusted input from the client. Check
  it before you use it, and never write it unchecked to a log, label or span.
- A call has a `CallInfo` only if a gate or an observer needs it, or if the call fails.
- The certificate and the request id are computed on first use, because they take time.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tensor_reshape.wire.request_ids import REQUEST_ID_KEY, find_request_id

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""Pairs of lower-case names and values. A value is bytes if its name ends in `-bin`, otherwise text."""

ReadTls: TypeAlias = Callable[[], Mapping[str, Sequence[bytes]]]
"""Returns gRPC's `auth_context`: the TLS properties of the client, such as `x509_subject_alternative_name`."""

MAX_RESPONSE_BYTES = 1024
"""Bytes of the response that are kept. The header of a tensor of the largest rank, 64 dims of 10 bytes, fits."""

_GENERATED_BYTES = 8


class CallInfo:
    """The facts about one call.

    Attributes:
        method: the full method path. It is always a method of this server.
        peer: gRPC's name of the connection; empty if not yet known.
        address: the address of the client, also behind a trusted proxy (see `sources`); empty if not yet known.
        metadata: the metadata that the client sent.
        read_tls: returns the TLS properties of the client, on any thread. They contain no identity if the client has no
            certificate.
        identity: the authenticated identity, set by a gate; otherwise empty.
        trailing: trailing metadata of the call, whatever its status. Gates may add to it.
        is_logged: whether the log already has the line of a rejected or failed call.
        gates_to_leave: `Gate.leave` of the gates that have admitted the call, until they are called.
        response: the first `MAX_RESPONSE_BYTES` of the first response; empty before.
    """

    __slots__ = (
        "_request_ids",
        "address",
        "gates_to_leave",
        "identity",
        "is_logged",
        "metadata",
        "method",
        "peer",
        "read_tls",
        "response",
        "trailing",
    )

    def __init__(self, method: str, metadata: Metadata, peer: str = "", read_tls: ReadTls = dict) -> None:
        """Starts without an identity and without trailing metadata."""
        self.method = method
        self.metadata = metadata
        self.peer = peer
        self.read_tls = read_tls
        self.address = self.identity = ""
        self._request_ids: dict[str, str] = {}  # the request id, as soon as it was used
        self.is_logged = False
        self.trailing: tuple[tuple[str, str | bytes], ...] = ()
        self.gates_to_leave: list[Callable[[CallInfo], None]] = []
        self.response = b""

    def find_values(self, key: str) -> list[str | bytes]:
        """Returns all values of a metadata name, in the order in which the client sent them."""
        return [value for name, value in self.metadata if name == key]

    def return_request_id(self) -> None:
        """Adds the request id to the trailing metadata."""
        # One assignment of the old value plus the id: two threads that run this at the same time add the id once.
        before = self.trailing
        if not any(key == REQUEST_ID_KEY for key, _ in before):
            self.trailing = (*before, (REQUEST_ID_KEY, self.request_id))

    def leave(self) -> None:
        """Reports the end of the call to the gates that have admitted it. A second call does nothing."""
        try:
            leave = (
                self.gates_to_leave.pop()
            )  # atomic: if two threads run this at the same time, only one gets each item
        except IndexError:
            return
        try:
            leave(self)
        finally:
            self.leave()

    @property
    def request_id(self) -> str:
        """The id of the call in logs: the client's `x-request-id` if it is short and printable, else a new one."""
        if REQUEST_ID_KEY not in self._request_ids:
            found = find_request_id(self.metadata) or secrets.token_hex(_GENERATED_BYTES)
            self._request_ids.setdefault(REQUEST_ID_KEY, found)  # atomic: two threads may get here first
        return self._request_ids[REQUEST_ID_KEY]


def record_response(info: CallInfo | None, *responses: bytes) -> None:
    """Copies the first bytes of the first response into `info`, if there is one. The response may be large."""
    if info is not None and responses and not info.response:
        info.response = responses[0][:MAX_RESPONSE_BYTES]
