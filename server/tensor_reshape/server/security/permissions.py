"""Checks the permissions of identities. A TOML file lists the methods that each identity may call.

    [callers]
    "token:batch" = ["*"]
    "uri:spiffe://example.org/ns/*/sa/viewer" = ["/tensor_reshape.v1.ReshapeService/InferShape"]
    "dns:*.example.org" = ["/inference.GRPCInferenceService/*"]

- An identity begins with its kind. A token, a host and a URI with the same name are therefore different identities.
- The identities of a client with a certificate are the subject alternative names (SAN) in the certificate. The common
  name of a certificate is ignored, because it does not say whether it is a host, a URI or an email address, and because
  certificate authorities check it less strictly.
- grpcio cuts off a name at its first NUL character, and the shortened name could be the name of another client. A
  client therefore has no identity if a name in its certificate contains a NUL character.
- An identity pattern is an identity in which one `*` may replace one whole label. This `*` matches exactly one label.
- In a host name, labels are the parts between dots. In a URI, labels are the parts between slashes after the authority.
  In an email address, the part before the @ is a label.
- Each key in the file is an identity or an identity pattern, and its value is a list of methods. An item of this list
  is the path of one method, `/package.Service/*` for all methods of a service, or `*` for all methods.
- A caller may call a method only if the file permits it. A caller with several identities may call every method that
  one of its identities may call.
- If the file contains a method that this server does not have, this is an error, because the name is probably
  misspelled. Without the error, the intended method would silently be forbidden.
- Health checks need no permission, so this module does not check their methods.
"""

import re
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from tensor_reshape.server.config import ConfigError, SettingsError
from tensor_reshape.server.security.reloads import Reloaded, read_file

