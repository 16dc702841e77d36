"""Valid and invalid configurations."""

import math
from pathlib import Path
from typing import Any

import pytest

from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES
from tensor_reshape.server.config import (
    MEMORY_BUDGET_BYTES,
    SETTINGS,
    Config,
    ConfigError,
    TlsFiles,
    fit_memory,
    is_address,
)

# With these values, the bounds of different settings do not interfere.
ROOMY = {"memory_budget_bytes": 2**45}


def list_edges() -> list[tuple[str, object, bool]]:
    """Returns for each setting the values at its bounds and the next values beyond, and whether each is valid."""
    edges: list[tuple[str, object, bool]] = []
    for setting in SETTINGS:
        step = 1 if setting.type is int else 0.01
        if setting.least is not None:
            edges += [(setting.name, setting.least - step, False)]
            edges += [(setting.name, setting.least, True)] if setting.name not in ROOMY else []
        if setting.most is not None:
            edges += [(setting.name, setting.most + step, False), (setting.name, setting.most, True)]
        edges += [(setting.name, word, True) for word in setting.choices]
        edges += [(setting.name, "another", False)] if setting.choices else []
    return edges


def test_listen_address_is_host_and_port_or_unix_path():
    addresses = ["127.0.0.1:0", "localhost:50051", "0.0.0.0:65535", "[::1]:50051", "[::]:0", "host.example:1"]
    addresses += ["unix:s", "unix:/s"]
    others = ["", ":", ":1", "host", "host:", "host:http", "host:65536", "host:-1", "host:1.0", "host:\u0661"]
    others += ["::1:0", "::1:50077", "[::1:0", "127.0.0.1:" + "1" * 5000]
    others += ["unix:", "unix", f"{'h' * 64}:1", "a..b:1", "\ud800:1"]  # no resolver accepts the last three
    assert [address for address in (*addresses, *others) if is_address(address)] == addresses


def test_config_error_lists_all_invalid_settings():
    with pytest.raises(ConfigError) as caught:
        Config(listen=("127.0.0.1:0", "nowhere"), health_listen="host", max_calls=0, tls_key=Path("key.pem"))
    faults = caught.value.faults
    assert [fault.split()[0] for fault in faults] == ["max_calls", "cannot", "cannot", "set"]
    assert ("nowhere" in faults[1], "'host'" in faults[2]) == (True, True)
    assert str(caught.value).splitlines() == list(faults)
    assert issubclass(ConfigError, TensorReshapeError)


@pytest.mark.parametrize(
    "origin",
    ["*", "shapes.example", "https://Shapes.example", "https://a.example/", "null", "", "https://a.example:443"],
)
def test_allowed_origin_has_a_scheme_and_a_host(origin: str):
    with pytest.raises(ConfigError, match="--http-allow-origin is"):
        Config(http_allow_origin=(origin,))
    assert Config(http_allow_origin=("https://a.example", "http://localhost:8000", "https://a.example:80"))


def test_http_process_works_with_the_smallest_memory_budget_of_the_server():
    config = Config(http_listen="127.0.0.1:1", memory_budget_bytes=3 * 4 * MAX_MESSAGE_BYTES)

    assert config.for_http("127.0.0.1:1").memory_budget_bytes == 4 * MAX_MESSAGE_BYTES


def test_default_listen_address_is_loopback():
    assert Config().listen == ("127.0.0.1:50051",)


def test_each_setting_accepts_only_values_within_its_bounds():
    for setting, value, admitted in list_edges():
        values: dict[str, Any] = {**ROOMY, setting: value}
        if admitted:
            assert getattr(Config(**values), setting) == value
        else:
            with pytest.raises(ConfigError, match=f"^{setting} must be .*, not "):
                pytest.fail(f"{setting} takes {value}: {Config(**values)}")
    with pytest.raises(ConfigError, match="drain_seconds must be 0 to 3600, not nan"):
        Config(drain_seconds=math.nan)


