"""TLS, client certificates, and replaced certificates."""

import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
import trustme
from cryptography import x509

from both_clients import CLIENTS, open_client
from certificates import Certificates, issue_certificates, replace_file, write_named_certificate
from command_line import run_command
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, PermissionDeniedError, UnavailableError


@pytest.fixture(scope="module")
def server(files: Certificates) -> Iterator[ServerProcess]:
    with run_server(*files.flags) as server:
        yield server


@pytest.fixture(scope="module")
def demanding_server(files: Certificates) -> Iterator[ServerProcess]:
    """A server that requires client certificates."""
    with run_server(*files.mutual_flags) as server:
        yield server


def infer(client: Client) -> tuple[int, ...]:
    return client.infer_shape([2, 3], [6], special_zero=False, timeout=60).known


@pytest.mark.parametrize("kind", CLIENTS)
def test_client_that_trusts_the_server_ca_is_served(
    kind: str, files: Certificates, server: ServerProcess, demanding_server: ServerProcess
):
    for address, credentials in ((server.address, files.trust), (demanding_server.address, files.identity)):
        with open_client(kind, address, credentials=credentials) as client:
            assert client.infer_shape([2, 3], [6]) == (6,)


@pytest.mark.usefixtures("impatience")
def test_clients_without_a_trusted_certificate_are_rejected(
    files: Certificates, server: ServerProcess, demanding_server: ServerProcess, tmp_path: Path
):
    others = {
        "in plain text": (server, None),
        "trusts another authority": (server, issue_certificates(tmp_path).trust),
        "has no certificate": (demanding_server, files.trust),
    }
    for name, (one, credentials) in others.items():
        with Client(one.address, credentials=credentials) as client, pytest.raises(UnavailableError):
            pytest.fail(f"{name}: {infer(client)}")


def test_command_line_sends_a_client_certificate(files: Certificates, demanding_server: ServerProcess):
    reach: list[str | Path] = ["--server", demanding_server.address, "--tls-ca", files.authority]
    outcome = run_command("health", *reach, "--tls-certificate", files.client, "--tls-key", files.client_key)
    assert (outcome.code, outcome.text) == (0, "SERVING")


