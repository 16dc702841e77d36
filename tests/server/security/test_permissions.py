"""The methods that each identity may call."""

from pathlib import Path

import pytest

from documents import ROOT, read_blocks
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.methods import build_methods
from tensor_reshape.server.security.permissions import Permissions
from tensor_reshape.server.service.methods import ReshapeService

SERVICE = "/tensor_reshape.v1.ReshapeService"
METHODS = RESHAPE, INFER, MODEL = f"{SERVICE}/Reshape", f"{SERVICE}/InferShape", "/m.M/I"
FILE = f"""
[callers]
"token:batch" = ["*"]
"token:none" = []
"uri:spiffe://example.org/*" = ["{INFER}", "/m.M/I"]
"dns:a.example.org" = ["/tensor_reshape.v1.ReshapeService/*"]
"""


def read(path: Path, text: str) -> Permissions:
    path.write_text(text)
    return Permissions(path, METHODS)


def test_permissions_file_combines_the_methods_of_all_identities(tmp_path: Path):
    permissions = read(tmp_path / "file", FILE)
    permitted: dict[tuple[str, ...], set[str]] = {
        ("token:batch",): {RESHAPE, INFER, MODEL},
        ("token:none",): set(),
        ("token:other",): set(),
        (): set(),
        ("uri:spiffe://example.org/web",): {INFER, MODEL},
        ("dns:a.example.org",): {RESHAPE, INFER},
        ("uri:spiffe://example.org/web", "dns:a.example.org"): {RESHAPE, INFER, MODEL},
        ("token:none", "dns:b.example.org", "dns:a.example.org"): {RESHAPE, INFER},
    }
    for identities, methods in permitted.items():
        assert {method for method in METHODS if permissions.permit(identities, method)} == methods, identities


def test_malformed_permissions_file_error_has_the_file_name(tmp_path: Path):
    file = tmp_path / "file"
    for text, cause in (
        ("", r"must have one table, \[callers\]"),
        ("callers = 1", r"must have one table, \[callers\]"),
        ('[callers]\n"token:a" = ["*"]\n[other]', r"must have one table, \[callers\]"),
        ("[callers", "is not valid TOML at "),
        ("a = " + "9" * 5000, "is not valid TOML"),
        ("a = " + "[" * 5000, "is not valid TOML"),
        ('[callers]\n"token:a" = "*"', "must have a list of methods"),
        ('[callers]\n"anybody" = ["*"]', "is not a valid identity"),
        ('[callers]\n"token:a" = ["/tensor_reshape.v1.ReshapeService/Reshap"]', "is not a method of this server"),
        ('[callers]\n"token:a" = ["Reshape"]', "is not a method of this server"),
        ('[callers]\n"token:a" = ["/tensor_reshape.v1.ReshapeService*"]', "is not a method of this server"),
        ('[callers]\n"token:a" = ["/tensor_reshape.v1.Reshape/*"]', "is not a method of this server"),
        ('[callers]\n"token:a" = ["/*"]', "is not a method of this server"),
        ('[callers]\n"token:a" = [7]', "is not a method of this server"),
    ):
        with pytest.raises(ConfigError, match=cause) as caught:
            pytest.fail(f"{text} is {read(file, text)}")
        assert str(file) in str(caught.value)


def test_documented_permissions_file_examples_are_accepted(tmp_path: Path):
    service = ReshapeService(Config().limits)
    served = service.methods.join(build_methods(Inference(service, Config().limits)))
    page = ROOT / "docs" / "deployment" / "authentication.md"
    texts = [block.text for block in read_blocks(page) if block.language == "toml"]
    callers = ["token:batch", "uri:spiffe://example.org/ns/a/sa/reshaper", "uri:spiffe://example.org/ns/a/sa/viewer"]
    permitted = []
    for text in texts:
        (tmp_path / "file").write_text(text)
        permissions = Permissions(tmp_path / "file", served.names)
        permitted.append([caller for caller in callers if permissions.permit([caller], RESHAPE)])
    assert permitted == [[callers[1]], [callers[0]]]
