"""The bearer token of a client: how it is read, and over which connections it is sent.

- A token is sent over TLS. In plain text it is sent only to this machine, and only if the caller allows it. Every other
  combination raises an error before a channel exists.
- Over TLS the token is metadata of each call. gRPC's own mechanism, call credentials, starts a Python thread for every
  call, which made a small call four times as slow. It is used only if the kind of the channel credentials is unknown
  here: the core then sends the token over connections that it considers private, and fails the call over any other.
- A token file is checked before every call, because tokens are rotated by replacing it. That is one system call. If the
  file is missing or empty for a moment, the previous token stays valid.
- A token never appears in an error or a representation.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import grpc

from tensor_reshape.client.grpc_core import is_tls
from tensor_reshape.runtime.addresses import is_local

AUTHORIZATION_KEY = "authorization"
"""The metadata key of the token."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # the syntax of RFC 6750


class Token:
    """A token in the form of metadata. Threads may share it."""

    def __init__(self, text: str) -> None:
        """Raises ValueError if the text is not a token."""
        self._pair = _build_pair(text)

    def read_pair(self) -> tuple[str, str]:
        """Returns the metadata for a new call."""
        return self._pair


class FileToken(Token):
    """A token that is read again whenever its file has changed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file does not contain a token.
        """
        self._path = Path(path)
        self._version = self._find_version()
        super().__init__(self._read())

    def read_pair(self) -> tuple[str, str]:
        """Returns the metadata for a new call."""
        with suppress(OSError, ValueError):  # the file is being replaced: the previous token stays valid
            version = self._find_version()
            if version != self._version:
                # The checked version may be older than the content that is read. Then the next call reads the file
                # again.
                self._pair, self._version = _build_pair(self._read()), version
        return self._pair

    def _read(self) -> str:
        # # no decoding error, because its text would contain the token
        return self._path.read_text("ascii", "replace")

    def _find_version(self) -> tuple[int, ...]:
        """Returns a value that changes when the file is written or replaced, or a symbolic link points elsewhere."""
        found = self._path.stat()
        # Includes the time of the inode change, because a program that copies the file may keep the modification time.
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


class Authorization(NamedTuple):
    """How a client authenticates.

    Attributes:
        credentials: the channel credentials; None: plain text.
        token: the token for the metadata of each call; None: none, or the core adds it.
    """

    credentials: grpc.ChannelCredentials | None
    token: Token | None


def authorize(
    target: str,
    credentials: grpc.ChannelCredentials | None,
    token: str | None,
    token_file: str | os.PathLike[str] | None,
    *,
    allow_plaintext: bool,
) -> Authorization:
    """Returns how a client of `target` authenticates.

    Args:
        target: the target, as for `Client`.
        credentials: channel credentials; None: plain text.
        token: the token.
        token_file: the file with the token.
        allow_plaintext: whether the token may be sent in plain text to this machine.

    Raises:
        OSError: the file cannot be read.
        ValueError: the token is invalid, both a token and a file are given, or the token would be sent in plain text.
    """
    given = _read_token(token, token_file)
    if given is None or (credentials is None and allow_plaintext and is_local(target)):
        return Authorization(credentials, given)
    if credentials is None:
        message = (
            "a token is sent over TLS: give credentials, as from grpc.ssl_channel_credentials; to this machine, and "
            "nowhere else, allow_plaintext_token sends it in plain text"
        )
        raise ValueError(message)
    if is_tls(credentials):
        return Authorization(credentials, given)
    calls = grpc.metadata_call_credentials(_TokenPlugin(given), name="token")
    return Authorization(grpc.composite_channel_credentials(credentials, calls), None)


def _read_token(token: str | None, token_file: str | os.PathLike[str] | None) -> Token | None:
    if token is not None and token_file is not None:
        message = "a client has one token: pass either token or token_file"
        raise ValueError(message)
    if token_file is not None:
        return FileToken(token_file)
    return None if token is None else Token(token)


class _TokenPlugin(grpc.AuthMetadataPlugin):
    """Gives gRPC the token of each call."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        """Called by grpcio, on a new thread for each call."""
        del context
        callback((self._token.read_pair(),), None)


def _build_pair(text: str) -> tuple[str, str]:
    token = text.strip()  # removes the line end of a file
    if not _TOKEN.fullmatch(token):
        message = "not a valid token: use letters, digits and -._~+/, optionally with = at the end"
        raise ValueError(message)
    return AUTHORIZATION_KEY, f"Bearer {token}"
