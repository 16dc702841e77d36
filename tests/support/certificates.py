"""An authority and the certificates that it has signed, as files."""

import datetime as dt
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Certificates:
    """Files in PEM."""

    authority: Path  # the certificate of the authority that both sides trust
    server: Path  # the certificate chain of the server, for localhost and 127.0.0.1
    server_key: Path  # the key of the server
    client: Path  # the certificate chain of a client
    client_key: Path  # the key of the client

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--tls-certificate", str(self.server), "--tls-key", str(self.server_key))

    @property
    def mutual_flags(self) -> tuple[str, ...]:
        """The flags of a server that requires client certificates."""
        return (*self.flags, "--tls-client-ca", str(self.authority))

    @property
    def trust(self) -> grpc.ChannelCredentials:
        """The credentials of a client without a certificate."""
        return grpc.ssl_channel_credentials(self.authority.read_bytes())

    @property
    def identity(self) -> grpc.ChannelCredentials:
        """The credentials of a client with its certificate."""
        return grpc.ssl_channel_credentials(
            self.authority.read_bytes(), self.client_key.read_bytes(), self.client.read_bytes()
        )

    def build_context(self, *, has_certificate: bool = False) -> ssl.SSLContext:
        """Returns the settings of a client over HTTP, with its certificate if asked."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if has_certificate:
            context.load_cert_chain(self.client, self.client_key)
        return context


def issue_certificates(directory: Path, authority: trustme.CA | None = None) -> Certificates:
    """Makes the certificates, and a new authority unless one is given."""
    authority = authority or trustme.CA()
    files = Certificates(
        *(directory / f"{name}.pem" for name in ("ca", "server", "server-key", "client", "client-key"))
    )
    authority.cert_pem.write_to_path(str(files.authority))
    _write_certificate(authority.issue_cert("localhost", "127.0.0.1"), files.server, files.server_key)
    _write_certificate(authority.issue_cert("client@example.org"), files.client, files.client_key)
    return files


def issue_proxy_certificate(directory: Path) -> tuple[Path, grpc.ChannelCredentials]:
    """Makes the certificate file of a proxy that terminates TLS, and the credentials of its clients."""
    authority, file = trustme.CA(), directory / "reshape.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(file))
    return file, grpc.ssl_channel_credentials(authority.cert_pem.bytes())


def _write_certificate(issued: trustme.LeafCert, chain: Path, key: Path) -> None:
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(key))


def write_named_certificate(
    authority: trustme.CA,
    names: Sequence[x509.GeneralName],
    chain: Path,
    key: Path,
    *,
    curve: ec.EllipticCurve | None = None,
) -> None:
    """Makes certificates that trustme does not support: for URIs, without names, and with other curves."""
    signing_key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    own_key = ec.generate_private_key(curve or ec.SECP256R1())
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "caller")]))
        .issuer_name(x509.load_pem_x509_certificate(authority.cert_pem.bytes()).subject)
        .public_key(own_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=36500))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    chain.write_bytes(builder.sign(signing_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key.write_bytes(own_key.private_bytes(serialization.Encoding.PEM, *form))


def replace_file(path: Path, content: str | bytes) -> None:
    """Replaces a file in one step, so that a server reads either the old content or the new content."""
    other = path.with_name(f"{path.name}.new")
    other.write_bytes(content if isinstance(content, bytes) else content.encode())
    other.replace(path)
