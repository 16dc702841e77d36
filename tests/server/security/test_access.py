"""The gate that admits callers by token and certificate; e2e/test_access and e2e/test_tls show it to callers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from certificates import issue_certificates
from tensor_reshape.rules.errors import PermissionDeniedError, Reason, UnauthenticatedError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.config import Config
from tensor_reshape.server.security.access import Access

TOKEN = "0123456789abcdef" * 2
INFER, RESHAPE = "/s/Infer", "/s/Reshape"
WEB: Mapping[str, Sequence[bytes]] = {"peer_uri": [b"spiffe://example.org/web"], "peer_dns": [b"web.example.org"]}
OTHER: Mapping[str, Sequence[bytes]] = {"peer_dns": [b"other.example.org"]}
MUTUAL = ("tls_certificate", "tls_key", "tls_client_ca")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The files of a server by the names of their settings."""
    issued = issue_certificates(tmp_path)
    (tmp_path / "tokens").write_text(f"ci:{TOKEN}")
    (tmp_path / "authorization").write_text(
        f'[callers]\n"token:ci" = ["{INFER}"]\n"dns:web.example.org" = ["{RESHAPE}"]'
    )
    return {
        "tls_certificate": issued.server,
        "tls_key": issued.server_key,
        "tls_client_ca": issued.authority,
        "token_file": tmp_path / "tokens",
        "authorization_file": tmp_path / "authorization",
    }


def open_access(files: dict[str, Path], *names: str, **more: Any) -> Access:
    settings: dict[str, Any] = {**{name: files[name] for name in names}, **more}
    return Access(Config(**settings), [INFER, RESHAPE])


def ask(
    access: Access, token: str | None = None, tls: Mapping[str, Sequence[bytes]] | None = None, method: str = INFER
) -> str | Reason:
    """Returns the identity of an admitted call, or the reason of its rejection."""
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    info = CallInfo(method, metadata, "ipv4:127.0.0.1:1", lambda: tls or {})
    (gate,) = access.gates
    try:
        gate.admit(info)
    except (UnauthenticatedError, PermissionDeniedError) as rejection:
        return Reason(rejection.reason)
    return info.identity


def test_server_without_authentication_settings_has_no_access_checks(files: dict[str, Path]):
    assert open_access(files).gates == open_access(files, "tls_certificate", "tls_key").gates == ()


def test_bearer_token_determines_the_identity_of_a_call(files: dict[str, Path]):
    access = open_access(files, "token_file")
    assert ask(access, TOKEN) == "token:ci"
    assert ask(access) == ask(access, TOKEN[1:]) == ask(access, tls=WEB) == Reason.UNAUTHENTICATED


def test_first_certificate_name_is_the_identity_of_a_call(files: dict[str, Path]):
    access = open_access(files, *MUTUAL)
    assert ask(access, tls=WEB) == "uri:spiffe://example.org/web"
    assert ask(access) == ""  # TLS has verified a certificate without names


def test_call_requires_token_and_certificate_if_both_are_configured(files: dict[str, Path]):
    access = open_access(files, *MUTUAL, "token_file")
    assert ask(access, TOKEN, WEB) == "token:ci"
    assert ask(access, None, WEB) == Reason.UNAUTHENTICATED


def test_call_has_the_permissions_of_token_and_certificate(files: dict[str, Path]):
    access = open_access(files, *MUTUAL, "token_file", "authorization_file")
    assert ask(access, TOKEN, OTHER, INFER) == ask(access, TOKEN, WEB, RESHAPE) == "token:ci"
    assert ask(access, TOKEN, OTHER, RESHAPE) == ask(access, TOKEN, None, RESHAPE) == Reason.PERMISSION_DENIED


def test_unverified_client_certificate_grants_no_permission(files: dict[str, Path]):
    access = open_access(files, "tls_certificate", "tls_key", "token_file", "authorization_file")
    assert ask(access, TOKEN, WEB, RESHAPE) == Reason.PERMISSION_DENIED
