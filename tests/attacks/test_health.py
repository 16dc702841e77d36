"""Health and reflection respond while clients hold calls open."""

import time
from contextlib import ExitStack

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, Connection, grpc_message
from meters import count_threads, read_memory
from server_processes import ServerProcess, run_server
from tensor_reshape.server.grpc.health import MAX_WATCHES_PER_CONNECTION
from tensor_reshape.server.grpc.services import MAX_SILENT

BOUND_SECONDS = 5.0  # also for a busy machine, because a blocked service does not respond at all
SERVING, NOT_SERVING = grpc_message(b"\x08\x01"), grpc_message(b"\x08\x02")
LIST_SERVICES = grpc_message(b"\x3a\x00")


def ask(connection: Connection, path: str, message: bytes) -> int:
    """Makes a call that sends its message at once, and returns its stream."""
    stream = connection.open(path)
    connection.send_data(stream, message, end=path != REFLECTION)
    return stream


def watch(connection: Connection, count: int) -> list[int]:
    """Begins `count` watches and waits for the first status of each."""
    streams = [ask(connection, HEALTH_WATCH, grpc_message(b"")) for _ in range(count)]
    await_bodies(connection, streams)
    assert {connection.bodies[stream] for stream in streams} == {SERVING}
    return streams


def await_bodies(connection: Connection, streams: list[int]) -> None:
    """Waits until each stream has received something."""
    assert connection.await_(lambda: all(connection.bodies.get(stream) for stream in streams))


def check_promptly(address: str) -> None:
    """Checks the health on a new connection, which must not take long."""
    with Connection(address) as connection:
        begin = time.monotonic()
        assert connection.call(HEALTH_CHECK, b"").is_ok
        assert time.monotonic() - begin < BOUND_SECONDS


def test_unfinished_health_calls_do_not_block_others():
    with run_server() as server, ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(Connection(server.address))
            for index in range(60):
                connection.open((HEALTH_CHECK, HEALTH_WATCH, REFLECTION)[index % 3])
        check_promptly(server.address)
        for _ in range(2 * MAX_SILENT):
            connection = stack.enter_context(Connection(server.address))
            await_bodies(connection, [ask(connection, REFLECTION, LIST_SERVICES)])
        check_promptly(server.address)
        for _ in range(40):  # watches that do not read must not delay others
            connection = stack.enter_context(Connection(server.address, initial_window=0))
            for _ in range(MAX_WATCHES_PER_CONNECTION // 4):
                ask(connection, HEALTH_WATCH, grpc_message(b""))
        connection, other = (stack.enter_context(Connection(server.address)) for _ in range(2))
        streams = watch(connection, MAX_WATCHES_PER_CONNECTION)
        late = ask(connection, HEALTH_WATCH, grpc_message(b""))
        assert connection.await_end(late).status in {"1", "8"}
        (stream,) = watch(other, 1)
        server.process.terminate()
        for held, watches in ((connection, streams), (other, [stream])):
            for each in watches:
                assert held.await_end(each).is_ok
                assert held.bodies[each] == SERVING + NOT_SERVING
        assert server.stop() == 0


def test_health_watches_hold_neither_threads_nor_service_names(server: ServerProcess):
    check_promptly(server.address)
    threads, memory = count_threads(server.process.pid), read_memory(server.process.pid, "VmRSS")
    name = grpc_message(b"\x0a\x80\x80\x03" + b"A" * 49152)
    with ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(Connection(server.address))
            await_bodies(connection, [ask(connection, HEALTH_WATCH, name) for _ in range(MAX_WATCHES_PER_CONNECTION)])
        assert count_threads(server.process.pid) == threads
        assert read_memory(server.process.pid, "VmRSS") - memory < 640 * 49 * 1024
        check_promptly(server.address)
