"""Each setting is an option and an environment variable, which `--check-config` checks; `e2e` tests their effects."""

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest

from certificates import issue_certificates
from command_line import Outcome, run_module
from server_processes import run_server
from tensor_reshape.server.__main__ import serve
from tensor_reshape.server.config import SETTINGS, Config, Setting

OTHER_VALUES: dict[type, str] = {bool: "0", str: "another", Path: __file__}
WARNING = "other machines can call this server without TLS and without a token"
ANYWHERE = ("--listen", "127.0.0.1:0")


def parse(*flags: str) -> dict[str, Any]:
    """Returns the parsed arguments of the command."""
    return serve.make_context("serve", list(flags)).params


def choose_other(setting: Setting) -> str:
    """Returns a valid value other than the default, as text."""
    if setting.choices:
        return setting.choices[-1] if setting.choices[-1] != setting.default else setting.choices[0]
    if setting.type in {int, float}:
        return str(setting.default + 1 if setting.most is None or setting.default < setting.most else setting.least)
    return OTHER_VALUES[setting.type]


def convert(setting: Setting, text: str) -> object:
    value = False if setting.type is bool else setting.type(text)
    return (value,) if setting.is_repeatable else value


def reject(*flags: str) -> click.BadParameter:
    with pytest.raises(click.BadParameter) as caught:
        parse(*flags)
    return caught.value


def test_serve_command_options_match_the_settings():
    assert [option.name for option in serve.params] == [*(setting.name for setting in SETTINGS), "check_config"]
    text = " ".join(serve.get_help(click.Context(serve, **serve.context_settings)).split())
    assert [setting.name for setting in SETTINGS if setting.help not in text] == []


def test_each_server_setting_has_a_flag_and_environment_variable():
    for setting in SETTINGS:
        name, value = setting.name, choose_other(setting)
        flags = [setting.flag.replace("--", "--no-")] if setting.type is bool else [setting.flag, value]
        expected = convert(setting, value)
        assert parse(*flags)[name] == expected, name
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(setting.variable, value)
            assert parse()[name] == expected, name
        default = None if setting.system_default else getattr(Config(), name)
        assert parse()[name] == default, name


def test_size_options_accept_units():
    for setting in (setting for setting in SETTINGS if setting.is_size):
        assert parse(setting.flag, "64KiB")[setting.name] == 64 * 2**10
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(setting.variable, "1 MiB")
            assert parse()[setting.name] == 2**20
        assert "write 64MiB (67108864 bytes) or 64000000" in reject(setting.flag, "64M").message
    reject("--max-calls", "1KiB")  # this setting is a number without units


def test_log_level_option_ignores_case_unlike_log_format():
    assert {parse("--log-level", value)["log_level"] for value in ("DEBUG", "Debug", "debug")} == {"debug"}
    reject("--log-format", "JSON")


def check(*flags: str | Path, env: dict[str, str] | None = None) -> Outcome:
    return run_module("tensor_reshape.server", "--check-config", *flags, env=env)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A file with a token."""
    (tmp_path / "tokens").write_text("me:" + "0123456789abcdef" * 2 + "\n")
    return tmp_path / "tokens"


def test_check_config_exits_with_0_for_a_valid_configuration(tmp_path: Path, tokens: Path):
    files = issue_certificates(tmp_path)
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


def test_check_config_reports_permissions_for_unknown_methods(tmp_path: Path, tokens: Path):
    permissions = tmp_path / "permissions"
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
