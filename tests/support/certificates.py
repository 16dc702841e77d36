"""An authority, and certificates that it has signed, as files."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Certificates:
    """Files in PEM.

    Attributes:
        authority: what both sides trust.
        server: the server's chain, for localhost and 127.0.0.1.
        server_key: its key.
        client: a client's chain.
        client_key: its key.
    """

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def issue_certificates(directory: Path) -> Certificates:
    """Makes a new authority and all it signs."""
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    client = authority.issue_cert("client@example.org")
    files = Certificates(
        *(directory / f"{name}.pem" for name in ("ca", "server", "server-key", "client", "client-key"))
    )
    authority.cert_pem.write_to_path(str(files.authority))
    for issued, chain, key in (
        (server, files.server, files.server_key),
        (client, files.client, files.client_key),
    ):
        chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
    return files
