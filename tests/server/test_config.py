"""What can be configured, and what is refused."""

import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES
from tensor_reshape.server.config import SETTINGS, Config, ConfigError, TlsFiles, fit_memory, is_address
from tensor_reshape.server.settings.bounds import MEMORY_BUDGET_BYTES

# With these, no bound of one setting meets that of another.
ROOMY = {"memory_budget_bytes": 2**45}


def list_edges() -> list[tuple[str, object, bool]]:
    """Lists for each setting with bounds the values at them, and the next ones beyond, and whether they are taken."""
    edges: list[tuple[str, object, bool]] = []
    for setting in SETTINGS:
        declared, step = setting.declaration, 1 if setting.type is int else 0.01
        if declared.least is not None:
            edges += [(setting.name, declared.least - step, False)]
            edges += [(setting.name, declared.least, True)] if setting.name not in ROOMY else []
        if declared.most is not None:
            edges += [(setting.name, declared.most + step, False), (setting.name, declared.most, True)]
        edges += [(setting.name, word, True) for word in declared.choices]
        edges += [(setting.name, "another", False)] if declared.choices else []
    return edges


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:0", "localhost:50051", "0.0.0.0:65535", "[::1]:50051", "[::]:0", "host.example:1", "unix:s", "unix:/s"],
)
def test_an_address_is_a_host_and_a_port_or_a_path(address: str):
    assert is_address(address)


@pytest.mark.parametrize(
    "address",
    [
        *[
            "",
            ":",
            ":1",
            "host",
            "host:",
            "host:http",
            "host:65536",
            "host:-1",
            "host:1.0",
            "host:\u0661",
            "unix:",
            "unix",
        ],
        *[f"{'h' * 64}:1", "a..b:1", "\ud800:1"],  # which no resolver can be asked for
    ],
)
def test_anything_else_is_no_address(address: str):
    assert not is_address(address)


def test_every_address_of_a_configuration_is_checked():
    with pytest.raises(ConfigError, match="nowhere"):
        Config(listen=("127.0.0.1:0", "nowhere"))


def test_all_faults_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        Config(listen=("nowhere",), threads=0, tls_key=Path("key.pem"))
    assert [fault.split()[0] for fault in caught.value.faults] == ["threads", "cannot", "--tls-certificate"]
    assert str(caught.value).splitlines() == list(caught.value.faults)


def test_the_default_address_is_for_this_machine_alone():
    assert Config().listen == ("127.0.0.1:50051",)


def test_the_output_is_bounded_like_the_request():
    assert Config(max_message_bytes=5000).limits.max_output_bytes == 5000


def test_the_rank_limit_reaches_the_rules():
    assert Config(max_rank=7).limits.max_rank == 7


def test_a_configuration_error_is_an_error_of_this_project():
    assert issubclass(ConfigError, TensorReshapeError)


@pytest.mark.parametrize(("setting", "value", "admitted"), list_edges(), ids=str)
def test_each_setting_takes_what_is_within_its_bounds_and_nothing_beyond(setting: str, value: object, admitted: bool):
    values = {**ROOMY, setting: value}
    if admitted:
        assert getattr(Config(**values), setting) == value  # type: ignore[arg-type] # whatever the setting's type is
    else:
        with pytest.raises(ConfigError, match=f"^{setting} is .*, not "):
            Config(**values)  # type: ignore[arg-type]


def test_a_number_of_seconds_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="drain_seconds is 0 to 3600, not nan"):
        Config(drain_seconds=math.nan)


def test_the_files_of_tls_are_found_together():
    files = {"certificate": Path("c"), "key": Path("k"), "client_ca": Path("a")}
    config = Config(tls_certificate=Path("c"), tls_key=Path("k"), tls_client_ca=Path("a"))
    assert config.tls == TlsFiles(**files)


def test_without_files_there_is_no_tls():
    assert Config().tls is None


@pytest.mark.parametrize("names", [("certificate",), ("key",), ("client_ca",), ("key", "client_ca")], ids="-".join)
def test_files_of_tls_that_lack_others_are_refused(names: tuple[str, ...]):
    with pytest.raises(ConfigError, match="go together"):
        Config(**{f"tls_{name}": Path(name) for name in names})  # type: ignore[arg-type]


MUTUAL = {"tls_certificate": Path("c"), "tls_key": Path("k"), "tls_client_ca": Path("a")}
TLS = {"tls_certificate": Path("c"), "tls_key": Path("k")}
TOKENS = {"token_file": Path("t")}


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"allow_identity": ("dns:a",)}, "needs --tls-client-ca"),
        ({"allow_identity": ("dns:a",), **TLS, **TOKENS}, "needs --tls-client-ca"),
        ({"allow_identity": ("dns:a", "token:a"), **MUTUAL, **TOKENS}, "is about certificates"),
        ({"authorization_file": Path("f")}, "needs --tls-client-ca or --token-file"),
        ({"authorization_file": Path("f"), **TLS}, "needs --tls-client-ca or --token-file"),
        ({"listen": ("127.0.0.1:1", "0.0.0.0:1"), **TOKENS}, r"--token-file on 0\.0\.0\.0:1 needs TLS"),
        ({"listen": ("server.example.org:1",), **TOKENS}, "needs TLS"),
    ],
    ids=str,
)
def test_what_would_let_in_others_than_was_meant_is_refused(settings: dict[str, Any], cause: str):
    with pytest.raises(ConfigError, match=cause):
        Config(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"listen": ("127.0.0.1:1", "unix:s", "localhost:1", "[::1]:1"), **TOKENS},
        {"listen": ("0.0.0.0:1",), **TLS, **TOKENS},
        {"listen": ("0.0.0.0:1",), "allow_plaintext_tokens": True, **TOKENS},
    ],
    ids=str,
)
def test_tokens_are_taken_over_tls_on_this_machine_and_where_it_is_said(settings: dict[str, Any]):
    assert Config(**settings).authenticates


