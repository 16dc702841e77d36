"""The client of a command."""

from pathlib import Path
from typing import Any

import click
import pytest

from tensor_reshape.cli.connections import open_client

PLAIN: dict[str, Any] = dict.fromkeys(("tls_ca", "tls_certificate", "tls_key", "token_file"))
PLAIN |= {"tls": False, "allow_plaintext_token": False}


def test_client_argument_errors_are_usage_errors(tmp_path: Path):
    (tmp_path / "file").write_text("something")
    for lonely in ("tls_certificate", "tls_key"):
        with pytest.raises(click.UsageError, match="must be given together"):
            open_client("127.0.0.1:1", {**PLAIN, lonely: tmp_path / "file"}, timeout=3)
    with pytest.raises(click.UsageError):
        open_client("example.org:1", {**PLAIN, "token_file": tmp_path / "file"}, timeout=3)
