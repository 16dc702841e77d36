"""Reads the bearer token of a client, and decides over which connections the token is sent.

- The client sends a token over any TLS connection. Without TLS, the client sends a token only to this machine, and only
  if the caller allows it. In all other cases, the client raises an error before it creates a channel.
- Over TLS, the token is sent in the metadata of each call. With call credentials, which are gRPC's own mechanism, a
  small call took four times as long, because gRPC starts a Python thread for every call. Call credentials are used only
  if this module does not recognize the kind of the channel credentials. gRPC's core then sends the token over
  connections that it considers private, and fails a call over any other connection.
- The client checks before every call whether the token file has changed, because tokens are rotated by replacing the
  file. This check of the file costs one system call. While the file is missing or empty, the client continues to use
  the previous token.
- A token never appears in the text of an error or in a `repr`.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import grpc

from tensor_reshape.client.grpc_core import is_tls
from tensor_reshape.runtime.addresses import is_local

AUTHORIZATION_KEY = "authorization"
"""The metadata key of the token."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 defines this syntax for bearer tokens


ReadPair: TypeAlias = Callable[[], tuple[str, str]]
"""Returns the metadata with the bearer token for a new call. Threads may share this function."""


class FileToken:
    """A bearer token from a file, which is read again whenever the file has changed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file does not contain a token.
        """
        self._path = Path(path)
        self._version = self._find_version()
        self._pair = _build_pair(self._read())

    def read_pair(self) -> tuple[str, str]:
        """Returns the metadata with the token for a new call."""
        # While the token file is being replaced, the client uses the previous token.
        with suppress(OSError, ValueError):
            version = self._find_version()
            if version != self._version:
                # If the token file changes between the version check and the read, the stored version is too old, so
                # the next call reads the token file again.
                self._pair, self._version = _build_pair(self._read()), version
        return self._pair

    def _read(self) -> str:
        # Invalid bytes in the token file are replaced, because the text of a decoding error would contain the token.
        text = self._path.read_text("ascii", "replace")
        if not text.strip():  # the file may be empty because a shell variable was not set
            raise ValueError("not a valid token: the file is empty")
        return text

    def _find_version(self) -> tuple[int, ...]:
        """Returns a value that changes when the file is written or replaced.

        If the path is a symbolic link, the value also changes when the link points to another file.
        """
        found = self._path.stat()
        # The file version includes the time of the inode change, because a program that copies the file may keep the
        # modification time.
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def authorize(
    target: str,
    credentials: grpc.ChannelCredentials | None,
    token: str | None,
    token_file: str | os.PathLike[str] | None,
    *,
    allow_plaintext: bool,
) -> tuple[grpc.ChannelCredentials | None, ReadPair | None]:
    """Returns the channel credentials, and the function that reads the token for the metadata of each call.

    The function is None if the client has no token, or if gRPC's core adds the token.

    Args:
        target: the target, in the form that `Client` accepts.
        credentials: channel credentials, or None for a connection in plain text.
        token: the token.
        token_file: the file with the token.
        allow_plaintext: whether the token may be sent in plain text to this machine.

    Raises:
        OSError: the file cannot be read.
        ValueError: the token is invalid, the caller has passed both a token and a file, or the token would be sent in
            plain text.
    """
    given = _read_token(token, token_file)
    if given is None or (credentials is None and allow_plaintext and is_local(target)):
        return credentials, given
    if credentials is None:
        message = (
            "a token needs TLS: pass credentials=grpc.ssl_channel_credentials(), or allow_plaintext_token=True if the "
            "server is on this machine"
        )
        raise ValueError(message)
    if is_tls(credentials):
        return credentials, given

    # grpcio calls this function on a new thread for each call.
    def pass_token(_: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        callback((given(),), None)

    calls = grpc.metadata_call_credentials(pass_token, name="token")  # type: ignore[arg-type] # any callable
    return grpc.composite_channel_credentials(credentials, calls), None


def _read_token(token: str | None, token_file: str | os.PathLike[str] | None) -> ReadPair | None:
    if token is not None and token_file is not None:
        raise ValueError("both token and token_file are given: pass only one of them")
    if token_file is not None:
        return FileToken(token_file).read_pair
    if token is None:
        return None
    pair = _build_pair(token)
    return lambda: pair


def _build_pair(text: str) -> tuple[str, str]:
    token = text.strip()  # `strip` removes the line break at the end of a token file
    if not _TOKEN.fullmatch(token):
        raise ValueError("not a valid token: use letters, digits and -._~+/, optionally with = at the end")
    return AUTHORIZATION_KEY, f"Bearer {token}"
