"""TLS, and clients that must show who they are."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from certificates import Certificates, issue_certificates
from command_line import run_command
from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, Client, UnavailableError


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue_certificates(tmp_path_factory.mktemp("certificates"))


def get_flags(files: Certificates) -> list[str]:
    return ["--tls-certificate", str(files.server), "--tls-key", str(files.server_key)]


@pytest.fixture(scope="module")
def server(files: Certificates) -> Iterator[ServerProcess]:
    """One that shows who it is."""
    with run_server(*get_flags(files)) as server:
        yield server


@pytest.fixture(scope="module")
def demanding_server(files: Certificates) -> Iterator[ServerProcess]:
    """One whose clients have to show who they are, too."""
    with run_server(*get_flags(files), "--tls-client-ca", str(files.authority)) as server:
        yield server


def trust(files: Certificates) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(files.authority.read_bytes())


def identify(files: Certificates) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        files.authority.read_bytes(), files.client_key.read_bytes(), files.client.read_bytes()
    )


def infer(client: Client) -> tuple[int, ...]:
    return client.infer_shape([2, 3], [6], special_zero=False, timeout=60).known


def test_a_client_that_trusts_the_authority_is_answered(files: Certificates, server: ServerProcess):
    with Client(server.address, credentials=trust(files)) as client:
        assert infer(client) == (6,)


async def test_an_asyncio_client_that_trusts_the_authority_is_answered(files: Certificates, server: ServerProcess):
    async with AsyncClient(server.address, credentials=trust(files)) as client:
        assert await client.infer_shape([2, 3], [6], special_zero=False) == (6,)


@pytest.mark.usefixtures("impatience")
def test_a_client_in_plain_text_is_not_answered(server: ServerProcess):
    with Client(server.address) as client, pytest.raises(UnavailableError):
        infer(client)


@pytest.mark.usefixtures("impatience")
def test_a_client_that_trusts_somebody_else_is_not_answered(server: ServerProcess, tmp_path: Path):
    strangers = trust(issue_certificates(tmp_path))
    with Client(server.address, credentials=strangers) as client, pytest.raises(UnavailableError):
        infer(client)


def test_a_client_with_a_certificate_is_answered_where_one_is_demanded(
    files: Certificates, demanding_server: ServerProcess
):
    with Client(demanding_server.address, credentials=identify(files)) as client:
        assert infer(client) == (6,)


@pytest.mark.usefixtures("impatience")
def test_a_client_without_a_certificate_is_not_answered_where_one_is_demanded(
    files: Certificates, demanding_server: ServerProcess
):
    with Client(demanding_server.address, credentials=trust(files)) as client, pytest.raises(UnavailableError):
        infer(client)


def test_the_command_line_connects_with_a_certificate_of_its_own(files: Certificates, demanding_server: ServerProcess):
    identity: list[str | Path] = ["--tls-certificate", files.client, "--tls-key", files.client_key]
    address = demanding_server.address
    outcome = run_command("health", "--server", address, "--tls-ca", files.authority, *identity)
    assert (outcome.code, outcome.text) == (0, "SERVING")


@pytest.mark.parametrize("given", ["--tls-key", "--tls-certificate"])
def test_half_an_identity_on_the_command_line_is_a_usage_error(files: Certificates, given: str):
    file = {"--tls-key": files.client_key, "--tls-certificate": files.client}[given]
    assert run_command("health", "--server", "127.0.0.1:1", "--timeout", "1", given, file).code == 2
