"""`serve --check-config`."""

import socket
from contextlib import ExitStack
from pathlib import Path

from certificates import issue_certificates
from command_line import Outcome, run_module
from server_processes import run_server

WARNING = "other machines can call this server without TLS and without a token"
ANYWHERE = ("--listen", "127.0.0.1:0")


def check(*flags: str | Path, env: dict[str, str] | None = None) -> Outcome:
    return run_module("tensor_reshape.server", "--check-config", *flags, env=env)


def test_check_config_exits_with_0_for_a_valid_configuration(tmp_path: Path):
    files = issue_certificates(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.write_text("me:" + "0123456789abcdef" * 2 + "\n")
    tls = ("--tls-certificate", files.server, "--tls-key", files.server_key, "--tls-client-ca", files.authority)

    outcome = check(*ANYWHERE, "--listen", f"unix:{tmp_path}/socket", *tls, "--token-file", tokens)

    assert (outcome.code, outcome.text, outcome.errors) == (0, "configuration is valid", [])
    assert not (tmp_path / "socket").exists()


def test_check_config_prints_each_configuration_error_on_a_line(tmp_path: Path):
    key = issue_certificates(tmp_path).server_key
    junk = tmp_path / "junk"
    junk.write_text("junk")
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        taken = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
        others = ("--health-listen", taken[1], "--http-listen", taken[2], "--metrics-listen", taken[3])
        outcome = check(
            *("--listen", taken[0], "--listen", "nowhere", *others, "--max-calls", "0", "--max-message-bytes", "16M"),
            *("--tls-certificate", junk, "--tls-key", key, "--token-file", junk, "--memory-budget-bytes", "1KiB"),
            env={"TENSOR_RESHAPE_WORKERS": "0"},
        )

    assert outcome.code == 2
    assert all(line.startswith("Error: ") for line in outcome.errors)
    faults = "\n".join(outcome.errors)
    for text in (
        "'--workers'",
        "'--max-calls': 0 is not in the range",
        "write 16MiB (16777216 bytes) or 16000000",
        "cannot listen on 'nowhere'",
        *(f"cannot listen on {address}: Address already in use" for address in taken),
        f"{junk} and {key} are not a PEM certificate and its private key",
        "--memory-budget-bytes is 1 KiB, but one call in each process may need 192.75 MiB",
    ):
        assert faults.count(text) == 1, (text, outcome.errors)
    assert f"{junk}" in "\n".join(line for line in outcome.errors if "PEM" not in line)  # also rejected as a token file


def test_check_config_prints_a_repeated_configuration_error_once(tmp_path: Path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    mismatch = ("--tls-certificate", issue_certificates(one).server, "--tls-key", issue_certificates(other).server_key)
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        address = f"127.0.0.1:{reserved.getsockname()[1]}"

    outcome = check("--listen", address, "--listen", address, *mismatch)

    assert (outcome.code, len(outcome.errors)) == (1, 2)
    assert f"cannot listen on {address}" in "".join(outcome.errors)


def test_check_config_reports_permissions_for_unknown_methods(tmp_path: Path):
    tokens, permissions = tmp_path / "tokens", tmp_path / "permissions"
    tokens.write_text("me:" + "0123456789abcdef" * 2 + "\n")
    permissions.write_text('[callers]\n"token:me" = ["/no.Such/Method"]\n')

    outcome = check(*ANYWHERE, "--token-file", tokens, "--authorization-file", permissions)

    assert (outcome.code, "/no.Such/Method" in "".join(outcome.errors)) == (1, True)


def test_check_config_has_the_exit_code_of_a_start(tmp_path: Path):
    tokens = tmp_path / "tokens"
    tokens.write_text("junk")
    for code, flags in (
        (2, ("--listen", "50951")),
        (2, (*ANYWHERE, "--max-message-bytes", "16MB")),
        (2, (*ANYWHERE, "--tls-key", str(tokens))),
        (1, (*ANYWHERE, "--token-file", str(tokens))),
    ):
        assert [check(*flags).code, run_module("tensor_reshape.cli", "serve", *flags).code] == [code, code], flags


def test_check_config_warns_of_an_open_address_like_a_start(tmp_path: Path):
    outcome = check("--listen", "0.0.0.0:0", *ANYWHERE)
    (line,) = outcome.errors
    assert (outcome.code, outcome.text) == (0, "configuration is valid")
    assert WARNING in line
    assert "addresses=0.0.0.0:0 page=docs/deployment/authentication.md" in line
    with run_server(listen=("0.0.0.0:0",)) as server:
        server.stop()
    (record,) = [record for record in server.records if record.get("level") == "WARNING"]
    assert (record["message"], record["addresses"]) == (WARNING, "0.0.0.0:0")
    files = issue_certificates(tmp_path)
    assert check("--listen", "0.0.0.0:0", "--tls-certificate", files.server, "--tls-key", files.server_key).errors == []
