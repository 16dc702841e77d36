"""What is counted, and for whom."""

import time

import pytest

from tensor_reshape.server.oip.statistics import Count, Statistics


def test_an_answer_and_a_refusal_are_counted_each_by_itself():
    statistics = Statistics()
    with statistics.measure("reshape") as measured:
        assert measured.note("answer") == "answer"
    with pytest.raises(ValueError, match="refused"), statistics.measure("reshape"):
        raise ValueError("refused")  # noqa: EM101 - any exception
    count = statistics.read("reshape")
    assert (count.successes, count.failures) == (1, 1)
    assert min(count.success_ns, count.failure_ns) > 0
    assert statistics.read("static_reshape") == Count()


def test_what_is_left_to_another_thread_is_not_counted():
    statistics = Statistics()
    with statistics.measure("reshape"):
        pass
    assert statistics.read("reshape") == Count()


def test_the_last_answer_has_its_time():
    statistics, before = Statistics(), time.time_ns() // 1_000_000
    statistics.note_success("reshape", time.perf_counter_ns())
    assert before <= statistics.read("reshape").last_ms <= time.time_ns() // 1_000_000
