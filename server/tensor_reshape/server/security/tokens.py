"""Bearer tokens of clients, read from a file and compared in constant time.

- A line of the file is `NAME:TOKEN`, or `NAME:sha256:HEX` with the hash of the token, so that the file contains no
  secret. Empty lines and lines that begin with # are ignored. A name may have several tokens, so that a token can be
  rotated while both are valid.
- Only hashes are kept. A received token is hashed and compared with all of them, even after a match, so that the
  duration reveals nothing. One comparison takes a tenth of a microsecond, so the number of tokens is limited.
- A token that could be guessed is rejected when the file is read. This cannot be checked for a token given by its hash.
- Errors, logs and responses never contain a token, or the reason why a received one is invalid.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.security.identities import TOKEN_KIND, TOKEN_NAME
from tensor_reshape.server.security.reloads import Reloaded, read_file

MAX_TOKENS = 256
"""The maximum number of tokens in a file."""

MIN_TOKEN_CHARACTERS = 32
"""The minimum length of a token in plain text: 128 bits in hexadecimal, which cannot be guessed."""

MAX_TOKEN_CHARACTERS = 8192
"""The maximum length of a received token.

Longer ones are invalid and are not hashed. Signed tokens have thousands of characters.
"""

# the syntax of RFC 6750, which has no colon, so no token begins with sha256:
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_HASH = re.compile("[0-9a-f]{64}")
_HASH_PREFIX = "sha256:"
_HASH_OF_NOTHING = hashlib.sha256().hexdigest()
_SCHEME = "bearer "

_Digests = Sequence[tuple[bytes, str]]


class Tokens(Reloaded[_Digests]):
    """The tokens of a file."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            ConfigError: the file cannot be read, or a line is invalid.
        """
        super().__init__("tokens", [path], partial(_load, path))

    def find_identity(self, values: Sequence[str | bytes]) -> str:
        """Returns the owner of the received token as `token:NAME`; empty if there is no valid token.

        Args:
            values: the values of the metadata `authorization`. With several values no token is valid.
        """
        token = _read_token(values)
        if not token:
            return ""
        digest = hashlib.sha256(token.encode()).digest()
        name = ""
        for known, owner in self.value:  # all of them, also after a match
            if hmac.compare_digest(known, digest):
                name = owner
        return f"{TOKEN_KIND}:{name}" if name else ""


def _read_token(values: Sequence[str | bytes]) -> str:
    """Returns the received token; empty if there is none."""
    value = values[0] if len(values) == 1 else ""
    if not isinstance(value, str) or len(value) > MAX_TOKEN_CHARACTERS or value[: len(_SCHEME)].lower() != _SCHEME:
        return ""
    return value[len(_SCHEME) :]


def _load(path: Path) -> _Digests:
    try:
        lines = read_file(path).decode().splitlines()
    except UnicodeDecodeError:
        message = f"{path} is not text"
        raise ConfigError(message) from None
    digests = [
        _read_line(f"{path}:{number}", line.strip())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not 1 <= len(digests) <= MAX_TOKENS:
        message = f"{path} has {len(digests)} tokens; it must have 1 to {MAX_TOKENS}"
        raise ConfigError(message)
    if len({digest for digest, _ in digests}) < len(digests):
        message = f"{path} contains a token twice"  # with two names, the owner would be ambiguous
        raise ConfigError(message)
    return digests


def _read_line(place: str, line: str) -> tuple[bytes, str]:
    """Returns the hash of a token and its name; `place` describes the line in errors."""
    name, _, token = line.partition(":")
    if not TOKEN_NAME.fullmatch(name) or not token:
        message = f"{place} is not NAME:TOKEN, or NAME:sha256:HEX; a name has up to 64 letters, digits and . _ -"
        raise ConfigError(message)
    if token.startswith(_HASH_PREFIX):
        return _read_hash(place, token.removeprefix(_HASH_PREFIX).lower()), name
    if not _TOKEN.fullmatch(token) or not MIN_TOKEN_CHARACTERS <= len(token) <= MAX_TOKEN_CHARACTERS - len(_SCHEME):
        message = (
            f"{place} has no token: it consists of letters, digits and -._~+/, may end with =, and has at least "
            f"{MIN_TOKEN_CHARACTERS} characters; `openssl rand -hex 32` makes one"
        )
        raise ConfigError(message)
    return hashlib.sha256(token.encode()).digest(), name


def _read_hash(place: str, text: str) -> bytes:
    if not _HASH.fullmatch(text):
        message = f"{place} has no SHA-256 hash of 64 hexadecimal digits"
        raise ConfigError(message)
    if text == _HASH_OF_NOTHING:
        message = f"{place} has the SHA-256 hash of an empty token"  # as from a variable that was not set
        raise ConfigError(message)
    return bytes.fromhex(text)