@pytest.mark.parametrize(
    ("settings", "reflects"),
    [({}, True), (TLS, True), (MUTUAL, False), (TOKENS, False), ({**TOKENS, "reflection": True}, True)],
    ids=str,
)
def test_reflection_is_closed_where_callers_say_who_they_are_unless_it_is_asked_for(
    settings: dict[str, Any], reflects: bool
):
    config = Config(**settings)
    assert config.reflects == reflects
    assert not replace(config, reflection=False).reflects


@pytest.mark.parametrize(
    ("settings", "serves"),
    [
        ({}, True),
        ({"listen": ("unix:s", "[::1]:0"), "health_listen": "0.0.0.0:0"}, True),
        ({"listen": ("localhost:0", "0.0.0.0:0")}, False),
        ({"listen": ("0.0.0.0:0",), **TLS}, False),
        ({"listen": ("0.0.0.0:0",), **MUTUAL}, True),
        ({"listen": ("0.0.0.0:0",), **TLS, **TOKENS}, True),
    ],
    ids=str,
)
def test_channelz_is_for_callers_of_this_machine_or_who_say_who_they_are(settings: dict[str, Any], serves: bool):
    with nullcontext() if serves else pytest.raises(ConfigError, match=r"--channelz on 0\.0\.0\.0:0 needs"):
        Config(channelz=True, **settings)


@pytest.mark.parametrize(("release", "takes"), [((1, 80), False), (None, False), ((1, 84), True), ((2, 0), True)])
def test_compressed_messages_are_taken_where_grpcio_bounds_what_they_unpack_to(
    release: tuple[int, int] | None, takes: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tensor_reshape.server.config.find_release", lambda: release)
    with nullcontext() if takes else pytest.raises(ConfigError, match=r"grpcio 1\.84"):
        Config(compression=True)


def test_a_worker_gets_its_share_and_the_rest_as_it_is():
    config = Config(workers=4, memory_budget_bytes=2**30, max_calls=10, threads=3, log_level="debug")
    share = config.for_worker(("127.0.0.1:1",))
    assert (share.workers, share.memory_budget_bytes, share.max_calls) == (1, 2**28, 3)
    assert (share.threads, share.log_level, share.listen) == (3, "debug", ("127.0.0.1:1",))


@pytest.mark.parametrize("addresses", [{"listen": ("unix:s",)}, {"health_listen": "unix:s"}], ids=str)
def test_workers_cannot_share_a_unix_socket(addresses: dict[str, Any]):
    with pytest.raises(ConfigError, match="no unix socket"):
        Config(workers=2, **addresses)


def test_the_port_for_health_has_an_address_as_the_others():
    with pytest.raises(ConfigError, match="cannot listen on 'host'"):
        Config(health_listen="host")


def test_workers_cannot_share_what_is_registered_with_one_of_them():
    with pytest.raises(ConfigError, match="--shared-memory-dir needs one worker"):
        Config(workers=2, shared_memory_dir=Path("/dev/shm"))


MIB = 1 << 20


@pytest.mark.parametrize(
    ("room", "workers", "asked", "expected"),
    [
        (10 * 2**30, 1, None, (MEMORY_BUDGET_BYTES, MAX_MESSAGE_BYTES)),
        (10 * 2**30, 1, 5000, (MEMORY_BUDGET_BYTES, 5000)),
        (10 * 2**30, 16, None, (MEMORY_BUDGET_BYTES, MAX_MESSAGE_BYTES)),  # which is refused: it is no lack of memory
        (256 * MIB, 1, None, (256 * MIB, MAX_MESSAGE_BYTES)),
        (64 * MIB, 1, None, (64 * MIB, 8 * MIB)),
        (64 * MIB, 2, None, (64 * MIB, 4 * MIB)),
        (64 * MIB, 1, 32 * MIB, (64 * MIB, 32 * MIB)),  # refused as well: it was asked for
        (8192, 1, None, (8192, 1024)),
    ],
)
def test_the_defaults_follow_the_memory_of_the_system(
    room: int, workers: int, asked: int | None, expected: tuple[int, int]
):
    assert fit_memory(room, workers, asked) == expected


def test_a_budget_below_the_least_says_what_to_lower():
    with pytest.raises(ConfigError, match="lower max_message_bytes or workers"):
        Config(memory_budget_bytes=1024)


def test_a_system_without_memory_for_calls_is_refused():
    with pytest.raises(ConfigError, match="leaves 8191 bytes"):
        fit_memory(8191, 1, None)
