"""The bearer tokens that callers may show: who has which, read from a file, and compared in constant time.

- A line of the file is `NAME:TOKEN`, or `NAME:sha256:HEX` with the hash of the token instead: then the file holds no
  secret. Empty lines, and lines that begin with #, say nothing. A name may have several tokens, so that one is rotated
  without a moment at which neither the old nor the new one is taken.
- Only hashes are kept. A token that is shown is hashed and compared with all of them, whichever fits: how long that
  takes tells nothing of any. To compare with one takes a tenth of a microsecond, so there are few.
- A token that could be guessed is refused when the file is read; of one that is given by its hash, nobody knows.
- No error, log or answer holds a token, or says what is wrong about one that was shown.
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
"""How many tokens a file may have."""

MIN_TOKEN_CHARACTERS = 32
"""The least that a token in plain text has: 128 bits in hexadecimal, which nobody guesses."""

MAX_TOKEN_CHARACTERS = 8192
"""The most that is hashed: above, it is none of ours. Signed tokens have thousands."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # as RFC 6750 has it: without a colon, so no token begins with sha256:
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
            ConfigError: it cannot be read, or a line of it is none.
        """
        super().__init__("tokens", [path], partial(_load, path))

    def find_identity(self, values: Sequence[str | bytes]) -> str:
        """Returns whose token was shown, as `token:NAME`; empty where none was that is taken.

        Args:
            values: of the metadata `authorization`; a call that has several shows none.
        """
        token = _read_token(values)
        if not token:
            return ""
        digest = hashlib.sha256(token.encode()).digest()
        name = ""
        for known, owner in self.value:  # all of them, also behind the one that fits
            if hmac.compare_digest(known, digest):
                name = owner
        return f"{TOKEN_KIND}:{name}" if name else ""


def _read_token(values: Sequence[str | bytes]) -> str:
    """Returns the token that was shown; empty where none was."""
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
        message = f"{path} contains a token twice"  # of two names, it would be unclear who calls
        raise ConfigError(message)
    return digests


def _read_line(place: str, line: str) -> tuple[bytes, str]:
    """Returns the hash of a token and its name; `place` is what an error says instead of the line."""
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
        message = f"{place} has the SHA-256 hash of an empty token"  # as of a variable that was not set
        raise ConfigError(message)
    return bytes.fromhex(text)