TOKEN_KIND = "token"  # noqa: S105 - not a password
TOKEN_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""The form of a valid token name. Such a name is safe in logs, metric labels and files."""

# This dict maps each kind of identity to its key in gRPC's `auth_context`.
_PROPERTIES = {"uri": "peer_uri", "dns": "peer_dns", "email": "peer_email"}
_CERTIFICATE = "x509_pem_cert"  # the key of the certificate in gRPC's `auth_context`
# In a certificate in the encoding DER, the SAN extension begins with these bytes (RFC 5280).
_EXTENSION = re.compile(rb"\x06\x03\x55\x1d\x11(\x01\x01\xff)?\x04")
# These are the DER tags of email addresses, hosts and URIs. The tag of IP addresses is not in the list, because IP
# addresses may contain zero bytes.
_NAME_TAGS = (0x81, 0x82, 0x86)
_LONG = 0x80  # in DER, this bit marks a length that takes several bytes
_VISIBLE = re.compile(b"[!-~]+")
# For each kind of pattern, this dict has a regular expression for the texts that a * matches.
_ANY_LABELS = {"uri": "[^/]+", "dns": r"[^.]+", "email": "[^@]+", TOKEN_KIND: ".+"}
_LABEL = "[!-)+-.0-~]+"  # this expression matches visible ASCII characters except * and /
_FORMS = {
    # The scheme and the host (authority) of a URI pattern must not contain *, because the owner of the host decides
    # what the rest of the URI means.
    "uri": re.compile(rf"[a-z][a-z0-9+.-]*:(//{_LABEL}(/(\*|{_LABEL}))*|{_LABEL})"),
    "dns": re.compile(r"((\*|[\w-]+)\.)*[\w-]+", re.ASCII),
    "email": re.compile(r"(\*|[!-)+-.0-?A-~]+)@[\w.-]+", re.ASCII),
    TOKEN_KIND: re.compile(rf"\*|{TOKEN_NAME.pattern}"),
}


_TABLE = "callers"
_SERVICE = re.compile(r"/[\w.]+/\*")
_Grants = Sequence[tuple[re.Pattern[str], frozenset[str]]]


def read_identities(tls: Mapping[str, Sequence[bytes]]) -> list[str]:
    """Returns the identities in a client's certificate, or an empty list if the client has no certificate.

    Names with other characters than visible ASCII are omitted, because no pattern can match them, and because
    identities may be logged.

    Args:
        tls: gRPC's `auth_context` of the connection, which contains the certificate and its names.
    """
    if any(map(_has_cut_names, tls.get(_CERTIFICATE, ()))):
        return []
    return [
        fold_identity(f"{kind}:{value.decode()}")
        for kind, name in _PROPERTIES.items()
        for value in tls.get(name, ())
        if _VISIBLE.fullmatch(value)
    ]


# The cache of certificates saves about ten microseconds for each call. Untrusted clients cannot fill the cache, because
# the authority has signed all certificates that are checked here.
@lru_cache(256)
def _has_cut_names(certificate: bytes) -> bool:
    """Returns whether a PEM certificate contains a name with a NUL character, which grpcio would cut off."""
    content = ssl.PEM_cert_to_DER_cert(certificate.decode())
    # The code checks every position at which the first bytes of a SAN extension occur. A client can put these bytes
    # into other parts of its certificate, such as its key, but this can only cause more rejections.
    return any(_has_nul(content, found.end()) for found in _EXTENSION.finditer(content))


def _has_nul(content: bytes, position: int) -> bool:
    """Returns whether the names in a SAN extension contain a NUL character or are invalid.

    The length of the extension is encoded at `position`, and the names follow.
    """
    try:
        position, _ = _read_extent(content, position)  # the position where the contents of the SAN extension start
        # the position where the first name in the extension starts
        position, end = _read_extent(content, position + 1)
        while position < end:
            start, after = _read_extent(content, position + 1)
            if content[position] in _NAME_TAGS and 0 in content[start:after]:
                return True
            position = after
    except IndexError:
        return True
    return False


def _read_extent(content: bytes, position: int) -> tuple[int, int]:
    """Returns the start and the end of a DER value whose length is encoded at `position`."""
    length, start = content[position], position + 1
    if length & _LONG:
        size = length & ~_LONG
        length, start = int.from_bytes(content[start : start + size]), start + size
    return start, start + length


def fold_identity(identity: str) -> str:
    """Returns an identity with its host name in lower case, because host names are compared without regard to case."""
    kind, _, name = identity.partition(":")
    if kind == "dns":
        return identity.lower()
    if kind == "email":
        local, _, host = name.rpartition("@")
        return f"email:{local}@{host.lower()}"
    return identity


def compile_pattern(text: str) -> re.Pattern[str]:
    """Returns a regular expression that matches all identities of an identity pattern.

    Raises:
        SettingsError: the text is not a valid identity pattern.
    """
    kind, _, name = text.partition(":")
    form = _FORMS.get(kind)
    if form is None or not form.fullmatch(name) or name.count("*") > 1:
        message = (
            f"{text!r} is not a valid identity: write uri:scheme://authority/path, dns:host, email:name@host or "
            "token:NAME. One * may replace a whole label, but not in the authority of a URI or the host of an "
            "email address"
        )
        raise SettingsError(message)
    # Matching a regular expression is ten times as fast as splitting an identity into labels for each pattern.
    return re.compile(_ANY_LABELS[kind].join(map(re.escape, fold_identity(text).split("*"))))


class Permissions(Reloaded[_Grants]):
    """The permissions from a TOML file, which is reloaded after a change."""

    def __init__(self, path: Path, methods: Collection[str]) -> None:
        """Reads the file.

        Args:
            path: the path of the file.
            methods: the paths of all methods of this server.

        Raises:
            ConfigError: the file cannot be read, or is invalid.
        """
        super().__init__("authorization", [path], partial(_load, path, frozenset(methods)))

    def permit(self, identities: Iterable[str], method: str) -> bool:
        """Returns whether at least one of the identities may call a method."""
        return any(method in methods and any(map(pattern.fullmatch, identities)) for pattern, methods in self.value)


def _load(path: Path, known: frozenset[str]) -> _Grants:
    import tomllib  # noqa: PLC0415 - saves memory without an authorization file

    try:
        content = tomllib.loads(read_file(path).decode())
    # The parser raises ValueError for numbers with too many digits, and RecursionError for deeply nested lists.
    except (ValueError, RecursionError) as error:
        place = re.search(r"at line \d+, column \d+|at end of document", str(error))
        message = f"{path} is not valid TOML{f' {place[0]}' if place else ''}"
        raise ConfigError(message) from None
    callers = content.get(_TABLE)
    if set(content) != {_TABLE} or not isinstance(callers, dict):
        message = f"{path} must have one table, [{_TABLE}], and nothing else"
        raise ConfigError(message)
    return [_read_grant(path, pattern, methods, known) for pattern, methods in callers.items()]


def _read_grant(
    path: Path,
    pattern: str,
    methods: Any,  # noqa: ANN401 - what a file holds
    known: frozenset[str],
) -> tuple[re.Pattern[str], frozenset[str]]:
    if not isinstance(methods, list):
        message = f"{path}: {pattern!r} must have a list of methods as its value"
        raise ConfigError(message)
    try:
        return compile_pattern(pattern), frozenset().union(*(_find_methods(method, known) for method in methods))
    except ConfigError as error:
        message = f"{path}: {error}"
        raise ConfigError(message) from None


def _find_methods(text: Any, known: frozenset[str]) -> frozenset[str]:  # noqa: ANN401 - what a file holds
    """Returns the methods that an item of a method list permits."""
    written = str(text)
    if written == "*":
        return known
    service = written.removesuffix("*") if _SERVICE.fullmatch(written) else None
    found = frozenset(name for name in known if name == written or (service and name.startswith(service)))
    if not found:
        message = f"{written!r} is not a method of this server: write /package.Service/Method, /package.Service/* or *"
        raise ConfigError(message)
    return found
