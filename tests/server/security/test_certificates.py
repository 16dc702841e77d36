"""The server's certificate and key: checked before gRPC's core has them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certificates import Certificates as Issued
from certificates import issue_certificates, write_named_certificate
from tensor_reshape.server.calls.sources import Sources
from tensor_reshape.server.config import ConfigError, TlsFiles
from tensor_reshape.server.grpc.options import build_credentials
from tensor_reshape.server.grpc.servers import Server
from tensor_reshape.server.process.listeners import bind
from tensor_reshape.server.security.certificates import Certificates


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return issue_certificates(tmp_path)


def read(issued: Issued) -> Certificates:
    return Certificates(TlsFiles(certificate=issued.server, key=issued.server_key, client_ca=issued.authority))


def encrypt(issued: Issued) -> None:
    key = serialization.load_pem_private_key(issued.server_key.read_bytes(), None)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    issued.server_key.write_bytes(key.private_bytes(*form, serialization.BestAvailableEncryption(b"secret")))


DAMAGES: dict[str, tuple[Callable[[Issued], object], str]] = {
    "the key of another": (lambda issued: issued.server_key.write_bytes(issued.client_key.read_bytes()), "mismatch"),
    "no certificate": (
        lambda issued: issued.server.write_text("nothing"),
        "not a PEM certificate and its private key$",
    ),
    "no key": (lambda issued: issued.server_key.write_text("nothing"), "not a PEM certificate and its private key"),
    "an encrypted key": (encrypt, "not a PEM certificate and its private key"),
    "a missing key": (lambda issued: issued.server_key.unlink(), "cannot read .*server-key.pem: No such file"),
    "no authority": (lambda issued: issued.authority.write_text("nothing"), "ca.pem contains no PEM certificate"),
    "a missing authority": (lambda issued: issued.authority.unlink(), "cannot read .*ca.pem"),
}


@pytest.mark.parametrize(("damage", "cause"), DAMAGES.values(), ids=DAMAGES)
def test_unusable_certificate_files_are_rejected_with_the_cause(
    damage: Callable[[Issued], object], cause: str, issued: Issued
):
    damage(issued)
    with pytest.raises(ConfigError, match=cause):
        read(issued)


def test_private_key_of_an_unsupported_curve_is_rejected(tmp_path: Path):
    authority = trustme.CA()
    chain, key = tmp_path / "chain", tmp_path / "key"
    write_named_certificate(authority, [x509.DNSName("localhost")], chain, key, curve=ec.SECP256K1())
    certificates = Certificates(TlsFiles(certificate=chain, key=key, client_ca=None))
    server = Server((), Sources(), ())
    with pytest.raises(ConfigError, match="does not support this kind of key"):
        bind(server, "127.0.0.1:0", build_credentials(certificates))
    server.stop()
