"""Places and memory of requests."""

import asyncio

import pytest

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.http.calls import RETRY_SECONDS, Admission, Place


def reject(admission: Admission, host: str, size: int) -> LimitError:
    with pytest.raises(LimitError) as caught:
        admission.enter(host, size)
    return caught.value


def test_request_takes_a_place_and_memory_until_it_leaves():
    admission = Admission(4, 100)
    place = admission.enter("a", 30)
    assert (len(admission), admission.used_bytes) == (1, 30)
    admission.leave(place)
    assert (len(admission), admission.used_bytes) == (0, 0)


def test_request_without_a_place_is_rejected_with_a_delay():
    admission = Admission(2, 100)
    for host in ("a", "b"):
        admission.enter(host, 1)
    error = reject(admission, "c", 1)
    assert (error.reason, error.retry_seconds) == (Reason.SERVER_BUSY, RETRY_SECONDS)
    assert error.message == "the server serves too many requests"


def test_host_has_half_of_the_places():
    admission = Admission(4, 100)
    for _ in range(2):
        admission.enter("a", 1)
    assert reject(admission, "a", 1).reason is Reason.SERVER_BUSY
    assert admission.enter("b", 1)


def test_single_place_is_for_any_host():
    admission = Admission(1, 100)
    admission.leave(admission.enter("a", 1))
    assert admission.enter("b", 1)


def test_request_without_memory_is_rejected():
    admission = Admission(8, 100)
    admission.enter("a", 50)
    admission.enter("b", 40)
    assert reject(admission, "c", 11).message == "the server has no free memory"
    assert admission.enter("c", 10)


def test_host_has_half_of_the_memory():
    admission = Admission(8, 100)
    admission.enter("a", 40)
    assert reject(admission, "a", 11).reason is Reason.SERVER_BUSY
    assert admission.enter("a", 10)


def test_only_request_of_a_host_may_have_most_of_the_memory():
    admission = Admission(8, 100)
    place = admission.enter("a", 60)
    admission.grow(place, 75)
    with pytest.raises(LimitError):
        admission.grow(place, 76)
    assert admission.used_bytes == 75


def test_growth_beyond_the_memory_keeps_the_size():
    admission = Admission(8, 100)
    place, _ = admission.enter("a", 10), admission.enter("b", 50)
    with pytest.raises(LimitError):
        admission.grow(place, 51)
    assert (place.size, admission.used_bytes) == (10, 60)


def test_rejected_request_keeps_nothing():
    admission = Admission(8, 100)
    for _ in range(20):
        reject(admission, "a", 76)
    assert (len(admission), admission.used_bytes) == (0, 0)
    assert admission.enter("a", 75)


async def test_place_is_free_only_after_its_work():
    admission = Admission(8, 100)
    place = admission.enter("a", 10)
    place.work = work = asyncio.get_running_loop().create_future()
    admission.leave(place)
    assert (len(admission), admission.used_bytes) == (1, 10)
    work.set_result(None)
    await asyncio.sleep(0)
    assert (len(admission), admission.used_bytes) == (0, 0)


def test_hosts_that_left_are_forgotten():
    admission = Admission(8, 100)
    places: list[Place] = [admission.enter(f"host {number}", 1) for number in range(8)]
    for place in places:
        admission.leave(place)
    assert (admission._requests, admission._bytes) == ({}, {})
