"""Every service rejects bytes that are not a message in the same way, without a traceback in the log."""

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, SERVICE_PATH, Connection, grpc_message
from server_processes import run_server

HEALTH_LIST = "/grpc.health.v1.Health/List"
STATIC = f"{SERVICE_PATH}StaticReshape"
OK, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED = "0", "3", "5", "8"
LONG_NAME = b"\x0a\x88\x27" + b"A" * 5000
TOO_LONG_NAME = b"\x0a\x80\x80\x40" + b"A" * (1 << 20)
PATHS = (HEALTH_CHECK, HEALTH_LIST, HEALTH_WATCH, REFLECTION)
NO_MESSAGES = (b"\xff\xff", b"\x0a\x05a", b"\x00")
BAD_UTF8 = {HEALTH_CHECK: b"\x0a\x02\xff\xfe", HEALTH_WATCH: b"\x0a\x02\xff\xfe", REFLECTION: b"\x1a\x02\xff\xfe"}
# The only messages about garbage: a line for each rejected call, and the number of suppressed lines.
REJECTIONS = ("rejected", "records suppressed")


def test_malformed_grpc_messages_are_rejected_without_a_traceback():
    statuses = {
        **{(path, raw): INVALID_ARGUMENT for path in PATHS for raw in NO_MESSAGES},
        **dict.fromkeys(BAD_UTF8.items(), INVALID_ARGUMENT),
        **{(path, TOO_LONG_NAME): RESOURCE_EXHAUSTED for path in PATHS},
        (HEALTH_CHECK, LONG_NAME): NOT_FOUND,
    }
    with run_server() as server:
        with Connection(server.address) as connection:
            ends = {call: connection.call(*call) for call in statuses}
            assert {call: end.status for call, end in ends.items()} == statuses
            texts = {end.message for (_, raw), end in ends.items() if raw in NO_MESSAGES}
            assert all(text.startswith("the message is not a grpc.") for text in texts)
            for path in (HEALTH_CHECK, HEALTH_LIST, HEALTH_WATCH, STATIC):
                end = connection.await_end(connection.open(path, end=True))
                assert end == (INVALID_ARGUMENT, "the call has no message"), path
            assert connection.await_end(connection.open(REFLECTION, end=True)).status == OK

            stream = connection.open(HEALTH_WATCH)
            connection.send_data(stream, grpc_message(LONG_NAME), end=True)  # a watch of an unknown name stays open
            assert connection.await_(lambda: connection.bodies.get(stream) == grpc_message(b"\x08\x03"))
        for path in PATHS:
            with Connection(server.address) as connection:
                stream = connection.open(path)
                connection.send_data(stream, grpc_message(b"", compressed=1), end=True)
                assert connection.await_end(stream).status not in {OK, "TIMEOUT"}, path
        with Connection(server.address) as connection:
            assert connection.call(HEALTH_CHECK, b"").is_ok
        assert server.stop() == 0
    messages = [record["message"] for record in server.records if record["message"] not in REJECTIONS]
    assert [message for message in messages if message != "listening"] == ["serving", "stopping", "stopped"]
