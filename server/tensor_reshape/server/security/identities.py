"""Who somebody is: `uri:spiffe://example.org/web`, `dns:web.example.org`, `email:web@example.org`, `token:web`.

- The kind is part of an identity. So no name of a token can pass for the name in a certificate, nor a host for a URI.
- What a certificate proves are the alternative names of its subject (SAN). Its common name proves nothing: it has no
  kind, and authorities check less of it.
- A pattern is an identity, or one with a `*` in place of one whole label: of a host a part between dots, of a URI one
  between slashes behind the authority, of an address what is in front of the @. It stands for exactly one label.
"""

import re
from collections.abc import Mapping, Sequence

from tensor_reshape.server.config import ConfigError

TOKEN_KIND = "token"  # noqa: S105 - not one
TOKEN_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""What a token may be called: a word that logs, labels and files can hold."""

_PROPERTIES = {"uri": "peer_uri", "dns": "peer_dns", "email": "peer_email"}  # in gRPC's `auth_context`
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
    return [
        fold_identity(f"{kind}:{value.decode()}")
        for kind, name in _PROPERTIES.items()
        for value in tls.get(name, ())
        if _VISIBLE.fullmatch(value)
    ]


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
    """Stands for one identity, or for all that differ in one label."""

    def __init__(self, text: str) -> None:
        """Reads a pattern.

        Raises:
            ConfigError: the text is none.
        """
        kind, _, name = text.partition(":")
        form = _FORMS.get(kind)
        if form is None or not form.fullmatch(name) or name.count("*") > 1:
            message = (
                f"{text!r} is no identity: write uri:scheme://authority/path, dns:host, email:name@host or token:NAME, "
                "with at most one * in place of a whole label, and none in the authority of a URI or the host of an "
                "address"
            )
            raise ConfigError(message)
        # As an expression: to take an identity apart for every pattern took ten times as long.
        self._expression = re.compile(_ANY_LABELS[kind].join(map(re.escape, fold_identity(text).split("*"))))

    def matches(self, identity: str) -> bool:
        """Whether the pattern stands for an identity, of `read_identities` or of a token."""
        return self._expression.fullmatch(identity) is not None
