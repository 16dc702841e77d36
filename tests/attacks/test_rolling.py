"""Servers that stop under clients without a retry policy: nothing that reached a server ends as CANCELLED."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest

from plain_requests import STATIC_RESHAPE, build_static_request
from server_processes import ServerProcess, run_server

CLIENTS = 8
PAUSE_SECONDS = 0.005
REQUEST = build_static_request()


class RawClients:
    """Clients that call all the time, with grpc's defaults: no retry policy.

    What never reached a server they begin anew by themselves. Such is a call that crosses the GOAWAY, which no server
    prevents: a channel may choose a connection of which its transport has just heard that it closes.

    Attributes:
        ends: how their calls have ended, by the name of the status.
    """

    def __init__(self, address: str, *, share: bool) -> None:
        """Begins to call; clients that `share` have one connection, which is never idle.

        The others pause between calls: else they take the whole machine, and a worker's start several times as long.
        """
        self.ends: Counter[str] = Counter()
        self._address = address
        self._stopped = threading.Event()
        self._lock = threading.Condition()
        self._pause_seconds = 0.0 if share else PAUSE_SECONDS
        self._options = [("grpc.use_local_subchannel_pool", int(not share))]
        self._threads = [threading.Thread(target=self._call_always) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def await_answers(self, count: int) -> None:
        """Awaits so many answers more."""
        with self._lock:
            wanted = self.ends["OK"] + count
            assert self._lock.wait_for(lambda: self.ends["OK"] >= wanted, 60), self.ends

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _call_always(self) -> None:
        with grpc.insecure_channel(self._address, self._options) as channel:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(STATIC_RESHAPE)
            while not self._stopped.wait(self._pause_seconds):
                call = method.future(REQUEST, timeout=30)
                code = call.code()
                with self._lock:
                    self.ends[code.name] += 1
                    self._lock.notify_all()


@contextmanager
def run_raw_clients(address: str, *, share: bool = False) -> Iterator[RawClients]:
    clients = RawClients(address, share=share)
    try:
        yield clients
    finally:
        clients.stop()


def find_workers(server: ServerProcess) -> list[int]:
    return [record["pid"] for record in server.records if record["message"] == "worker serves"]


def test_workers_that_are_replaced_one_by_one_lose_no_call_of_a_client_without_a_retry_policy(serving: str):
    flags = ("--workers", "2", "--serving", serving, "--drain-seconds", "0.3")
    with run_server(*flags) as server, run_raw_clients(server.address) as clients:
        server.await_records(2, "worker serves")
        for turn in range(4):
            clients.await_answers(50)
            leaving = find_workers(server)[turn]
            os.kill(leaving, signal.SIGTERM)
            server.await_records(3 + turn, "worker serves")
        clients.await_answers(50)
    assert set(clients.ends) == {"OK"}


@pytest.mark.parametrize("share", [False, True], ids=["a connection each", "one connection"])
def test_a_lone_server_that_stops_cancels_no_call(serving: str, share: bool):
    with run_server("--serving", serving) as server, run_raw_clients(server.address, share=share) as clients:
        clients.await_answers(50)
        assert server.stop() == 0
    assert "CANCELLED" not in clients.ends
