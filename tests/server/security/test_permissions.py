"""The identities of callers, patterns that match them, and the methods that each may call."""

import ipaddress
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from certificates import write_named_certificate
from documents import ROOT, read_blocks
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.oip.methods import build_methods
from tensor_reshape.server.security.permissions import Permissions, compile_pattern, fold_identity, read_identities
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
WEB = "uri:spiffe://example.org/ns/web/sa/reader"


MATCHES = [
    (WEB, WEB),
    ("uri:spiffe://example.org/ns/*/sa/reader", WEB),
    ("uri:spiffe://example.org/ns/web/sa/*", WEB),
    ("uri:urn:uuid:1", "uri:urn:uuid:1"),
    ("uri:https://example.org", "uri:https://example.org"),
    ("dns:web.example.org", "dns:web.example.org"),
    ("dns:Web.Example.ORG", "dns:web.example.org"),
    ("dns:*.example.org", "dns:web.example.org"),
    ("dns:web.*.example.org", "dns:web.a.example.org"),
    ("email:a@example.org", "email:a@example.org"),
    ("email:*@example.org", "email:a@example.org"),
    ("token:ci", "token:ci"),
    ("token:*", "token:ci.2_b-c"),
]
OTHERS = [
    (WEB, WEB.upper()),
    (WEB, f"{WEB}/"),
    (WEB, f"{WEB}/admin"),
    ("uri:spiffe://example.org/ns/*/sa/reader", "uri:spiffe://example.org/ns//sa/reader"),
    ("uri:spiffe://example.org/ns/*/sa/reader", "uri:spiffe://example.org/ns/a/b/sa/reader"),
    ("uri:spiffe://example.org/*", "uri:spiffe://example.org.evil.net/web"),
    ("uri:spiffe://example.org/*", "uri:spiffe://example.org"),
    ("dns:*.example.org", "dns:example.org"),
    ("dns:*.example.org", "dns:.example.org"),
    ("dns:*.example.org", "dns:a.b.example.org"),
    ("dns:*.example.org", "dns:a.example.org.evil.net"),
    ("dns:web.example.org", "dns:*.example.org"),
    ("dns:web.example.org", "uri:web.example.org"),
    ("email:a@example.org", "email:A@example.org"),
    ("email:*@example.org", "email:a@evil.net@example.org"),
    ("email:*@example.org", "dns:example.org"),
    ("token:ci", "dns:ci"),
    ("token:ci", "token:CI"),
    ("token:ci", ""),
    ("token:*", ""),
    ("token:*", "token:"),
]
MALFORMED = [
    "", "*", "web.example.org", "cn:web", "dns:", "dns:*", "dns:web.*", "dns:w*.example.org", "dns:*.*.example.org",
    "dns:**.example.org", "dns:web..example.org", "dns:web.example.org.", "dns:web example.org",
    "dns:wéb.example.org", "uri:*", "uri:spiffe://*/web", "uri:spiffe://ex*mple.org/web", "uri:*://example.org/web",
    "uri:spiffe://example.org/*/x/*", "uri:spiffe://example.org/w*b", "uri:spiffe://example.org//web",
    "uri:spiffe://example.org/web/", "uri:spiffe://example.org/we b", "email:example.org", "email:a@*",
    "email:a@b@example.org", "token:", "token:a b", "token:a\nb", f"token:{'a' * 65}",
]  # fmt: skip


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


def test_identity_pattern_matches_only_its_identities():
    assert [row for row in MATCHES if not compile_pattern(row[0]).fullmatch(row[1])] == []
    assert [row for row in OTHERS if compile_pattern(row[0]).fullmatch(row[1])] == []


def test_malformed_identity_pattern_error_shows_the_valid_form():
    for text in MALFORMED:
        with pytest.raises(ConfigError, match="is not a valid identity: write uri:"):
            pytest.fail(f"{text!r} is {compile_pattern(text)}")


def test_certificate_identities_are_its_subject_alternative_names():
    tls = {
        "x509_common_name": [b"admin"],
        "x509_subject": [b"CN=admin"],
        "x509_subject_alternative_name": [b"spiffe://example.org/web", b"web.example.org", b"10.0.0.1"],
        "peer_uri": [b"spiffe://example.org/web"],
        "peer_dns": [b"Web.Example.org", b"w\xc3\xa9b.example.org", b"a\nb.example.org", b"a b", b""],
        "peer_email": [b"Web@Example.org"],
        "peer_ip": [b"10.0.0.1"],
        "transport_security_type": [b"ssl"],
    }
    assert read_identities(tls) == ["uri:spiffe://example.org/web", "dns:web.example.org", "email:Web@example.org"]


def test_connection_without_a_certificate_has_no_identities():
    assert read_identities({"transport_security_type": [b"ssl"]}) == []


def test_host_names_in_identities_are_converted_to_lower_case():
    folded = {"dns:A.B": "dns:a.b", "email:A@B": "email:A@b", "uri:A://B/C": "uri:A://B/C", "token:A": "token:A"}
    assert {identity: fold_identity(identity) for identity in folded} == folded


HOST, MAIL, PAGE = x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier


MANY = [HOST(f"{number}.a.org") for number in range(100)]


def test_certificate_with_a_nul_in_a_name_has_no_identities(tmp_path: Path):
    address = x509.IPAddress(ipaddress.ip_address("10.0.0.0"))
    rows: list[tuple[list[x509.GeneralName], bool]] = [
        ([HOST("a.org"), MAIL("a@a.org"), PAGE("https://a.org"), address], True),
        ([*MANY], True),
        ([HOST("a.org\0.evil.org")], False),
        ([PAGE("https://a.org\0.evil.org")], False),
        ([*MANY, HOST("a.org\0.evil.org")], False),
    ]
    for names, proves in rows:
        write_named_certificate(trustme.CA(), names, tmp_path / "chain", tmp_path / "key")
        tls = {"peer_dns": [b"a.org"], "x509_pem_cert": [(tmp_path / "chain").read_bytes()]}
        assert read_identities(tls) == (["dns:a.org"] if proves else []), names


def test_certificate_with_truncated_alternative_names_has_no_identities():
    begin = b"\x06\x03\x55\x1d\x11\x04"
    for rest in (b"", b"\x04", b"\x04\x30", b"\x04\x30\x02\x82"):
        pem = ssl.DER_cert_to_PEM_cert(begin + rest).encode()
        assert read_identities({"peer_dns": [b"a.org"], "x509_pem_cert": [pem]}) == []
