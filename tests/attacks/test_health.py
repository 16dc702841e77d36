"""Health and reflection answer whatever callers hold open, and no worker is killed for what callers do."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, Connection, grpc_message
from meters import count_threads, read_memory
from polite_clients import run_polite_clients
from server_processes import STOP_SECONDS, ServerProcess, run_server
from tensor_reshape.server.auxiliary.bounded_calls import MAX_SILENT
from tensor_reshape.server.auxiliary.health import MAX_WATCHES_PER_CONNECTION

ATTACK_SECONDS = 4.0
BOUND_SECONDS = 5.0  # however busy the machine is: a service that is kept from answering does not answer at all
CONNECTIONS, STREAMS = 40, 60
SERVING, NOT_SERVING = grpc_message(b"\x08\x01"), grpc_message(b"\x08\x02")
LIST_SERVICES = grpc_message(b"\x3a\x00")
# Makes the installed grpcio one that the server does not know.
UNKNOWN_GRPCIO = """
from grpc import _server

finish = _server._possibly_finish_call
_server._possibly_finish_call = lambda call, tag: finish(call, tag)
"""


@pytest.fixture(scope="module", params=["inline", "threads", "unknown grpcio"])
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """How a server serves: in the words of `--serving`, and in its environment."""
    if request.param != "unknown grpcio":
        return request.param, {}
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(UNKNOWN_GRPCIO)
    return "threads", {"PYTHONPATH": str(site)}


@pytest.fixture
def attacked(way: tuple[str, dict[str, str]]) -> Iterator[ServerProcess]:
    with run_server("--serving", way[0], env=way[1]) as server:
        yield server


def ask(connection: Connection, path: str, message: bytes) -> int:
    """Makes a call whose message comes with its headers, and returns its stream."""
    stream = connection.open(path)
    connection.send_data(stream, message, end=path != REFLECTION)
    return stream


def await_bodies(connection: Connection, streams: list[int], body: bytes | None = None) -> None:
    """Awaits that each stream has brought something, or just `body`."""

    def have_come() -> bool:
        found = [connection.bodies.get(stream) for stream in streams]
        return all(one == body if body else one for one in found)

    assert connection.await_(have_come)


def check_promptly(address: str) -> None:
    """Checks the health over a connection of its own."""
    with Connection(address) as connection:
        begin = time.monotonic()
        assert connection.call(HEALTH_CHECK, b"").is_ok
        assert time.monotonic() - begin < BOUND_SECONDS


def test_silent_health_checks_take_nothing_from_anybody(way: tuple[str, dict[str, str]]):
    # Of two workers, whose supervisor must not take them for dead; of a lone server, see `test_quick_silence`.
    with (
        run_server("--serving", way[0], "--workers", "2", env=way[1]) as server,
        run_polite_clients(server.address) as clients,
        ExitStack() as stack,
    ):
        for _ in range(6):
            connection = stack.enter_context(Connection(server.address))
            for path in (HEALTH_CHECK, HEALTH_CHECK, HEALTH_WATCH, REFLECTION):
                connection.open(path)
        time.sleep(ATTACK_SECONDS)  # what is seen meanwhile is the subject
        figures = clients.stop()
        assert {kind: seen.failures for kind, seen in figures.items()} == {"raw": [], "sdk": [], "health": []}
        assert all(seen.find_quantile(0.99) < BOUND_SECONDS for seen in figures.values()), figures
        check_promptly(server.address)
        assert server.stop() == 0
        assert not [record for record in server.records if record["message"] == "worker hangs"]


def test_thousands_of_silent_calls_leave_room_for_one_with_a_message(attacked: ServerProcess):
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(attacked.address)) for _ in range(CONNECTIONS)]
        for connection in connections:
            for index in range(STREAMS):
                connection.open((HEALTH_CHECK, HEALTH_WATCH, REFLECTION)[index % 3])
        with Connection(attacked.address) as connection:
            assert connection.call(HEALTH_CHECK, b"").is_ok  # when all of them have been taken up
        check_promptly(attacked.address)
    assert attacked.stop() == 0


def test_a_call_that_must_go_is_told_why(server: ServerProcess):
    with Connection(server.address) as connection:
        streams = [connection.open(HEALTH_CHECK) for _ in range(MAX_SILENT + 1)]
        assert connection.await_end(streams[0]).status == "8"


def test_one_connection_has_no_more_than_its_share_of_watches(attacked: ServerProcess):
    with Connection(attacked.address) as connection, Connection(attacked.address) as other:
        streams = [ask(connection, HEALTH_WATCH, grpc_message(b"")) for _ in range(MAX_WATCHES_PER_CONNECTION)]
        await_bodies(connection, streams, SERVING)
        late = ask(connection, HEALTH_WATCH, grpc_message(b""))
        assert connection.await_end(late).status in {"1", "8"}
        stream = ask(other, HEALTH_WATCH, grpc_message(b""))
        await_bodies(other, [stream], SERVING)
        attacked.process.terminate()
        for stream in streams:
            assert connection.await_end(stream).is_ok
            assert connection.bodies[stream] == SERVING + NOT_SERVING


def test_watches_hold_no_thread(server: ServerProcess):
    check_promptly(server.address)
    threads = count_threads(server.process.pid)
    with ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(Connection(server.address))
            streams = [ask(connection, HEALTH_WATCH, grpc_message(b"")) for _ in range(MAX_WATCHES_PER_CONNECTION)]
            await_bodies(connection, streams, SERVING)
        assert count_threads(server.process.pid) == threads
        check_promptly(server.address)


def test_watchers_that_do_not_read_keep_no_news_from_others(attacked: ServerProcess):
    with Connection(attacked.address) as polite, ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(Connection(attacked.address, initial_window=0))
            for _ in range(MAX_WATCHES_PER_CONNECTION // 4):
                ask(connection, HEALTH_WATCH, grpc_message(b""))
        stream = ask(polite, HEALTH_WATCH, grpc_message(b""))
        await_bodies(polite, [stream], SERVING)
        attacked.process.terminate()
        assert polite.await_end(stream).is_ok
        assert polite.bodies[stream] == SERVING + NOT_SERVING


def test_reflection_streams_that_stay_open_keep_nobody_out(attacked: ServerProcess):
    with ExitStack() as stack:
        for _ in range(2 * MAX_SILENT):
            connection = stack.enter_context(Connection(attacked.address))
            await_bodies(connection, [ask(connection, REFLECTION, LIST_SERVICES)])
        check_promptly(attacked.address)


def test_a_stop_does_not_wait_for_silent_calls(way: tuple[str, dict[str, str]]):
    grace = str(2 * STOP_SECONDS)
    with (
        run_server("--serving", way[0], "--grace-seconds", grace, env=way[1]) as server,
        Connection(server.address) as connection,
    ):
        for path in (HEALTH_CHECK, HEALTH_WATCH, REFLECTION):
            connection.open(path)
        assert connection.call(HEALTH_CHECK, b"").is_ok
        assert server.stop() == 0  # which waits for less than the grace


def test_health_answers_beside_calls_that_hold_all_threads():
    with run_server("--threads", "1", "--serving", "threads") as server, Connection(server.address) as connection:
        for _ in range(8):
            connection.open("/tensor_reshape.v1.ReshapeService/StaticReshape")
        check_promptly(server.address)


def test_names_of_services_are_not_kept(server: ServerProcess):
    name = b"\x0a\x80\x80\x03" + b"A" * 49152
    before = read_memory(server.process.pid, "VmRSS")
    with ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(Connection(server.address))
            streams = [ask(connection, HEALTH_WATCH, grpc_message(name)) for _ in range(MAX_WATCHES_PER_CONNECTION)]
            await_bodies(connection, streams)
        assert read_memory(server.process.pid, "VmRSS") - before < 640 * 49 * 1024
