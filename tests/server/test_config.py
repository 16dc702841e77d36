"""What can be configured, and what is refused."""

import pytest

from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES
from tensor_reshape.server.config import MEMORY_BUDGET_BYTES, Config, ConfigError, check_address, fit_memory


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:0", "localhost:50051", "0.0.0.0:65535", "[::1]:50051", "[::]:0", "host.example:1", "unix:s", "unix:/s"],
)
def test_an_address_is_a_host_and_a_port_or_a_path(address: str):
    assert check_address(address) == address


@pytest.mark.parametrize(
    "address",
    ["", ":", ":1", "host", "host:", "host:http", "host:65536", "host:-1", "host:1.0", "host:\u0661", "unix:", "unix"],
)
def test_anything_else_is_no_address(address: str):
    with pytest.raises(ConfigError):
        check_address(address)


def test_every_address_of_a_configuration_is_checked():
    with pytest.raises(ConfigError, match="nowhere"):
        Config(listen=("127.0.0.1:0", "nowhere"))


def test_the_default_address_is_for_this_machine_alone():
    assert Config().listen == ("127.0.0.1:50051",)


def test_the_output_is_bounded_like_the_request():
    assert Config(max_message_bytes=5000).limits.max_output_bytes == 5000


def test_the_rank_limit_reaches_the_rules():
    assert Config(max_rank=7).limits.max_rank == 7


def test_a_configuration_error_is_an_error_of_this_project():
    assert issubclass(ConfigError, TensorReshapeError)


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
