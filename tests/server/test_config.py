"""What can be configured, and what is refused."""

import pytest

from tensor_reshape.core.errors import TensorReshapeError
from tensor_reshape.server.config import Config, ConfigError, check_address


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
