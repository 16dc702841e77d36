"""Checks the bearer tokens of clients. The valid tokens are read from a file and compared in constant time.

- A line of the token file has the form `NAME:TOKEN` or `NAME:sha256:HEX`. The second form contains the hash of a token,
  so the file need not contain secrets. Empty lines and lines that begin with # are ignored.
- A name may have several tokens, so that the old token and the new token are both valid while clients change their
  token.
- The server keeps only the hashes of tokens in memory. The hash of a received token is compared with all these hashes,
  even after a match, so that the duration of the check reveals nothing about the tokens. Because each comparison takes
  0.1 microseconds, the number of tokens is limited.
- When the server reads the file, it rejects tokens that are short enough to be guessed. If the file contains only the
  hash of a token, the server cannot check the length of the token.
- Errors, logs and responses contain neither tokens nor the reason why a received token is invalid.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.security.permissions import TOKEN_KIND, TOKEN_NAME
from tensor_reshape.server.security.reloads import Reloaded, read_file

MAX_TOKENS = 256
"""The maximum number of tokens in a token file."""

MIN_TOKEN_CHARACTERS = 32
"""The minimum length of a token in plain text.

A hexadecimal token of this length has 128 bits, which cannot be guessed.
"""

MAX_TOKEN_CHARACTERS = 8192
"""The maximum length of a received token.

A longer token is invalid and is not hashed. Signed tokens can have thousands of characters.
"""

# RFC 6750 defines this syntax for bearer tokens. It excludes colons, so a token never begins with "sha256:".
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_HASH = re.compile("[0-9a-f]{64}")
_HASH_PREFIX = "sha256:"
_HASH_OF_NOTHING = hashlib.sha256().hexdigest()
_SCHEME = "bearer "

_Digests = Sequence[tuple[bytes, str]]


class Tokens(Reloaded[_Digests]):
    """The names and hashes of the tokens in a token file, which is reloaded after a change."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            ConfigError: the file cannot be read, or a line is invalid.
        """
        super().__init__("tokens", [path], partial(_load, path))

    def find_identity(self, values: Sequence[str | bytes]) -> str:
        """Returns the owner of the received token as `token:NAME`, or an empty text if the call has no valid token.

        Args:
            values: the values of the metadata key `authorization`. If a call has several values, it has no valid token.
        """
        token = _read_token(values)
        if not token:
            return ""
        digest = hashlib.sha256(token.encode()).digest()
        name = ""
        # The loop continues after a match, so that its duration does not reveal which token matched.
        for known, owner in self.value:
            if hmac.compare_digest(known, digest):
                name = owner
        return f"{TOKEN_KIND}:{name}" if name else ""


def _read_token(values: Sequence[str | bytes]) -> str:
    """Returns the token in the metadata, or an empty text if the metadata do not contain exactly one bearer token."""
    value = values[0] if len(values) == 1 else ""
    if not isinstance(value, str) or len(value) > MAX_TOKEN_CHARACTERS or value[: len(_SCHEME)].lower() != _SCHEME:
        return ""
    return value[len(_SCHEME) :]


def _load(path: Path) -> _Digests:
    try:
        lines = read_file(path).decode().splitlines()
    except UnicodeDecodeError:
        message = f"{path} is not text in UTF-8"
        raise ConfigError(message) from None
    digests = [
        _read_line(f"{path}:{number}", line.strip())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not 1 <= len(digests) <= MAX_TOKENS:
        message = f"{path} has {len(digests)} tokens, but it must have 1 to {MAX_TOKENS}"
        raise ConfigError(message)
    if len({digest for digest, _ in digests}) < len(digests):
        message = f"{path} contains the same token twice"  # otherwise the token would have two owners
        raise ConfigError(message)
    return digests


def _read_line(location: str, line: str) -> tuple[bytes, str]:
    """Returns the hash and the name in a line of the token file.

    Error texts begin with `location`, the file and line number.
    """
    name, _, token = line.partition(":")
    if not TOKEN_NAME.fullmatch(name) or not token:
        message = f"{location} is not NAME:TOKEN or NAME:sha256:HEX. A name has up to 64 letters, digits and . _ -"
        raise ConfigError(message)
    if token.startswith(_HASH_PREFIX):
        return _read_hash(location, token.removeprefix(_HASH_PREFIX).lower()), name
    if not _TOKEN.fullmatch(token) or not MIN_TOKEN_CHARACTERS <= len(token) <= MAX_TOKEN_CHARACTERS - len(_SCHEME):
        message = (
            f"{location} has an invalid token. A token has at least {MIN_TOKEN_CHARACTERS} letters, digits and -._~+/, "
            "and may end with =. Create a token with `openssl rand -hex 32`"
        )
        raise ConfigError(message)
    return hashlib.sha256(token.encode()).digest(), name


def _read_hash(location: str, text: str) -> bytes:
    if not _HASH.fullmatch(text):
        message = f"{location} has an invalid SHA-256 hash. A hash has 64 hexadecimal digits"
        raise ConfigError(message)
    if text == _HASH_OF_NOTHING:
        # The operator may have hashed an empty token, for example because a shell variable was not set.
        message = f"{location} has the SHA-256 hash of an empty token"
        raise ConfigError(message)
    return bytes.fromhex(text)
