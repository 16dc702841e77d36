"""The client of a command."""

from pathlib import Path
from typing import Any

import click
import pytest
import trustme

from tensor_reshape.cli.connections import open_client

PLAIN: dict[str, Any] = dict.fromkeys(("tls_ca", "tls_certificate", "tls_key", "token_file"))
PLAIN |= {"tls": False, "allow_plaintext_token": False}


def reject(server: str = "127.0.0.1:1", **options: object) -> str:
    with pytest.raises(click.UsageError) as caught:
        open_client(server, {**PLAIN, **options}, timeout=3)
    return caught.value.message


def test_token_without_tls_error_names_the_options_to_add(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("secret")
    assert reject("example.org:1", token_file=file) == "--token-file requires TLS: add --tls or --tls-ca"
    assert reject("example.org:1", token_file=file, allow_plaintext_token=True).startswith("--token-file requires TLS")
    assert "--allow-plaintext-token" in reject(token_file=file)
    open_client("127.0.0.1:1", {**PLAIN, "token_file": file, "allow_plaintext_token": True}, timeout=3).close()
    file.write_text("")
    assert (
        reject(token_file=file, allow_plaintext_token=True)
        == f"--token-file {file}: not a valid token: the file is empty"
    )
    file.write_text("two words")
    assert reject(token_file=file, allow_plaintext_token=True).startswith(f"--token-file {file}: not a valid token")


def test_error_names_the_invalid_tls_file(tmp_path: Path):
    authority, text, key, chain, other = (tmp_path / name for name in ("ca.pem", "text", "key", "chain", "other"))
    issued = trustme.CA().issue_cert("localhost")
    trustme.CA().cert_pem.write_to_path(authority)
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(chain)
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(other)
    text.write_text("something")
    assert reject(tls_certificate=text) == reject(tls_key=text)
    for file in (text, key):
        assert reject(tls_ca=file) == f"--tls-ca {file} has no certificate in PEM format"
    pairs: list[dict[str, Any]] = [{"tls_key": text}, {"tls_key": other}, {"tls_certificate": text}]
    for pair in pairs:
        message = reject(**{"tls_certificate": chain, "tls_key": key, **pair})
        assert "are not a certificate chain and its key in PEM format" in message, pair
    valid = {"tls_ca": authority, "tls_certificate": chain, "tls_key": key}
    open_client("127.0.0.1:1", {**PLAIN, **valid}, timeout=3).close()
