"""The call whose headers grpcio reads."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc import _server
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from http2 import Connection, grpc_message
from in_process import run_stock
from tensor_reshape.server.calls import unread_calls
from tensor_reshape.server.calls.unread_calls import SenderFinder, find_unread_calls
from tensor_reshape.wire.methods import INFER_SHAPE

MANY = 5000


def test_the_call_whose_headers_are_read_is_found(monkeypatch: pytest.MonkeyPatch):
    found = list[str]()
    make = cygrpc._Metadatum

    def look(key: str, value: str) -> object:
        if key == "x":
            found.extend(call.peer().decode() for call in find_unread_calls())
        return make(key, value)

    def answer(_: bytes, __: grpc.ServicerContext) -> bytes:
        assert find_unread_calls() == []  # it has been handed over
        return b""

    monkeypatch.setattr(cygrpc, "_Metadatum", look)
    with run_stock({"InferShape": answer}) as address, Connection(address) as connection:
        stream = connection.open(INFER_SHAPE.path, headers=[("x", "y")])
        connection.send_data(stream, grpc_message(b""), end=True)
        assert connection.await_end(stream).is_ok
        assert found == [f"ipv4:127.0.0.1:{connection.socket.getsockname()[1]}"]


def test_a_request_for_a_call_that_has_not_come_has_none():
    with run_stock({}):
        assert [found for found in gc.get_objects() if type(found) is cygrpc._RequestCallTag]
        assert find_unread_calls() == []


@pytest.mark.parametrize(
    ("module", "name"), [(_server, "_REQUEST_CALL_TAG"), (cygrpc, "_RequestCallTag"), (cygrpc, "Call")]
)
def test_a_grpcio_that_has_it_otherwise_has_none(monkeypatch: pytest.MonkeyPatch, module: object, name: str):
    monkeypatch.delattr(module, name)
    assert find_unread_calls() == []


def test_what_other_threads_are_making_is_left_alone():
    """A tuple that is not whole yet, and to which anybody else refers, cannot be made."""
    made, interval = list[int](), sys.getswitchinterval()

    def make() -> None:
        while len(made) < MANY:
            made.append(len(tuple(number for number in range(300))))

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(1) as pool:
            task = pool.submit(make)
            while not task.done():
                find_unread_calls()
            task.result()
    finally:
        sys.setswitchinterval(interval)


class Call:
    """A call of which nothing matters but its connection."""

    def __init__(self, peer: str) -> None:
        self._peer = peer

    def peer(self) -> bytes:
        return self._peer.encode()


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """What is unread, for a test to change."""
    calls = list[Call]()
    monkeypatch.setattr(unread_calls, "find_unread_calls", lambda: list(calls))
    monkeypatch.setattr(unread_calls, "_REST_SHARE", 0)
    return calls


def test_where_all_are_of_one_connection_it_is_the_sender(unread: list[Call]):
    unread += [Call("a:1"), Call("a:1")]
    assert SenderFinder().look(1, 1) == {"a:1"}


def test_of_several_the_sender_is_known_when_all_that_waited_have_been_taken(unread: list[Call]):
    finder, short = SenderFinder(), Call("b:1")
    unread += [Call("a:1"), short, Call("a:1")]
    assert finder.look(10, 1) == set()
    unread.remove(short)  # it was taken, and served
    unread.append(Call("c:1"))
    assert finder.look(11, 1) == set()  # one that waited then may still be waiting
    assert finder.look(12, 2) == {"a:1"}
    assert finder.look(12, 2) == set()  # told


def test_who_comes_later_is_looked_for_anew(unread: list[Call]):
    finder, first, second = SenderFinder(), Call("a:1"), Call("b:1")
    unread.append(first)
    assert finder.look(1, 1) == {"a:1"}
    unread.append(second)
    assert finder.look(2, 2) == {"a:1", "b:1"}
    unread.remove(second)
    finder.note_end(1)
    unread.append(Call("c:1"))
    assert finder.look(3, 2) == {"a:1", "c:1"}


def test_no_call_is_kept_when_all_lists_have_been_read(unread: list[Call]):
    finder = SenderFinder()
    unread += [Call("a:1"), Call("b:1")]
    finder.look(1, 1)
    assert finder._suspects
    finder.note_end(0)
    assert not finder._suspects


def test_a_call_without_a_name_is_nobodys_and_is_looked_for_again(unread: list[Call]):
    finder = SenderFinder()
    unread.append(Call("unknown"))  # as gRPC's core calls one that has run out of time
    assert finder.look(1, 1) == set()
    unread[:] = [Call("a:1")]
    assert finder.look(1, 1) == {"a:1"}


def test_looks_are_a_part_of_the_time_alone(unread: list[Call], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unread_calls, "_REST_SHARE", 1e9)
    finder = SenderFinder()
    assert finder.look(1, 1) == set()
    unread.append(Call("a:1"))
    assert finder.look(1, 1) == set()
