"""TLS, clients that must show who they are, and certificates that are replaced."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path

import grpc
import pytest
import trustme
from cryptography import x509

from certificates import Certificates, issue_certificates, replace_file, write_named_certificate
from command_line import run_command
from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, Client, PermissionDeniedError, UnavailableError


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


def negotiate(address: str, version: ssl.TLSVersion) -> str | None:
    """Makes a handshake that offers one version of TLS alone; returns what was negotiated."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.set_ciphers("ALL:@SECLEVEL=0")  # or OpenSSL itself would not offer what is old
    context.minimum_version = context.maximum_version = version
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 60) as plain, context.wrap_socket(plain) as wrapped:
        return wrapped.version()


@contextmanager
def run_lenient_server(files: Certificates) -> Iterator[str]:
    """Serves handshakes of any version of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server, files.server_key)
    context.set_alpn_protocols(["h2"])
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):  # it is closed
            while True:
                one, _ = listener.accept()
                with one, suppress(OSError), context.wrap_socket(one, server_side=True) as wrapped:
                    wrapped.recv(1)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_nothing_below_tls_1_2_is_negotiated(files: Certificates, server: ServerProcess):
    assert negotiate(server.address, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    assert negotiate(server.address, ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    for version, name in ((ssl.TLSVersion.TLSv1_1, "TLSv1.1"), (ssl.TLSVersion.TLSv1, "TLSv1")):
        with run_lenient_server(files) as lenient:  # which shows that this very client could
            assert negotiate(lenient, version) == name
        with pytest.raises((ssl.SSLError, ConnectionError)):
            negotiate(server.address, version)


def replace_certificates(directory: Path, version: str) -> Certificates:
    """Replaces all files at once, as Kubernetes does what it mounts: by another target of one symbolic link."""
    (directory / version).mkdir(parents=True)
    issued = issue_certificates(directory / version)
    (directory / "next").symlink_to(version)
    (directory / "next").replace(directory / "data")
    return issued


def name_files(directory: Path) -> Certificates:
    """Names the files as they are mounted."""
    names = ("ca", "server", "server-key", "client", "client-key")
    return Certificates(*(directory / "data" / f"{name}.pem" for name in names))


@pytest.mark.parametrize("workers", [1, 2])
def test_certificates_are_replaced_without_a_restart(serving: str, workers: int, tmp_path: Path):
    old = replace_certificates(tmp_path, "1")
    mounted = name_files(tmp_path)
    flags = [*get_flags(mounted), "--tls-client-ca", str(mounted.authority), "--serving", serving]
    with (
        run_server(*flags, "--workers", str(workers)) as server,
        Client(server.address, credentials=identify(old)) as connected,
    ):
        assert infer(connected) == (6,)
        new = replace_certificates(tmp_path, "2")
        server.await_records(workers, "reloaded", what="certificates")
        with Client(server.address, credentials=identify(new)) as client:
            assert infer(client) == (6,)
        assert infer(connected) == (6,)  # a connection that is open keeps what it was made with
        strangers = grpc.ssl_channel_credentials(  # the server's new certificate is trusted, its former clients are not
            new.authority.read_bytes(), old.client_key.read_bytes(), old.client.read_bytes()
        )
        with grpc.secure_channel(server.address, strangers) as channel, pytest.raises(grpc.FutureTimeoutError):
            grpc.channel_ready_future(channel).result(1)


def test_a_pair_that_does_not_belong_together_leaves_the_former_one(serving: str, tmp_path: Path):
    replace_certificates(tmp_path, "1")
    mounted = name_files(tmp_path)
    with run_server(*get_flags(mounted), "--serving", serving) as server:
        new = issue_certificates(tmp_path)
        replace_file(mounted.server, new.server.read_bytes())
        (record,) = server.await_records(1, "not reloaded", what="certificates")
        assert "mismatch" in record["reason"]
        with Client(server.address, credentials=trust(mounted)) as client:
            assert infer(client) == (6,)
        replace_file(mounted.server_key, new.server_key.read_bytes())
        server.await_records(1, "reloaded", what="certificates")
        with Client(server.address, credentials=trust(new)) as client:
            assert infer(client) == (6,)
        assert len(server.await_records(1, "not reloaded")) == 1  # once, although it was looked at again and again


def test_files_that_are_no_certificate_are_named_at_the_start(files: Certificates):
    flags = ["--tls-certificate", str(files.server), "--tls-key", str(files.client_key)]
    with pytest.raises(RuntimeError, match=r"server\.pem and .*client-key\.pem are no PEM certificate and its key"):
        run_server(*flags).__enter__()


WEB = "spiffe://example.org/ns/web/sa/reader"
CALLERS: dict[str, tuple[list[x509.GeneralName], str]] = {
    "by its URI": ([x509.UniformResourceIdentifier(WEB)], "everything"),
    "by a wildcard": ([x509.DNSName("two.web.example.org")], "questions"),
    "by one name of several": ([x509.DNSName("a.org"), x509.RFC822Name("web@example.org")], "everything"),
    "without a permission": ([x509.DNSName("caller")], "nothing here"),
    "with a URI of another": ([x509.UniformResourceIdentifier(f"{WEB}s")], "nothing"),
    "with a label more": ([x509.DNSName("a.two.web.example.org")], "nothing"),
    "with a URI that is said to be a host": ([x509.DNSName(WEB)], "nothing"),
    "with a host that goes on behind a NUL": ([x509.DNSName("two.web.example.org\0.evil.org")], "nothing"),
    "with a common name alone": ([], "nothing"),
}
"""What is in a certificate, beside the common name `caller`, and what such a client may ask for."""

AUTHORIZATION = f"""
[callers]
"uri:{WEB}" = ["*"]
"dns:*.web.example.org" = ["/tensor_reshape.v1.ReshapeService/InferShape"]
"email:*@example.org" = ["*"]
"""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def choosy_server(
    serving: str, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServerProcess, Certificates]]:
    """One that takes calls of few clients, and what it was started with."""
    files = issue_certificates(tmp_path_factory.mktemp("choosy"), authority)
    allowed = [f"uri:{WEB}", "dns:*.web.example.org", "email:*@example.org", "dns:caller"]
    flags = [flag for identity in allowed for flag in ("--allow-identity", identity)]
    authorization = files.server.with_name("authorization.toml")
    authorization.write_text(AUTHORIZATION)
    flags += ["--authorization-file", str(authorization), "--tls-client-ca", str(files.authority)]
    with run_server(*get_flags(files), *flags, "--serving", serving) as server:
        yield server, files


@pytest.mark.parametrize("caller", CALLERS)
def test_a_client_is_known_by_the_names_in_its_certificate(
    caller: str, authority: trustme.CA, choosy_server: tuple[ServerProcess, Certificates], tmp_path: Path
):
    server, files = choosy_server
    names, permitted = CALLERS[caller]
    chain, key = tmp_path / "chain", tmp_path / "key"
    write_named_certificate(authority, names, chain, key)
    credentials = grpc.ssl_channel_credentials(files.authority.read_bytes(), key.read_bytes(), chain.read_bytes())
    refusal = "this caller may not call this server" if permitted == "nothing" else "may not call this method"

    def expect(*permissions: str) -> AbstractContextManager[object]:
        return nullcontext() if permitted in permissions else pytest.raises(PermissionDeniedError, match=refusal)

    with Client(server.address, credentials=credentials) as client:
        assert client.check_health().name == "SERVING"
        with expect("everything", "questions"):
            assert infer(client) == (6,)
        with expect("everything"):
            assert client.reshape([1, 2], [2], special_zero=False, transfer="inline").shape == (2,)
        with expect("everything"):
            assert client.reshape([1, 2], [2], special_zero=False, transfer="stream").shape == (2,)
