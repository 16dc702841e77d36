"""Counts and times of the requests of each model."""

import time

from tensor_reshape.server.oip.models import Count, Statistics


def test_inference_statistics_count_successes_and_failures_separately():
    statistics = Statistics()
    statistics.count("reshape", time.perf_counter_ns())
    statistics.count("reshape", time.perf_counter_ns(), is_success=False)
    count = statistics.read("reshape")
    assert (count.successes, count.failures) == (1, 1)
    assert min(count.success_ns, count.failure_ns) > 0
    assert statistics.read("static_reshape") == Count()


def test_inference_statistics_have_the_time_of_the_last_response():
    statistics, before = Statistics(), time.time_ns() // 1_000_000
    statistics.count("reshape", time.perf_counter_ns())
    assert before <= statistics.read("reshape").last_ms <= time.time_ns() // 1_000_000
