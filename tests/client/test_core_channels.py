"""Channels of the core: the lock that an interrupted call leaves held."""

import threading
from collections.abc import Iterator

import grpc
import pytest

from tensor_reshape.client.core_channels import ChannelLock, get_code, get_core, is_plain


@pytest.fixture
def channel() -> Iterator[grpc.Channel]:
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        yield channel


@pytest.fixture
def lock(channel: grpc.Channel) -> ChannelLock:
    return ChannelLock(get_core(channel))


def test_the_lock_is_the_one_that_grpcio_waits_for(channel: grpc.Channel, lock: ChannelLock):
    caller = threading.Thread(target=channel.close)  # takes it
    with lock._condition:
        caller.start()
        caller.join(0.1)
        assert caller.is_alive()
    caller.join(60)
    assert not caller.is_alive()


def test_a_core_without_a_lock_is_told():
    with pytest.raises(LookupError):
        ChannelLock(object())


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_lock_that_is_given_back_is_free(lock: ChannelLock, times: int):
    for _ in range(times):
        lock._condition.acquire()
    lock.give_back()
    assert not lock.is_held()


def test_the_lock_of_another_thread_is_left_alone(lock: ChannelLock):
    with lock._condition:
        caller = threading.Thread(target=lock.give_back)
        caller.start()
        caller.join()
        assert lock.is_held()


def test_what_is_guarded_leaves_the_lock_free_when_it_raises(lock: ChannelLock):
    with pytest.raises(KeyboardInterrupt), lock.guard():  # noqa: PT012 - what the block leaves is the point
        lock._condition.acquire()
        raise KeyboardInterrupt
    assert not lock.is_held()


def test_what_began_with_the_lock_keeps_it(lock: ChannelLock):
    with lock._condition:
        with pytest.raises(KeyboardInterrupt), lock.guard():
            raise KeyboardInterrupt
        assert lock.is_held()


def test_a_code_that_is_none_of_grpc_s_is_unknown():
    assert [get_code(number) for number in (14, 99)] == [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN]


def test_a_channel_with_an_interceptor_is_not_plain(channel: grpc.Channel):
    class Interceptor(grpc.UnaryUnaryClientInterceptor):
        def intercept_unary_unary(self, continuation: object, client_call_details: object, request: object) -> None:  # type: ignore[override]
            raise NotImplementedError

    assert (is_plain(channel), is_plain(grpc.intercept_channel(channel, Interceptor()))) == (True, False)
