"""The attackers do what they say: what is dear is a legal request, and no two connections of garbage are the same."""

from collections.abc import Callable
from random import Random

import pytest

from attackers import payloads
from attackers.attacks import ATTACKS
from attackers.random_frames import build_frames, count_statuses
from http2 import END_HEADERS, Connection, Kind, frame, grpc_message
from server_processes import ServerProcess
from tensor_reshape.rules.limits import MAX_BATCH_BYTES

BATCHES: dict[str, Callable[[int], bytes]] = {
    "linked": payloads.build_linked_batch,
    "wide": payloads.build_wide_batch,
    "colliding": payloads.build_colliding_batch,
}
CALLS: dict[str, tuple[str, bytes]] = {
    "small": (payloads.STATIC, payloads.SMALL),
    "broadcast": (payloads.STATIC, payloads.broadcast(payloads.MIB)),
    "numbers": (payloads.MODEL_INFER, payloads.build_numbers(4000)),
    "unknown shape": (payloads.MODEL_INFER, payloads.build_unknown_shape(1)),
    "question": (payloads.INFER, payloads.build_hard_question(1)),
    **{name: (payloads.BATCH, build(4000)) for name, build in BATCHES.items()},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_dear_request_is_a_legal_one(server: ServerProcess, name: str):
    path, request = CALLS[name]
    with Connection(server.address) as connection:
        assert connection.call(path, request).is_ok


def test_a_stream_that_will_not_go_on_has_begun(server: ServerProcess):
    with Connection(server.address) as connection:
        stream = connection.open(payloads.STREAM)
        connection.send_data(stream, payloads.begin_stream(payloads.MIB) + payloads.chunk(0, b"x"))

        assert connection.await_(lambda: b"\x7a\x01x" in connection.bodies.get(stream, b""))


@pytest.mark.parametrize("size", [110_000, MAX_BATCH_BYTES])
@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_has_nearly_the_bytes_that_it_is_to_have(name: str, size: int):
    assert 0.8 * size < len(BATCHES[name](size)) <= size


def test_intervals_that_collide_have_one_hash():
    assert len({hash(pair) for pair in payloads.find_collisions(100)}) == 1
    assert len(set(payloads.find_collisions(100))) == 100


def test_headers_without_a_library_are_headers(server: ServerProcess):
    with Connection(server.address) as connection:
        block = payloads.encode_call(payloads.STATIC, ("x-long", "y" * 4000))
        message = frame(Kind.DATA, 1, 1, grpc_message(payloads.SMALL))
        connection.send(frame(Kind.HEADERS, END_HEADERS, 1, block) + message)

        assert connection.await_end(1).is_ok


def test_who_breaks_the_protocol_is_told(server: ServerProcess):
    with Connection(server.address) as connection:
        connection.send(b"\xff\xff\xff" + frame(Kind.DATA, 0, 1)[3:])  # 16 MiB in one frame

        assert connection.await_(lambda: bool(connection.goaway or connection.closed))


def test_random_frames_follow_from_their_seed_alone():
    assert build_frames(Random("1-7")) == build_frames(Random("1-7"))
    assert len({build_frames(Random(f"1-{number}")) for number in range(200)}) == 200


def test_statuses_are_counted_in_what_a_server_sends():
    # A literal "grpc-status: 13", then one with a text, on another stream; the rest is cut.
    status, text = b"\x00\x0bgrpc-status\x0213", b"\x00\x0cgrpc-message\x03bug"
    raw = frame(Kind.HEADERS, 5, 1, status) + frame(Kind.DATA, 0, 1, b"x") + frame(Kind.HEADERS, 5, 3, status + text)

    assert count_statuses(raw + raw[:20]) == {"13": 1, "13 bug": 1}


def test_each_attack_says_what_it_does():
    assert all(attack.run.__doc__ for attack in ATTACKS.values())
    assert all(attack.sentence for attack in ATTACKS.values())
