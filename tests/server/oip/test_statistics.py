"""Counts and times of the requests of each model."""

import time

import pytest

from tensor_reshape.server.oip.statistics import Count, Statistics


def test_inference_statistics_count_successes_and_failures_separately():
    statistics = Statistics()
    with statistics.measure("reshape") as measured:
        assert measured.count_response("response") == "response"
    with pytest.raises(ValueError, match="rejected"), statistics.measure("reshape"):
        raise ValueError("rejected")
    with statistics.measure("reshape"):  # another thread processes the request
        pass
    count = statistics.read("reshape")
    assert (count.successes, count.failures) == (1, 1)
    assert min(count.success_ns, count.failure_ns) > 0
    assert statistics.read("static_reshape") == Count()


def test_inference_statistics_have_the_time_of_the_last_response():
    statistics, before = Statistics(), time.time_ns() // 1_000_000
    statistics.count_success("reshape", time.perf_counter_ns())
    assert before <= statistics.read("reshape").last_ms <= time.time_ns() // 1_000_000
