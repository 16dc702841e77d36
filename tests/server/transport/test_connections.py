"""Which connections go when there are too many."""

import sys
from contextlib import ExitStack

import numpy as np
import pytest

from http2 import Connection as RawConnection
from in_process import ANY_PORT, run_runner
from tensor_reshape.client import Client
from tensor_reshape.server.config import Config
from tensor_reshape.server.transport.connections import QUIET_SECONDS, Connection, choose_victims


def make(count: int, peer: str, quiet: float) -> list[Connection]:
    return [Connection(number, peer, quiet + number / 1000) for number in range(count)]


def test_the_quietest_go_first():
    victims = choose_victims(make(10, "a", 10), 3)
    assert [victim.descriptor for victim in victims] == [9, 8, 7]


def test_who_has_few_keeps_them_however_quiet_they_are():
    victims = choose_victims(make(3, "polite", 1000) + make(50, "stranger", 5), 40)
    assert {victim.peer for victim in victims} == {"stranger"}


def test_who_talks_keeps_his_connections():
    assert choose_victims(make(10, "a", QUIET_SECONDS / 2), 10) == []


def test_many_peers_with_one_connection_each_have_no_one_to_spare():
    connections = [Connection(number, f"peer {number}", 5.0) for number in range(50)]
    assert len(choose_victims(connections, 20)) == 20


def test_nothing_goes_where_there_is_room():
    assert choose_victims(make(10, "a", 10), -5) == []
    assert choose_victims([], 0) == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells what is quiet")
def test_who_fills_one_port_shuts_nobody_out_there_however_much_room_another_has():
    config = Config(listen=(ANY_PORT,), health_listen=ANY_PORT, max_connections=16, drain_seconds=0, grace_seconds=0)
    with run_runner(config) as runner, ExitStack() as stack:
        address = runner.addresses[0]
        for _ in range(16):
            stack.enter_context(RawConnection(address))
        client = stack.enter_context(Client(address))
        client.wait_until_ready(timeout=30)
        assert client.static_reshape(np.arange(6, dtype=np.float32), [3, 2], special_zero=False).shape == (3, 2)
