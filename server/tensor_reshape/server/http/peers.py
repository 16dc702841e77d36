"""Who is at the other end of a connection over HTTP, in the words of gRPC: so that gates need no others."""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.types import Scope

from tensor_reshape.server.engine.heads import AskTls

_STATE, _PEER = "state", "peer"
_PROPERTIES = {"URI": "peer_uri", "DNS": "peer_dns", "email": "peer_email"}
_CERTIFICATE = "x509_pem_cert"


class Peer(NamedTuple):
    """One connection, as its calls know it.

    Attributes:
        name: as gRPC gives it.
        ask_tls: returns what TLS knows of the caller, by the names of gRPC's `auth_context`.
        abort: closes the connection at once; to be called on the thread of the loop.
    """

    name: str
    ask_tls: AskTls
    abort: Callable[[], None]

    def note(self) -> dict[str, "Peer"]:
        """Returns the state of the connection's requests, in which `find_peer` finds this."""
        return {_PEER: self}


def find_peer(scope: Scope) -> Peer:
    """Returns whose request it is."""
    peer: Peer = scope[_STATE][_PEER]
    return peer


def read_certificate(transport: asyncio.Transport) -> Mapping[str, Sequence[bytes]]:
    """Returns what TLS has verified of the other end; nothing without a certificate, or without TLS."""
    found: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    content = found.getpeercert(binary_form=True) if found is not None else None
    if found is None or content is None:
        return {}
    properties: dict[str, list[bytes]] = {_CERTIFICATE: [ssl.DER_cert_to_PEM_cert(content).encode()]}
    names: Any = (found.getpeercert() or {}).get("subjectAltName", ())  # pairs; the type holds all else as well
    for kind, value in names:
        if kind in _PROPERTIES:
            properties.setdefault(_PROPERTIES[kind], []).append(value.encode())
    return properties
