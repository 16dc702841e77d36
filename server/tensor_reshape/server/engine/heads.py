"""The head of a call: method, client, metadata and trailing metadata, known before the message arrives.

It also keeps the first bytes of the response, for observers that report the call when it is over.

- gRPC's core, the fallback server and HTTP use the same class.
- Everything except `method`, `peer` and the certificate that TLS has verified is untrusted input from the client. Check
  it before you use it, and never write it unchecked to a log, label or span.
- A call has a head only if a gate or an observer needs it, or if the call fails.
- The certificate and the request id are computed on first use, because they take time.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tensor_reshape.wire.request_ids import REQUEST_ID_KEY, find_request_id

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""Pairs of lower-case names and values. A value is bytes if its name ends in `-bin`, otherwise text."""

AskTls: TypeAlias = Callable[[], Mapping[str, Sequence[bytes]]]
"""Returns gRPC's `auth_context`: the TLS properties of the client, such as `x509_subject_alternative_name`."""

MAX_ANSWER_BYTES = 1024
"""Bytes of the response that are kept. The header of a tensor of the largest rank, 64 dims of 10 bytes, fits."""

_MADE_BYTES = 8


class CallHead:
    """The head of one call.

    Attributes:
        method: the full method path. It is always a method of this server.
        peer: gRPC's name of the connection; empty if not yet known.
        address: the address of the client, also behind a trusted proxy (see `sources`); empty if not yet known.
        metadata: the metadata that the client sent.
        identity: the authenticated identity, set by a gate; otherwise empty.
        trailing: trailing metadata of the call, whatever its status. Gates may add to it.
        is_logged: whether the log already has the line of a rejected or failed call.
        leavers: `Gate.leave` of the gates that have admitted the call, until they are called.
        answer: the first `MAX_ANSWER_BYTES` of the first response; empty before.
    """

    __slots__ = (
        "_ask_tls",
        "_request_ids",
        "address",
        "answer",
        "identity",
        "is_logged",
        "leavers",
        "metadata",
        "method",
        "peer",
        "trailing",
    )

    def __init__(self, method: str, metadata: Metadata) -> None:
        """Starts without a known client; `name_caller` follows."""
        self.method = method
        self.metadata = metadata
        self.peer = self.address = self.identity = ""
        self._request_ids: dict[str, str] = {}  # the request id, as soon as it was used
        self._ask_tls: AskTls = dict
        self.is_logged = False
        self.trailing: tuple[tuple[str, str | bytes], ...] = ()
        self.leavers: list[Callable[[CallHead], None]] = []
        self.answer = b""

    def name_caller(self, peer: str, ask_tls: AskTls) -> None:
        """Sets the connection of the call. `ask_tls` may be called from any thread as long as the head exists."""
        self.peer = peer
        self._ask_tls = ask_tls

    def find_values(self, key: str) -> list[str | bytes]:
        """Returns all values of a metadata name, in the order in which the client sent them."""
        return [value for name, value in self.metadata if name == key]

    def read_tls(self) -> Mapping[str, Sequence[bytes]]:
        """Returns the TLS properties of the client. Without a client certificate they contain no identity."""
        return self._ask_tls()

    def tell_request_id(self) -> None:
        """Adds the request id to the trailing metadata."""
        # One assignment of the old value plus the id: two threads that run this at the same time add the id once.
        told = self.trailing
        if not any(key == REQUEST_ID_KEY for key, _ in told):
            self.trailing = (*told, (REQUEST_ID_KEY, self.request_id))

    def leave(self) -> None:
        """Reports the end of the call to the gates that have admitted it. A second call does nothing."""
        try:
            leave = self.leavers.pop()  # atomic: if two threads run this at the same time, only one gets each item
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
            found = find_request_id(self.metadata) or secrets.token_hex(_MADE_BYTES)
            self._request_ids.setdefault(REQUEST_ID_KEY, found)  # atomic: two threads may get here first
        return self._request_ids[REQUEST_ID_KEY]


def note_answer(head: CallHead | None, *answers: bytes) -> None:
    """Copies the first bytes of the first response into the head, if there is one. The response may be large."""
    if head is not None and answers and not head.answer:
        head.answer = answers[0][:MAX_ANSWER_BYTES]
