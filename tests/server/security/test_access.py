"""The gate that knows who may call. What callers see of it is in e2e/test_access and e2e/test_tls."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from certificates import issue_certificates
from tensor_reshape.rules.errors import PermissionDeniedError, Reason, UnauthenticatedError
from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.security.access import Access
from tensor_reshape.server.security.reloads import RELOAD_SECONDS

TOKEN = "0123456789abcdef" * 2
INFER, RESHAPE = "/s/Infer", "/s/Reshape"
WEB: Mapping[str, Sequence[bytes]] = {"peer_uri": [b"spiffe://example.org/web"], "peer_dns": [b"web.example.org"]}
OTHER: Mapping[str, Sequence[bytes]] = {"peer_dns": [b"other.example.org"]}
MUTUAL = ("tls_certificate", "tls_key", "tls_client_ca")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """What a server may be told, by the names of the settings."""
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
    """Returns the identity that a call has behind the gate, or the reason for which it is refused."""
    head = CallHead(method, [] if token is None else [("authorization", f"Bearer {token}")])
    head.name_caller("ipv4:127.0.0.1:1", lambda: tls or {})
    (gate,) = access.gates
    try:
        gate.admit(head)
    except (UnauthenticatedError, PermissionDeniedError) as refusal:
        return Reason(refusal.reason)
    return head.identity


@pytest.mark.parametrize("names", [(), ("tls_certificate", "tls_key")])
def test_where_nothing_is_demanded_there_is_no_gate(names: tuple[str, ...], files: dict[str, Path]):
    assert open_access(files, *names).gates == ()


def test_a_caller_is_called_by_its_token(files: dict[str, Path]):
    access = open_access(files, "token_file")
    assert ask(access, TOKEN) == "token:ci"
    assert ask(access) == ask(access, TOKEN[1:]) == ask(access, tls=WEB) == Reason.UNAUTHENTICATED


def test_a_caller_is_called_by_the_first_name_in_its_certificate(files: dict[str, Path]):
    access = open_access(files, *MUTUAL)
    assert ask(access, tls=WEB) == "uri:spiffe://example.org/web"
    assert ask(access) == ""  # TLS has verified a certificate that names nobody


def test_one_of_the_names_in_a_certificate_has_to_be_allowed(files: dict[str, Path]):
    access = open_access(files, *MUTUAL, allow_identity=("dns:web.example.org", "uri:spiffe://example.org/batch"))
    assert ask(access, tls=WEB) == "uri:spiffe://example.org/web"
    assert ask(access, tls=OTHER) == ask(access) == Reason.PERMISSION_DENIED


def test_all_that_is_demanded_has_to_be_there(files: dict[str, Path]):
    access = open_access(files, *MUTUAL, "token_file", allow_identity=("dns:web.example.org",))
    assert ask(access, TOKEN, WEB) == "token:ci"
    assert ask(access, TOKEN, OTHER) == Reason.PERMISSION_DENIED
    assert ask(access, None, WEB) == Reason.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("token", "tls", "method", "is_permitted"),
    [
        (TOKEN, OTHER, INFER, True),
        (TOKEN, OTHER, RESHAPE, False),
        (TOKEN, WEB, RESHAPE, True),
        (TOKEN, None, RESHAPE, False),
    ],
)
def test_a_caller_may_do_what_any_of_its_identities_may(
    token: str, tls: Mapping[str, Sequence[bytes]] | None, method: str, is_permitted: bool, files: dict[str, Path]
):
    access = open_access(files, *MUTUAL, "token_file", "authorization_file")
    assert ask(access, token, tls, method) == ("token:ci" if is_permitted else Reason.PERMISSION_DENIED)


def test_names_in_certificates_are_proven_where_tls_has_verified_them_alone(files: dict[str, Path]):
    access = open_access(files, "tls_certificate", "tls_key", "token_file", "authorization_file")
    assert ask(access, TOKEN, WEB, RESHAPE) == Reason.PERMISSION_DENIED


def test_files_are_looked_at_once_a_second(files: dict[str, Path]):
    access = open_access(files, "token_file")
    access.look(100)
    files["token_file"].write_text(f"web:{TOKEN}")
    access.look(100 + RELOAD_SECONDS / 2)
    assert ask(access, TOKEN) == "token:ci"
    access.look(100 + RELOAD_SECONDS)
    assert ask(access, TOKEN) == "token:web"


@pytest.mark.parametrize("name", ["token_file", "authorization_file", "tls_client_ca"])
def test_a_file_that_cannot_be_used_is_an_error_at_the_start(name: str, files: dict[str, Path]):
    files[name].write_text("nothing")
    with pytest.raises(ConfigError, match=str(files[name])):
        open_access(files, *MUTUAL, "token_file", "authorization_file")


def test_a_pattern_that_is_none_is_an_error_at_the_start(files: dict[str, Path]):
    with pytest.raises(ConfigError, match="is no identity"):
        open_access(files, *MUTUAL, allow_identity=("web",))
