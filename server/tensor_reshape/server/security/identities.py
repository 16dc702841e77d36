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
_CERTIFICATE = "x509_pem_cert"  # in gRPC's `auth_context`, too
_EXTENSION = re.compile(rb"\x06\x03\x55\x1d\x11(\x01\x01\xff)?\x04")  # the alternative names (RFC 5280), in DER
_NAME_TAGS = (0x81, 0x82, 0x86)  # of email addresses, hosts and URIs; an IP address may contain zeros
_LONG = 0x80  # the bit that marks a length of several bytes
_VISIBLE = re.compile(b"[!-~]+")
_ANY_LABELS = {"uri": "[^/]+", "dns": r"[^.]+", "email": "[^@]+", TOKEN_KIND: ".+"}  # the characters that a * matches
_LABEL = "[!-)+-.0-~]+"  # visible ASCII, but neither * nor /
_FORMS = {
    # Never in the scheme or the authority, because the authority vouches for the rest.
    "uri": re.compile(rf"[a-z][a-z0-9+.-]*:(//{_LABEL}(/(\*|{_LABEL}))*|{_LABEL})"),
    "dns": re.compile(r"((\*|[\w-]+)\.)*[\w-]+", re.ASCII),
    "email": re.compile(r"(\*|[!-)+-.0-?A-~]+)@[\w.-]+", re.ASCII),
    TOKEN_KIND: re.compile(rf"\*|{TOKEN_NAME.pattern}"),
}


def read_identities(tls: Mapping[str, Sequence[bytes]]) -> list[str]:
    """Returns the identities that a client's certificate proves; none without a certificate.

    A name with characters other than visible ASCII is omitted. No pattern can match it, and the result may be logged.

    Args:
        tls: gRPC's `auth_context`.
    """
    if any(map(_has_cut_names, tls.get(_CERTIFICATE, ()))):
        return []
    return [
        fold_identity(f"{kind}:{value.decode()}")
        for kind, name in _PROPERTIES.items()
        for value in tls.get(name, ())
        if _VISIBLE.fullmatch(value)
    ]


@lru_cache(256)  # it takes about ten microseconds; a client with a certificate is trusted by the authority
def _has_cut_names(certificate: bytes) -> bool:
    """Whether grpcio shortens a name in a certificate, which is in PEM."""
    content = ssl.PEM_cert_to_DER_cert(certificate.decode())
    # At each place that looks like the begin of the extension. A client can choose some bytes, such as its key, but
    # that can only cause further rejections.
    return any(_has_nul(content, found.end()) for found in _EXTENSION.finditer(content))


def _has_nul(content: bytes, position: int) -> bool:
    """Whether the names that begin at a position contain a NUL; also True if there are no names."""
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
    """Returns the begin and the end of a DER value, given the position of its length."""
    length, start = content[position], position + 1
    if length & _LONG:
        size = length & ~_LONG
        length, start = int.from_bytes(content[start : start + size]), start + size
    return start, start + length


def fold_identity(identity: str) -> str:
    """Returns an identity in a comparable form, in which host names are in lower case."""
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
        # A regular expression is ten times as fast as splitting an identity for each pattern.
        self._expression = re.compile(_ANY_LABELS[kind].join(map(re.escape, fold_identity(text).split("*"))))

    def matches(self, identity: str) -> bool:
        """Whether the pattern matches an identity, from `read_identities` or of a token."""
        return self._expression.fullmatch(identity) is not None
