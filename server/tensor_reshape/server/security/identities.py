"""Identities: `uri:spiffe://example.org/web`, `dns:web.example.org`, `email:web@example.org`, `token:web`.

- The kind is part of an identity. The name of a token therefore never equals a name in a certificate, nor a host a URI.
- A certificate proves the alternative names of its subject (SAN). Its common name is ignored, because it has no kind
  and authorities check it less.
- grpcio cuts a name at its first NUL, so that it could equal another name. A certificate with such a name proves
  nothing.
- A pattern is an identity, or one with a `*` instead of one whole label: a part of a host between dots, a part of a URI
  between slashes after the authority, or the part of an address before the @. It matches exactly one label.
"""

import re
import ssl
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tensor_reshape.server.config import ConfigError

TOKEN_KIND = "token"  # noqa: S105 - not one
TOKEN_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""A valid token name: a word that logs, labels and files can contain."""

_PROPERTIES = {"uri": "peer_uri", "dns": "peer_dns", "email": "peer_email"}  # in gRPC's `auth_context`
_CERTIFICATE = "x509_pem_cert"  # likewise
_EXTENSION = re.compile(rb"\x06\x03\x55\x1d\x11(\x01\x01\xff)?\x04")  # the alternative names (RFC 5280), in DER
_NAME_TAGS = (0x81, 0x82, 0x86)  # of addresses, hosts and URIs; the bytes of an IP address may well be 0
_LONG = 0x80  # the bit that says that a length has several bytes
_VISIBLE = re.compile(b"[!-~]+")
_ANY_LABELS = {"uri": "[^/]+", "dns": r"[^.]+", "email": "[^@]+", TOKEN_KIND: ".+"}  # what a * stands for
_LABEL = "[!-)+-.0-~]+"  # visible ASCII, but neither * nor /
_FORMS = {
    # Never the scheme or the authority: they say who vouches for the rest.
    "uri": re.compile(rf"[a-z][a-z0-9+.-]*:(//{_LABEL}(/(\*|{_LABEL}))*|{_LABEL})"),
    "dns": re.compile(r"((\*|[\w-]+)\.)*[\w-]+", re.ASCII),
    "email": re.compile(r"(\*|[!-)+-.0-?A-~]+)@[\w.-]+", re.ASCII),
    TOKEN_KIND: re.compile(rf"\*|{TOKEN_NAME.pattern}"),
}


def read_identities(tls: Mapping[str, Sequence[bytes]]) -> list[str]:
    """Returns what a client's certificate proves, given gRPC's `auth_context`; nothing without a certificate.

    A name that is not visible ASCII is left out: no pattern stands for it, and what is returned may be logged.
    """
    if any(map(_has_cut_names, tls.get(_CERTIFICATE, ()))):
        return []
    return [
        fold_identity(f"{kind}:{value.decode()}")
        for kind, name in _PROPERTIES.items()
        for value in tls.get(name, ())
        if _VISIBLE.fullmatch(value)
    ]


@lru_cache(256)  # it takes some ten microseconds; who has a certificate has been let in by the authority
def _has_cut_names(certificate: bytes) -> bool:
    """Whether a name in a certificate, in PEM, is one that grpcio does not give in full."""
    content = ssl.PEM_cert_to_DER_cert(certificate.decode())
    # Wherever the extension seems to begin: in what the client may choose, as its key, this can only be refused more.
    return any(_has_nul(content, found.end()) for found in _EXTENSION.finditer(content))


def _has_nul(content: bytes, position: int) -> bool:
    """Whether there is a NUL in the names that begin at a position; also where there are no names."""
    try:
        position, _ = _read_extent(content, position)  # of the extension
        position, end = _read_extent(content, position + 1)  # of the list of names
        while position < end:
            start, after = _read_extent(content, position + 1)
            if content[position] in _NAME_TAGS and 0 in content[start:after]:
                return True
            position = after
    except IndexError:
        return True
    return False


def _read_extent(content: bytes, position: int) -> tuple[int, int]:
    """Returns where a value of DER begins and ends, given where its length is."""
    length, start = content[position], position + 1
    if length & _LONG:
        size = length & ~_LONG
        length, start = int.from_bytes(content[start : start + size]), start + size
    return start, start + length


def fold_identity(identity: str) -> str:
    """Returns an identity in the form in which two can be compared: hosts are the same in capitals."""
    kind, _, name = identity.partition(":")
    if kind == "dns":
        return identity.lower()
    if kind == "email":
        local, _, host = name.rpartition("@")
        return f"email:{local}@{host.lower()}"
    return identity


class IdentityPattern:
    """Matches one identity, or all that differ in one label."""

    def __init__(self, text: str) -> None:
        """Reads a pattern.

        Raises:
            ConfigError: the text is not a pattern.
        """
        kind, _, name = text.partition(":")
        form = _FORMS.get(kind)
        if form is None or not form.fullmatch(name) or name.count("*") > 1:
            message = (
                f"{text!r} is not a valid identity: write uri:scheme://authority/path, dns:host, email:name@host or "
                "token:NAME. One * may replace a label, but not in the authority of a URI or the host of an address"
            )
            raise ConfigError(message)
        # As an expression: to take an identity apart for every pattern took ten times as long.
        self._expression = re.compile(_ANY_LABELS[kind].join(map(re.escape, fold_identity(text).split("*"))))

    def matches(self, identity: str) -> bool:
        """Whether the pattern matches an identity, from `read_identities` or of a token."""
        return self._expression.fullmatch(identity) is not None
