"""The token of a client, and the connections on which it may be sent. e2e/test_access tests the server."""

import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import grpc.experimental
import pytest

from both_clients import open_client
from in_process import run_stock
from tensor_reshape.client import AsyncClient, Client, ServiceError
from tensor_reshape.client.tokens import FileToken, authorize

SECRET = "s3cret-" * 6
PLAIN: dict[str, Any] = {"allow_plaintext_token": True}
HERE, ELSEWHERE = "localhost:1", "server.example.org:1"


@pytest.fixture
def seen() -> list[str | bytes]:
    """The authorization metadata of each call at `address`, in order."""
    return []


@pytest.fixture
def address(seen: list[str | bytes]) -> Iterator[str]:
    """The address of a server that rejects every call."""

    def reject(_: object, context: grpc.ServicerContext) -> NoReturn:
        seen.extend(value for key, value in context.invocation_metadata() if key == "authorization")
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "seen")

    with run_stock({"InferShape": reject, "Reshape": reject}, streams={"StreamReshape": reject}) as address:
        yield address


ON_OTHER_MACHINES = ["0.0.0.0:1", "ipv4:127.0.0.1:1,10.0.0.1:1", "ipv4:10.0.0.1:1/127.0.0.1", "dns:///example.org"]


async def test_token_over_plain_text_is_rejected_before_sending():
    rows: list[tuple[str, dict[str, Any]]] = [
        *((target, {}) for target in (HERE, ELSEWHERE, "unix:/socket")),
        (HERE, {"allow_plaintext_token": False}),
        *((target, PLAIN) for target in (ELSEWHERE, *ON_OTHER_MACHINES)),
    ]
    for kind in (Client, AsyncClient):
        for target, given in rows:
            with pytest.raises(ValueError, match="a token needs TLS"):
                kind(target, token=SECRET, **given)


@pytest.mark.parametrize(
    "text", ["", " ", "two words", "line\nbreak", "\u00e9" * 20, "a=b", f"Bearer {SECRET}", f"{SECRET}\udcff"]
)
def test_invalid_token_error_hides_the_token(text: str, tmp_path: Path):
    (tmp_path / "token").write_text(text, errors="surrogateescape")  # the last text is not UTF-8
    for given in ({"token": text}, {"token_file": tmp_path / "token"}):
        with pytest.raises(ValueError, match="not a valid token") as caught:
            Client(HERE, **PLAIN, **given)
        shown = "".join(traceback.format_exception(caught.value))
        assert SECRET not in shown
        assert not text.strip() or text not in shown


def test_client_rejects_more_than_one_token_source(tmp_path: Path):
    metadata = [("authorization", "Basic x")]
    with pytest.raises(ValueError, match="pass only one of them"):
        Client(HERE, token=SECRET, token_file=tmp_path, **PLAIN)
    with pytest.raises(ValueError, match="remove one of them"):
        Client(HERE, token=SECRET, metadata=metadata, **PLAIN)
    with Client(HERE, token=SECRET, **PLAIN) as client, pytest.raises(ValueError, match="authorization"):
        client.infer_shape([6], [6], special_zero=False, metadata=metadata)


def test_missing_token_file_raises_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        Client(HERE, token_file=tmp_path / "missing", **PLAIN)


@pytest.mark.parametrize("text", ["", "\n"])
def test_error_for_an_empty_token_file_says_that_it_is_empty(text: str, tmp_path: Path):
    (tmp_path / "token").write_text(text)
    with pytest.raises(ValueError, match="not a valid token: the file is empty"):
        Client(HERE, token_file=tmp_path / "token", **PLAIN)


def test_token_is_not_shown_by_repr_or_str(tmp_path: Path):
    (tmp_path / "token").write_text(SECRET)
    authorization = authorize(HERE, None, SECRET, None, allow_plaintext=True)
    shown = [authorization, FileToken(tmp_path / "token")]
    assert SECRET not in "".join(map(repr, shown)) + "".join(map(str, shown))


def test_client_reloads_a_replaced_token_file(tmp_path: Path):
    path, other = tmp_path / "token", tmp_path / "other"
    path.write_text("one\n")
    other.write_text("two\n")
    token, found = FileToken(path), path.stat()
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert token.read_pair() == ("authorization", "Bearer one")
    other.replace(path)
    assert token.read_pair() == ("authorization", "Bearer two")


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text(""), lambda path: path.write_text("a b")])
def test_client_ignores_a_temporarily_damaged_token_file(damage: Callable[[Path], object], tmp_path: Path):
    path = tmp_path / "token"
    path.write_text("one\n")
    token = FileToken(path)
    damage(path)
    assert token.read_pair() == token.read_pair() == ("authorization", "Bearer one")
    path.write_text("another\n")
    assert token.read_pair() == ("authorization", "Bearer another")


def test_each_call_sends_the_current_token_of_the_file(
    kind: str, address: str, seen: list[str | bytes], tmp_path: Path
):
    path = tmp_path / "token"
    path.write_text("one")
    with open_client(kind, address, token_file=path, **PLAIN) as client:
        for ask in (
            lambda: client.infer_shape([6], [6]),
            lambda: client.reshape([1, 2], [2]),
            lambda: client.reshape([1, 2], [2], transfer="stream"),
        ):
            with pytest.raises(ServiceError):
                ask()
            path.write_text(f"{path.read_text()}-and")
    assert seen == ["Bearer one", "Bearer one-and", "Bearer one-and-and"]


def test_token_is_sent_as_metadata_with_tls_credentials():
    credentials = grpc.ssl_channel_credentials()
    made, token = authorize(ELSEWHERE, credentials, SECRET, None, allow_plaintext=False)
    assert made is credentials
    assert token is not None
    assert token() == ("authorization", f"Bearer {SECRET}")


def test_token_is_sent_only_over_secure_channels_with_custom_credentials(
    kind: str, address: str, seen: list[str | bytes], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tensor_reshape.client.retries.PATIENCE_SECONDS", 0.7)
    local = grpc.local_channel_credentials(
        grpc.LocalConnectionType.LOCAL_TCP
    )  # these credentials are valid only for local connections
    insecure = grpc.experimental.insecure_channel_credentials()  # type: ignore[no-untyped-call]
    rows = [(local, "seen", [f"Bearer {SECRET}"]), (insecure, r"health check|security level", [])]
    for credentials, text, shown in rows:
        with (
            open_client(kind, address, credentials=credentials, token=SECRET) as client,
            pytest.raises(ServiceError, match=text) as caught,
        ):
            client.infer_shape([6], [6])
        assert SECRET not in str(caught.value)
        assert seen == shown
        seen.clear()