MUTUAL: dict[str, Any] = {"tls_certificate": Path("c"), "tls_key": Path("k"), "tls_client_ca": Path("a")}
TLS: dict[str, Any] = {"tls_certificate": Path("c"), "tls_key": Path("k")}
TOKENS: dict[str, Any] = {"token_file": Path("t")}
ANYONE: dict[str, Any] = {"listen": ("0.0.0.0:0",)}


def test_tls_settings_require_both_certificate_and_key():
    assert Config().tls is None
    assert Config(**MUTUAL).tls == TlsFiles(certificate=Path("c"), key=Path("k"), client_ca=Path("a"))
    for names in (("certificate",), ("key",), ("client_ca",), ("key", "client_ca")):
        files: dict[str, Any] = {f"tls_{name}": Path(name) for name in names}
        with pytest.raises(ConfigError, match="set both --tls-certificate and --tls-key"):
            pytest.fail(f"{names} are {Config(**files).tls}")


def test_conflicting_authentication_settings_are_rejected():
    rows: list[tuple[dict[str, Any], str]] = [
        ({"authorization_file": Path("f")}, "needs --tls-client-ca or --token-file"),
        ({"authorization_file": Path("f"), **TLS}, "needs --tls-client-ca or --token-file"),
        ({"listen": ("127.0.0.1:1", "0.0.0.0:1"), **TOKENS}, r"--token-file on 0\.0\.0\.0:1 needs TLS"),
        ({"listen": ("server.example.org:1",), **TOKENS}, "needs TLS"),
    ]
    for settings, cause in rows:
        with pytest.raises(ConfigError, match=cause):
            pytest.fail(f"{settings} are taken: {Config(**settings)}")


def test_tokens_are_accepted_with_tls_or_local_addresses():
    assert Config(listen=("127.0.0.1:1", "unix:s", "localhost:1", "[::1]:1"), **TOKENS).authenticates
    assert Config(**ANYONE, **TLS, **TOKENS).authenticates
    assert Config(**ANYONE, allow_plaintext_tokens=True, **TOKENS).authenticates


def test_each_worker_gets_a_share_of_the_server_limits():
    config = Config(workers=4, memory_budget_bytes=2**30, max_calls=10, log_level="debug")
    share = config.for_worker(("127.0.0.1:1",))
    assert (share.workers, share.memory_budget_bytes, share.max_calls) == (1, 2**28, 3)
    assert (share.log_level, share.listen) == ("debug", ("127.0.0.1:1",))


def test_workers_with_unix_sockets_are_rejected():
    with pytest.raises(ConfigError, match="workers cannot share a unix socket"):
        Config(workers=2, listen=("unix:s",))
    with pytest.raises(ConfigError, match="workers cannot share a unix socket"):
        Config(workers=2, health_listen="unix:s")


MIB = 1 << 20


def test_default_limits_depend_on_available_memory():
    fits = {
        (10 * 2**30, 2, None): (MEMORY_BUDGET_BYTES, MAX_MESSAGE_BYTES),
        (10 * 2**30, 2, 5000): (MEMORY_BUDGET_BYTES, 5000),
        (10 * 2**30, 128, None): (512 * MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES),  # 64 workers need more than the default
        (10 * 2**30, 2, 256 * MIB): (2 * 2**30, 256 * MIB),
        (10 * 2**30, 2000, None): (10 * 2**30 - 2240, 10 * 2**30 // 8000),
        (256 * MIB, 2, None): (256 * MIB, MAX_MESSAGE_BYTES),
        (64 * MIB, 2, None): (64 * MIB, 8 * MIB),
        (64 * MIB, 4, None): (64 * MIB, 4 * MIB),
        (64 * MIB, 2, 32 * MIB): (64 * MIB, 32 * MIB),  # rejected later, because the value was configured
        (8192, 2, None): (8192, 1024),
        (64 * MIB, 1, None): (64 * MIB, 16 * MIB),  # of one process for HTTP
    }
    assert {row: fit_memory(*row) for row in fits} == fits
    with pytest.raises(ConfigError, match="only 8191 bytes"):
        fit_memory(8191, 2, None)


def test_error_for_a_too_small_memory_budget_suggests_a_remedy():
    with pytest.raises(ConfigError, match="lower --max-message-bytes or --workers"):
        Config(memory_budget_bytes=1024)
