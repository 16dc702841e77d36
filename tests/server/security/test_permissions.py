"""Which identities may call which methods."""

from pathlib import Path

import pytest

from documents import ROOT, read_blocks
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.oip.methods import build_methods
from tensor_reshape.server.oip.shared_memory import SharedMemory
from tensor_reshape.server.security.permissions import Permissions
from tensor_reshape.server.service.methods import ReshapeService

RESHAPE, INFER, MODEL = (
    "/tensor_reshape.v1.ReshapeService/Reshape",
    "/tensor_reshape.v1.ReshapeService/InferShape",
    "/m.M/I",
)
METHODS = (RESHAPE, INFER, MODEL)
FILE = f"""
[callers]
"token:batch" = ["*"]
"token:none" = []
"uri:spiffe://example.org/*" = ["{INFER}", "/m.M/I"]
"dns:a.example.org" = ["/tensor_reshape.v1.ReshapeService/*"]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "authorization.toml"


def read(path: Path, text: str) -> Permissions:
    path.write_text(text)
    return Permissions(path, METHODS)


@pytest.mark.parametrize(
    ("identities", "permitted"),
    [
        (("token:batch",), {RESHAPE, INFER, MODEL}),
        (("token:none",), set()),
        (("token:other",), set()),
        ((), set()),
        (("uri:spiffe://example.org/web",), {INFER, MODEL}),
        (("dns:a.example.org",), {RESHAPE, INFER}),
        (("uri:spiffe://example.org/web", "dns:a.example.org"), {RESHAPE, INFER, MODEL}),
        (("token:none", "dns:b.example.org", "dns:a.example.org"), {RESHAPE, INFER}),
    ],
)
def test_a_caller_may_do_what_any_of_its_identities_may(identities: tuple[str, ...], permitted: set[str], path: Path):
    permissions = read(path, FILE)
    assert {method for method in METHODS if permissions.permit(identities, method)} == permitted


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", r"has one table, \[callers\]"),
        ("callers = 1", r"has one table, \[callers\]"),
        ('[callers]\n"token:a" = ["*"]\n[other]', r"has one table, \[callers\]"),
        ("[callers", "is no TOML"),
        ("a = " + "9" * 5000, "is no TOML"),
        ("a = " + "[" * 5000, "is no TOML"),
        ('[callers]\n"token:a" = "*"', "has a list of methods"),
        ('[callers]\n"anybody" = ["*"]', "is no identity"),
        ('[callers]\n"token:a" = ["/tensor_reshape.v1.ReshapeService/Reshap"]', "is no method of this server"),
        ('[callers]\n"token:a" = ["Reshape"]', "is no method of this server"),
        ('[callers]\n"token:a" = ["/tensor_reshape.v1.ReshapeService*"]', "is no method of this server"),
        ('[callers]\n"token:a" = ["/tensor_reshape.v1.Reshape/*"]', "is no method of this server"),
        ('[callers]\n"token:a" = ["/*"]', "is no method of this server"),
        ('[callers]\n"token:a" = [7]', "is no method of this server"),
    ],
)
def test_a_file_that_says_something_else_is_refused_and_named(text: str, cause: str, path: Path):
    with pytest.raises(ConfigError, match=cause) as caught:
        read(path, text)
    assert str(path) in str(caught.value)


def test_a_permission_that_is_taken_back_is_gone(path: Path):
    permissions = read(path, FILE)
    path.write_text('[callers]\n"token:ci" = ["*"]\n')
    permissions.look()
    assert not permissions.permit(["token:batch"], RESHAPE)
    assert permissions.permit(["token:ci"], RESHAPE)


def test_a_server_takes_what_the_page_shows(path: Path):
    service = ReshapeService(Config().limits)
    served = service.methods.join(build_methods(service, Config().limits, SharedMemory(None)))
    (shown,) = [
        block.text for block in read_blocks(ROOT / "docs" / "deployment" / "security.md") if block.language == "toml"
    ]
    path.write_text(shown)
    permissions = Permissions(path, served.names)
    assert permissions.permit(["token:batch"], RESHAPE)
    assert not permissions.permit(["uri:spiffe://example.org/ns/a/sa/viewer"], RESHAPE)
