"""Who is at the other end of a connection over HTTP is known by the names that gRPC gives him."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import trustme

from certificates import Certificates, issue_certificates
from tensor_reshape.server.http.peers import Peer, find_peer, read_certificate
from tensor_reshape.server.security.identities import read_identities


@pytest.fixture
def files(tmp_path: Path) -> Certificates:
    return issue_certificates(tmp_path, trustme.CA())


async def shake_hands(files: Certificates, *, demands: bool) -> Mapping[str, Sequence[bytes]]:
    """Has a client connect over TLS, and returns what the server reads of it."""
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.authority))
    served.load_cert_chain(files.server, files.server_key)
    served.verify_mode = ssl.CERT_REQUIRED if demands else ssl.CERT_NONE
    trusted = ssl.create_default_context(cafile=str(files.authority))
    trusted.load_cert_chain(files.client, files.client_key)
    found: asyncio.Future[Mapping[str, Sequence[bytes]]] = asyncio.get_running_loop().create_future()

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.set_result(read_certificate(writer.transport))  # type: ignore[arg-type] # of asyncio's own type
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=served)
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=trusted)
        told = await found
        writer.close()
    return told


async def test_a_certificate_proves_what_it_does_over_grpc(files: Certificates):
    told = await shake_hands(files, demands=True)
    assert read_identities(told) == ["email:client@example.org"]


async def test_one_that_was_not_asked_for_proves_nothing(files: Certificates):
    assert await shake_hands(files, demands=False) == {}


def test_a_request_knows_whose_connection_it_came_on():
    peer = Peer("ipv4:127.0.0.1:1", dict, lambda: None)
    assert find_peer({"state": dict(peer.note())}) is peer
