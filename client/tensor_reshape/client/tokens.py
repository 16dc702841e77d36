"""The bearer token that a client shows with its calls, and where it may travel.

- It travels over TLS; to this machine also in plain text, where the caller says so. Everything else raises before
  there is a channel.
- Over TLS it is metadata of each call. gRPC's own means, call credentials, start a thread for every call, in Python: a
  small call took four times as long with them. They are used where the kind of the channel credentials is not known
  here: the core then sends the token over connections that it takes for private, and fails the call over any other.
- A file is looked at before every call, since tokens are rotated by replacing it: that is one system call. A
  file that is gone, or holds no token for a moment, changes nothing.
- A token is in no text that is made here: no error, no representation.
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
"""The key of the metadata that a token travels in."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # as RFC 6750 has it


class Token:
    """A token as the metadata have it; safe to share between threads."""

    def __init__(self, text: str) -> None:
        """Raises ValueError where the text is none."""
        self._pair = _build_pair(text)

    def read_pair(self) -> tuple[str, str]:
        """Returns the metadata of a call that begins now."""
        return self._pair


class FileToken(Token):
    """One that is read again whenever its file has changed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads it.

        Raises:
            OSError: the file cannot be read.
            ValueError: it holds no token.
        """
        self._path = Path(path)
        self._version = self._find_version()
        super().__init__(self._read())

    def read_pair(self) -> tuple[str, str]:
        """Returns the metadata of a call that begins now."""
        with suppress(OSError, ValueError):  # it is being replaced: what was read before holds
            version = self._find_version()
            if version != self._version:
                # What was looked at first may be older than what is read: then the next call reads once more.
                self._pair, self._version = _build_pair(self._read()), version
        return self._pair

    def _read(self) -> str:
        # No error of what decodes: it would hold the token.
        return self._path.read_text("ascii", "replace")

    def _find_version(self) -> tuple[int, ...]:
        """Returns what changes when the file is written or replaced, also by another target of a symbolic link."""
        found = self._path.stat()
        # The time of the change as well: the other one may be kept by what copies the file.
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


class Authorization(NamedTuple):
    """How a client shows who it is.

    Attributes:
        credentials: what its channels are made with; None: plain text.
        token: what goes with the metadata of each call; None: nothing, or the core adds it.
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
    """Returns how a client of `target` shows who it is.

    Args:
        target: as `Client` takes it.
        credentials: of its channels; None: plain text.
        token: that it shows.
        token_file: that holds the token instead.
        allow_plaintext: whether the token may travel in plain text to this machine.

    Raises:
        OSError: the file cannot be read.
        ValueError: what is given is no token, or there are two, or it would travel in plain text and may not.
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
        message = "a client has one token: give token, or token_file"
        raise ValueError(message)
    if token_file is not None:
        return FileToken(token_file)
    return None if token is None else Token(token)


class _TokenPlugin(grpc.AuthMetadataPlugin):
    """Gives gRPC the token of each call."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        """Called by grpcio, on a thread of its own for each call."""
        del context
        callback((self._token.read_pair(),), None)


def _build_pair(text: str) -> tuple[str, str]:
    token = text.strip()  # of the line end of a file
    if not _TOKEN.fullmatch(token):
        message = "that is no token: it consists of letters, digits and -._~+/, and may end with ="
        raise ValueError(message)
    return AUTHORIZATION_KEY, f"Bearer {token}"
