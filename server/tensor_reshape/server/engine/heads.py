"""What is known of a call at its beginning, before its message: the method, the caller, and what the caller has sent.

The beginning of the answer is kept here too, for observers that report the call when it is over.

- The seam, the stock server and HTTP make the same head.
- Everything except `method`, `peer` and what TLS has verified comes from the caller. Code that uses it checks it first,
  and it goes into no log, label or span unchecked.
- A head is made if a gate or an observer looks at it, and when a call ends badly. Other calls have none.
- The certificate and the request's id take time, so they are found when they are asked for.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tensor_reshape.wire.request_ids import REQUEST_ID_KEY, find_request_id

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""Pairs of names, which gRPC has in lower case, and values: bytes where the name ends in `-bin`, else text."""

AskTls: TypeAlias = Callable[[], Mapping[str, Sequence[bytes]]]
"""Returns what TLS knows of the caller, by the names of gRPC's `auth_context`: `x509_subject_alternative_name`, ..."""

MAX_ANSWER_BYTES = 1024
"""How much of an answer is kept: the header of a tensor of the largest rank, 64 dims of 10 bytes, and more."""

_MADE_BYTES = 8


class CallHead:
    """One call at its beginning.

    Attributes:
        method: in full, as a path; one of this server's.
        peer: the name of the connection, as gRPC gives it; empty while it is not known.
        address: of the caller, who may be behind a proxy: see `sources`; empty while it is not known.
        metadata: what the caller has sent.
        identity: who calls, where a gate has found that out; else empty.
        trailing: what the caller is told at the end of the call besides, good or bad: a gate may add to it.
        is_logged: whether the log says of the call that it ended badly.
        leavers: of the gates that have admitted the call, and have not heard that it is over.
        answer: how the first answer begins, `MAX_ANSWER_BYTES` of it; empty while there is none.
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
        """Starts as the call of a stranger; `name_caller` follows."""
        self.method = method
        self.metadata = metadata
        self.peer = self.address = self.identity = ""
        self._request_ids: dict[str, str] = {}  # one, when it has been asked for
        self._ask_tls: AskTls = dict
        self.is_logged = False
        self.trailing: tuple[tuple[str, str | bytes], ...] = ()
        self.leavers: list[Callable[[CallHead], None]] = []
        self.answer = b""

    def name_caller(self, peer: str, ask_tls: AskTls) -> None:
        """Notes whose call it is; `ask_tls` can be asked from any thread while the head is there."""
        self.peer = peer
        self._ask_tls = ask_tls

    def find_values(self, key: str) -> list[str | bytes]:
        """Returns the values of a name in the metadata, in their order: a caller may have sent several, or none."""
        return [value for name, value in self.metadata if name == key]

    def read_tls(self) -> Mapping[str, Sequence[bytes]]:
        """Returns what TLS knows of the caller; without a certificate, or without TLS, nothing that names anybody."""
        return self._ask_tls()

    def tell_request_id(self) -> None:
        """Has the caller told the request's id at the end of the call."""
        # In one step, of what was there before: two threads that come here at once add it once.
        told = self.trailing
        if not any(key == REQUEST_ID_KEY for key, _ in told):
            self.trailing = (*told, (REQUEST_ID_KEY, self.request_id))

    def leave(self) -> None:
        """Tells the gates that have admitted the call that it is over; whoever calls this again tells nobody."""
        try:
            leave = self.leavers.pop()  # in one step: of two threads that come here at once, one has it
        except IndexError:
            return
        try:
            leave(self)
        finally:
            self.leave()

    @property
    def request_id(self) -> str:
        """What the call is called in logs: the caller's id where it is one, bounded and printable; else one is made."""
        if REQUEST_ID_KEY not in self._request_ids:
            found = find_request_id(self.metadata) or secrets.token_hex(_MADE_BYTES)
            self._request_ids.setdefault(REQUEST_ID_KEY, found)  # in one step: two threads may ask first
        return self._request_ids[REQUEST_ID_KEY]


def note_answer(head: CallHead | None, *answers: bytes) -> None:
    """Keeps how the first of all answers begins, where somebody looks at the head: a copy, since it may be large."""
    if head is not None and answers and not head.answer:
        head.answer = answers[0][:MAX_ANSWER_BYTES]
