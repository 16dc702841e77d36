"""Which way a call goes: by the name of its method, whatever has wrapped what serves it."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tensor_reshape.server.calls.router import CallRouter, Submit


@dataclass
class Details:
    """As grpcio's."""

    method: object


@dataclass
class NewCall:
    """As grpcio's event of a new call."""

    call_details: object


def answer(word: str) -> Submit:
    """Returns a way of serving that answers `word`."""

    def submit(function: object, /, *args: object, **kwargs: object) -> "Future[object]":
        del function, args, kwargs
        future: Future[object] = Future()
        future.set_result(word)
        return future

    return submit


class Threads(ThreadPoolExecutor):
    """The threads of the server."""

    submit = staticmethod(answer("threads"))


@pytest.fixture
def router() -> CallRouter:
    return CallRouter(Threads(1), {"/a.Service/Routed": answer("routed")})


@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        ((None, NewCall(Details(b"/a.Service/Routed"))), "routed"),
        ((None, NewCall(Details(b"/a.Service/Other"))), "threads"),
        ((None, NewCall(Details("/a.Service/Routed"))), "threads"),
        ((None, NewCall(None)), "threads"),
        ((None, object()), "threads"),
        ((None,), "threads"),
        ((), "threads"),
    ],
    ids=["routed", "another", "not bytes", "no details", "no call", "no event", "nothing"],
)
def test_a_method_with_a_route_takes_it_and_whatever_else_comes_has_the_servers_threads(
    router: CallRouter, arguments: tuple[object, ...], way: str
):
    assert router.submit(len, *arguments).result() == way
