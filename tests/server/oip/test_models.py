"""The models, names that are not models, and counts and times of the requests of each model."""

import time

import pytest

from tensor_reshape.rules.errors import NotFoundError, Reason
from tensor_reshape.server.oip.models import MODELS, Count, Statistics, find_model


def test_inference_model_version_is_optional():
    assert list(MODELS) == ["static_reshape", "dynamic_reshape", "reshape", "infer_shape"]
    assert all(find_model(name, version) is model for name, model in MODELS.items() for version in ("", "1"))


def test_unknown_inference_model_or_version_is_rejected():
    for name, version, field in (
        ("", "", "model_name"),
        ("Reshape", "1", "model_name"),
        ("reshape", "2", "model_version"),
    ):
        with pytest.raises(NotFoundError, match=r"^Request for unknown model: ") as caught:
            find_model(name, version)
        assert (caught.value.reason, caught.value.field) == (Reason.MODEL_UNKNOWN, field)


def test_inference_model_properties_list_parameters_and_datatypes():
    for model in MODELS.values():
        properties = model.properties
        assert {f"parameters.{name}" for name in model.parameters} <= properties.keys()
        for spec in (model.first, model.target):
            assert spec.datatype in properties[f"inputs.{spec.name}.datatypes"].split(", "), model.name


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
