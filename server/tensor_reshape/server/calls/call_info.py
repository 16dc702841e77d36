"""The class `CallInfo` contains the facts about a call, such as its method, client, metadata and trailing metadata.

Most of these facts are known before the request message arrives. The first bytes of the response are added to the
`CallInfo` later, for observers that report the call when it is over.

- The method, the peer name and a certificate that TLS has verified can be trusted. All other facts in a `CallInfo` are
  untrusted input from the client. Check values from the client before you use them, and never write them unchecked to a
  log, label or span.
- The TLS properties and the request id are computed only when they are first used, because this takes time and few
  calls need them.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tensor_reshape.wire.status import REQUEST_ID_KEY, find_request_id

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""Pairs of lower-case names and values. A value is bytes if its name ends in `-bin`, otherwise text."""

ReadTls: TypeAlias = Callable[[], Mapping[str, Sequence[bytes]]]
"""Returns gRPC's `auth_context`, which has TLS properties of the client, such as `x509_subject_alternative_name`."""

MAX_RESPONSE_BYTES = 1024
"""The number of bytes at the beginning of a response that are kept.

They are enough for the header of a tensor of the largest rank, which has 64 dims of 10 bytes.
"""

_GENERATED_BYTES = 8  # the length of a generated request id in bytes


@dataclass(slots=True, eq=False)
class CallInfo:
    """The facts about one call.

    Attributes:
        method: the full path of the method, which is always a method of this server.
        peer: gRPC's name of the connection, or an empty text until the connection is known.
        address: the address of the client. If a trusted proxy forwarded the call, this is the address of the proxy's
            client (see `sources`). The address is empty until the call is entered.
        metadata: the metadata that the client sent.
        read_tls: a function that returns the TLS properties of the client. Any thread may call `read_tls`. If the
            client has no certificate, these properties contain no identity.
        identity: the authenticated identity of the caller. The identity is empty unless an admission check (gate) has
            set it.
        trailing: the trailing metadata that the server sends with the status of the call, even if the call fails. Gates
            (admission checks) may add pairs of a name and a value to it.
        is_logged: whether the error of the call has already been logged.
        at_end: functions that are called when the call is over, beginning with the last function in the list. These
            functions are the methods `leave` of the gates that have admitted the call, and the methods `write` of the
            observers that record the call.
        response: the first `MAX_RESPONSE_BYTES` bytes of the first response. `response` is empty until the server has
            computed a response.
    """

    method: str
    metadata: Metadata
    peer: str = ""
    read_tls: ReadTls = dict
    address: str = ""
    identity: str = ""
    trailing: tuple[tuple[str, str | bytes], ...] = ()
    is_logged: bool = False
    at_end: list[Callable[[], None]] = field(default_factory=list)
    response: bytes = b""
    # This dict is empty until the request id is first used. Then the dict contains the request id.
    _request_ids: dict[str, str] = field(default_factory=dict)

    def find_values(self, key: str) -> list[str | bytes]:
        """Returns all values of the metadata with the name `key`, in the order in which the client sent them."""
        return [value for name, value in self.metadata if name == key]

    def return_request_id(self) -> None:
        """Adds the request id to the trailing metadata."""
        # If two threads run this code at the same time, both assign the same new value, so the request id is added only
        # once.
        before = self.trailing
        if not any(key == REQUEST_ID_KEY for key, _ in before):
            self.trailing = (*before, (REQUEST_ID_KEY, self.request_id))

    def leave(self) -> None:
        """Calls the functions in `at_end` and removes them, so a second call of this method does nothing."""
        try:
            # `list.pop` is atomic, so two threads that run this code at the same time never get the same item of the
            # list.
            report = self.at_end.pop()
        except IndexError:
            return
        try:
            report()
        finally:
            self.leave()

    @property
    def request_id(self) -> str:
        """The id of the call in logs.

        The request id is the client's `x-request-id` if that value is short and printable. Otherwise the server
        generates a request id.
        """
        if REQUEST_ID_KEY not in self._request_ids:
            found = find_request_id(self.metadata) or secrets.token_hex(_GENERATED_BYTES)
            # Two threads may make a request id for the same call at the same time. `dict.setdefault` is atomic, so both
            # threads use the same request id.
            self._request_ids.setdefault(REQUEST_ID_KEY, found)
        return self._request_ids[REQUEST_ID_KEY]


def record_response(info: CallInfo | None, *responses: bytes) -> None:
    """Copies the first bytes of the first response to `info`. Does nothing if `info` is None.

    Only the first bytes are copied, because a response may be large.
    """
    if info is not None and responses and not info.response:
        info.response = responses[0][:MAX_RESPONSE_BYTES]
