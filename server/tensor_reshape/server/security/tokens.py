"""Bearer tokens of clients, read from a file and compared in constant time.

- A line of the token file is `NAME:TOKEN` or `NAME:sha256:HEX`. The second form contains the hash of a token, so that
  the file contains no secret. Empty lines and lines that begin with # are ignored.
- A name may have several tokens, so that the old token and the new token are both valid while clients change their
  token.
- The server keeps only the hashes of tokens in memory. The hash of a received token is compared with all these hashes,
  even after a match, so that the duration reveals nothing. A comparison takes 0.1 microseconds, so the number of tokens
  is limited.
- When the server reads the file, it rejects a token that could be guessed. If the file contains only the hash of a
  token, the server cannot check whether the token could be guessed.
- Errors, logs and responses never contain a token, or the reason why a received token is invalid.
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

# RFC 6750 defines this syntax for a token. The syntax excludes colons, so a token never begins with "sha256:".
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_HASH = re.compile("[0-9a-f]{64}")
_HASH_PREFIX = "sha256:"
_HASH_OF_NOTHING = hashlib.sha256().hexdigest()
_SCHEME = "bearer "

_Digests = Sequence[tuple[bytes, str]]


class Tokens(Reloaded[_Digests]):
    """The tokens in a token file."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            ConfigError: the file cannot be read, or a line is invalid.
        """
        super().__init__("tokens", [path], partial(_load, path))

    def find_identity(self, values: Sequence[str | bytes]) -> str:
        """Returns the owner of the received token as `token:NAME`, or an empty text without a valid token.

        Args:
            values: the values of the metadata `authorization`. If there are several values, no token is valid.
        """
        token = _read_token(values)
        if not token:
            return ""
        digest = hashlib.sha256(token.encode()).digest()
        name = ""
        # the loop continues after a match, so that its duration does not reveal which token matched
        for known, owner in self.value:
            if hmac.compare_digest(known, digest):
                name = owner
        return f"{TOKEN_KIND}:{name}" if name else ""


def _read_token(values: Sequence[str | bytes]) -> str:
    """Returns the received token, or an empty text if there is none."""
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
        message = f"{path} contains the same token twice"  # a token with two names would have two owners
        raise ConfigError(message)
    return digests


def _read_line(location: str, line: str) -> tuple[bytes, str]:
    """Returns the hash and the name of a token. `location` is the file and the number of the line, for errors."""
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
        # A token can be empty, for example because a shell variable was not set.
        message = f"{location} has the SHA-256 hash of an empty token"
        raise ConfigError(message)
    return bytes.fromhex(text)