def negotiate(plain: socket.socket, version: ssl.TLSVersion) -> str | None:
    """Makes a handshake that offers only one version of TLS, and returns the negotiated version."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.set_ciphers("ALL:@SECLEVEL=0")  # otherwise OpenSSL would not offer old versions
    context.minimum_version = context.maximum_version = version
    with plain, context.wrap_socket(plain) as wrapped:
        return wrapped.version()


def negotiate_leniently(files: Certificates, version: ssl.TLSVersion) -> str | None:
    """Makes such a handshake with a server that accepts any version."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server, files.server_key)
    context.set_alpn_protocols(["h2"])
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    near, far = socket.socketpair()
    with ThreadPoolExecutor() as pool:
        served = pool.submit(context.wrap_socket, far, server_side=True)
        try:
            return negotiate(near, version)
        finally:
            served.result().close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_versions_below_1_2_are_rejected(files: Certificates, server: ServerProcess):
    host, _, port = server.address.rpartition(":")

    def ask(version: ssl.TLSVersion) -> str | None:
        return negotiate(socket.create_connection((host, int(port)), 60), version)

    assert ask(ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    assert ask(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    for version, name in ((ssl.TLSVersion.TLSv1_1, "TLSv1.1"), (ssl.TLSVersion.TLSv1, "TLSv1")):
        assert negotiate_leniently(files, version) == name  # shows that this client supports the old version
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(version)


def replace_certificates(directory: Path, version: str) -> Certificates:
    """Replaces all files at once, as Kubernetes does: a symbolic link gets another target."""
    (directory / version).mkdir(parents=True)
    issued = issue_certificates(directory / version)
    (directory / "next").symlink_to(version)
    (directory / "next").replace(directory / "data")
    return issued


def name_files(directory: Path) -> Certificates:
    """Returns the paths of the mounted files."""
    names = ("ca", "server", "server-key", "client", "client-key")
    return Certificates(*(directory / "data" / f"{name}.pem" for name in names))


def test_all_workers_reload_replaced_certificates_without_a_restart(tmp_path: Path):
    old = replace_certificates(tmp_path, "1")
    mounted = name_files(tmp_path)
    with (
        run_server(*mounted.mutual_flags, "--workers", "2") as server,
        Client(server.address, credentials=old.identity) as connected,
    ):
        assert infer(connected) == (6,)
        new = replace_certificates(tmp_path, "2")
        server.await_records(2, "reloaded", what="certificates")
        with Client(server.address, credentials=new.identity) as client:
            assert infer(client) == (6,)
        assert infer(connected) == (6,)  # an open connection keeps its certificate
        former = grpc.ssl_channel_credentials(  # trusts the new server, but has a certificate of the old authority
            new.authority.read_bytes(), old.client_key.read_bytes(), old.client.read_bytes()
        )
        with grpc.secure_channel(server.address, former) as channel, pytest.raises(grpc.FutureTimeoutError):
            grpc.channel_ready_future(channel).result(0.5)


def test_certificate_that_mismatches_its_key_is_not_loaded(tmp_path: Path):
    replace_certificates(tmp_path, "1")
    mounted = name_files(tmp_path)
    with run_server(*mounted.flags) as server:
        new = issue_certificates(tmp_path)
        replace_file(mounted.server, new.server.read_bytes())
        (record,) = server.await_records(1, "not reloaded", what="certificates")
        assert "mismatch" in record["reason"]
        with Client(server.address, credentials=mounted.trust) as client:
            assert infer(client) == (6,)
        replace_file(mounted.server_key, new.server_key.read_bytes())
        server.await_records(1, "reloaded", what="certificates")
        with Client(server.address, credentials=new.trust) as client:
            assert infer(client) == (6,)
        assert len(server.await_records(1, "not reloaded")) == 1  # although it reads the files again


WEB = "spiffe://example.org/ns/web/sa/reader"
EVERYTHING, QUESTIONS, NOTHING = 3, 1, 0
CALLERS: dict[str, tuple[list[x509.GeneralName], int]] = {
    "by its URI": ([x509.UniformResourceIdentifier(WEB)], EVERYTHING),
    "by a wildcard": ([x509.DNSName("two.web.example.org")], QUESTIONS),
    "by one name of several": ([x509.DNSName("a.org"), x509.RFC822Name("web@example.org")], EVERYTHING),
    "without a permission": ([x509.DNSName("caller")], NOTHING),
    "with a URI as the name of a host": ([x509.DNSName(WEB)], NOTHING),
    "with a host that continues after a NUL": ([x509.DNSName("two.web.example.org\0.evil.org")], NOTHING),
    "with a common name only": ([], NOTHING),
}
"""The names in a certificate in addition to the common name `caller`, and the number of permitted calls of three."""

AUTHORIZATION = f"""
[callers]
"uri:{WEB}" = ["*"]
"dns:*.web.example.org" = ["/tensor_reshape.v1.ReshapeService/InferShape"]
"email:*@example.org" = ["*"]
"""


def reshape(client: Client, transfer: str) -> object:
    return client.reshape([1, 2], [2], special_zero=False, transfer=transfer)  # type: ignore[call-overload]


CALLS: list[Callable[[Client], object]] = [
    infer,
    lambda client: reshape(client, "inline"),
    lambda client: reshape(client, "stream"),
]


def test_mtls_client_identity_is_the_name_in_its_certificate(tmp_path: Path):
    authority = trustme.CA()
    files = issue_certificates(tmp_path, authority)
    (tmp_path / "authorization.toml").write_text(AUTHORIZATION)
    flags = [*files.mutual_flags, "--authorization-file", str(tmp_path / "authorization.toml")]
    with run_server(*flags) as server:
        for caller, (names, permitted) in CALLERS.items():
            write_named_certificate(authority, names, files.client, files.client_key)
            with Client(server.address, credentials=files.identity) as client:
                assert client.check_health().name == "SERVING"
                for call in CALLS[:permitted]:
                    call(client)
                for call in CALLS[permitted:]:
                    with pytest.raises(PermissionDeniedError, match="may not call this method"):
                        pytest.fail(f"{caller}: {call(client)}")
