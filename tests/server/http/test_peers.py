"""The caller of a connection over HTTP has the names that gRPC gives it."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import trustme

from certificates import Certificates, issue_certificates
from tensor_reshape.server.http.peers import read_certificate
from tensor_reshape.server.security.identities import read_identities


async def shake_hands(files: Certificates, *, demands: bool) -> Mapping[str, Sequence[bytes]]:
    """Connects a client over TLS, and returns what the server reads of its certificate."""
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.authority))
    served.load_cert_chain(files.server, files.server_key)
    served.verify_mode = ssl.CERT_REQUIRED if demands else ssl.CERT_NONE
    trusted = ssl.create_default_context(cafile=str(files.authority))
    trusted.load_cert_chain(files.client, files.client_key)
    found: asyncio.Future[Mapping[str, Sequence[bytes]]] = asyncio.get_running_loop().create_future()

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.set_result(read_certificate(writer.transport))  # type: ignore[arg-type] # of asyncio's own type
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0, ssl=served) as server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=trusted)
        told = await found
        writer.close()
    return told


async def test_certificate_proves_an_identity_if_the_server_demands_it(tmp_path: Path):
    files = issue_certificates(tmp_path, trustme.CA())
    assert read_identities(await shake_hands(files, demands=True)) == ["email:client@example.org"]
    assert await shake_hands(files, demands=False) == {}
