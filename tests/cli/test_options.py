"""The options that several commands have, and the client of a command."""

import socket
from pathlib import Path
from typing import Any

import click
import onnx
import pytest
import trustme
from grpc import StatusCode
from onnx import parser

from command_line import NOBODY, run_command
from server_processes import ServerProcess
from tensor_reshape.cli.options import explain_failure, open_client
from tensor_reshape.client import CallTimeoutError

HUGE = (str(2**63), str(-(2**70)), "1" + "0" * 5000)

PLAIN: dict[str, Any] = dict.fromkeys(("tls_ca", "tls_certificate", "tls_key", "token_file"))
PLAIN |= {"tls": False, "allow_plaintext_token": False}


def test_health_command_uses_the_address_variables_of_the_server(server: ServerProcess):
    port = server.address.rpartition(":")[2]
    for variables in (
        {"TENSOR_RESHAPE_LISTEN": f"0.0.0.0:{port} unix:/none"},
        {"TENSOR_RESHAPE_HEALTH_LISTEN": f"[::]:{port}", "TENSOR_RESHAPE_LISTEN": "0.0.0.0:1"},
        {"TENSOR_RESHAPE_SERVER": server.address, "TENSOR_RESHAPE_HEALTH_LISTEN": "0.0.0.0:1"},
    ):
        outcome = run_command("health", "--timeout", "5", env=variables)
        assert (outcome.code, outcome.text) == (0, "SERVING"), variables


def test_invalid_target_shape_option_prints_an_error_without_a_traceback(file: Path):
    for command, shape in (("reshape", "a,b"), ("reshape", "@missing.npy"), *(("static", one) for one in HUGE)):
        outcome = run_command(command, file, "--shape", shape, "--no-special-zero", *NOBODY)
        assert (outcome.code in {1, 2, 3}, outcome.errors[-1].startswith("Error: ")) == (True, True), shape
    outcome = run_command("static", file, "--shape", "6", *NOBODY)
    assert (outcome.code, "special-zero" in outcome.errors[-1]) == (2, True)


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


MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[] y)
{ s = Constant<value_ints=[-1]>() y = Reshape(x, s) }"""
TIMEOUTS = {
    "": "no response within 2.5 s. Allow more time with --timeout",
    "a:1 is not connected": "no response within 2.5 s; a:1 is not connected. Allow more time with --timeout",
    "1 of 4 MiB had arrived": "no response within 2.5 s; 1 of 4 MiB had arrived. Allow more time with --timeout",
    "last connection error: UNAVAILABLE: no server at a:1": (
        "no response within 2.5 s; last connection error: UNAVAILABLE: no server at a:1. "
        'Start one with "tensor-reshape serve", or name one with --server'
    ),
}


@pytest.mark.parametrize("fault", TIMEOUTS)
def test_timeout_error_names_the_time_and_the_option(fault: str):
    error = CallTimeoutError("the call did not end within 2.5 seconds", StatusCode.DEADLINE_EXCEEDED)
    error.seconds, error.fault = 2.5, fault
    assert explain_failure(error, has_local=False).message == TIMEOUTS[fault]


def test_timeout_error_of_a_proxy_suggests_no_option():
    error = CallTimeoutError("upstream request timeout", StatusCode.DEADLINE_EXCEEDED)
    assert explain_failure(error, has_local=False) is error


def test_command_that_reaches_no_server_names_its_options(tmp_path: Path, file: Path):
    model = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(MODEL), model)
    plain = ("--shape", "6", "--no-special-zero")
    for command, has_local in (
        (("infer", "--data", "6", *plain), True),
        (("check", model), False),
        (("health",), False),
        (("static", file, *plain, "-o", tmp_path / "out.npy"), False),
    ):
        outcome = run_command(*command, *NOBODY)
        assert (outcome.code, "add --local" in outcome.errors[-1]) == (5, has_local), command


def test_command_without_a_response_names_its_timeout():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        outcome = run_command("health", "--server", address, "--timeout", "0.2")
    (line,) = outcome.errors
    assert (outcome.code, line.startswith("Error: no response within 0.2 s")) == (5, True)
    assert line.endswith("Allow more time with --timeout")
