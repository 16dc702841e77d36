"""`serve --check-config`: all that is wrong, a line each, and nothing is served."""

import socket
from pathlib import Path

import pytest

from certificates import issue_certificates
from command_line import Outcome, run_module

ANYWHERE = ("--listen", "127.0.0.1:0")


def check(*flags: str | Path, env: dict[str, str] | None = None) -> Outcome:
    return run_module("tensor_reshape.server", "--check-config", *flags, env=env)


def test_what_can_be_served_ends_with_0_and_serves_nothing(tmp_path: Path):
    files = issue_certificates(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.write_text("me:" + "0123456789abcdef" * 2 + "\n")
    tls = ("--tls-certificate", files.server, "--tls-key", files.server_key, "--tls-client-ca", files.authority)

    outcome = check(*ANYWHERE, "--listen", f"unix:{tmp_path}/socket", *tls, "--token-file", tokens)

    assert (outcome.code, outcome.text, outcome.errors) == (0, "this can be served", [])
    assert not (tmp_path / "socket").exists()


def test_every_fault_is_told(tmp_path: Path):
    key = issue_certificates(tmp_path).server_key
    junk = tmp_path / "junk"
    junk.write_text("junk")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = check(
            *("--listen", address, "--listen", "nowhere", "--threads", "0", "--max-message-bytes", "16M"),
            *("--tls-certificate", junk, "--tls-key", key, "--token-file", junk, "--memory-budget-bytes", "1KiB"),
        )

    assert outcome.code == 1
    assert all(line.startswith("Error: ") for line in outcome.errors)
    faults = "\n".join(outcome.errors)
    for told in (
        "'--threads': 0 is not in the range",
        "write 16MiB (16777216 bytes) or 16000000",
        "cannot listen on 'nowhere'",
        f"cannot listen on {address}: Address already in use",
        f"{junk} and {key} are no PEM certificate and its key",
        "memory_budget_bytes is 1024",
    ):
        assert faults.count(told) == 1, outcome.errors
    assert f"{junk}" in "\n".join(line for line in outcome.errors if "PEM" not in line)  # as a file of tokens


def test_a_certificate_and_the_key_of_another_are_a_fault(tmp_path: Path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()

    outcome = check(
        *ANYWHERE,
        *("--tls-certificate", issue_certificates(one).server, "--tls-key", issue_certificates(other).server_key),
    )

    assert (outcome.code, len(outcome.errors)) == (1, 1)


@pytest.mark.parametrize("flag", ["--health-listen", "--http-listen", "--metrics-listen"])
def test_a_port_for_anything_else_that_is_taken_is_a_fault(flag: str):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = check(*ANYWHERE, flag, address)

    assert (outcome.code, outcome.errors) == (1, [f"Error: cannot listen on {address}: Address already in use"])


def test_an_address_that_is_listed_twice_is_a_fault():
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        address = f"127.0.0.1:{reserved.getsockname()[1]}"

    outcome = check("--listen", address, "--listen", address)

    assert (outcome.code, len(outcome.errors)) == (1, 1)
    assert f"cannot listen on {address}" in outcome.errors[0]


def test_a_fault_in_the_environment_is_told_with_the_others():
    outcome = check(*ANYWHERE, "--max-rank", "65", env={"TENSOR_RESHAPE_THREADS": "many"})

    assert (outcome.code, len(outcome.errors)) == (1, 2)


def test_what_only_a_whole_server_can_judge_is_judged(tmp_path: Path):
    tokens, permissions = tmp_path / "tokens", tmp_path / "permissions"
    tokens.write_text("me:" + "0123456789abcdef" * 2 + "\n")
    permissions.write_text('[callers]\n"token:me" = ["/no.Such/Method"]\n')

    outcome = check(*ANYWHERE, "--token-file", tokens, "--authorization-file", permissions)

    assert (outcome.code, "/no.Such/Method" in "".join(outcome.errors)) == (1, True)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_share_of_a_worker_is_checked(workers: str):
    assert check(*ANYWHERE, "--workers", workers).code == 0


def test_the_command_line_checks_too():
    outcome = run_module("tensor_reshape.cli", "serve", "--check-config", *ANYWHERE)

    assert (outcome.code, outcome.text) == (0, "this can be served")
