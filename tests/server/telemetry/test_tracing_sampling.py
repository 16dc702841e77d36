"""The choice of calls that get a span."""

import random

import pytest
from opentelemetry.sdk.trace import TracerProvider

from tensor_reshape.server.telemetry.tracing import CallSampling

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
SAMPLED, UNSAMPLED = [("traceparent", f"{TRACE}-01")], [("traceparent", f"{TRACE}-00")]
UNSAMPLED_IN_A_NEW_VERSION = [("traceparent", f"01-{TRACE[3:]}-00-more")]
INVALID = [("traceparent", f"00-{'0' * 32}-b7ad6b7169203331-01")]
CALLS = {
    "no trace": [("user-agent", "grpc")],
    "a sampled trace": SAMPLED,
    "an unsampled trace": UNSAMPLED,
    "an unsampled trace in a new version": UNSAMPLED_IN_A_NEW_VERSION,
    "an invalid trace": INVALID,
}
# sampler, argument; the calls that get a span
ROWS = [
    ("parentbased_always_on", "", {"no trace", "a sampled trace", "an invalid trace"}),
    ("parentbased_always_off", "", {"a sampled trace"}),
    ("parentbased_traceidratio", "0", {"a sampled trace"}),
    ("parentbased_traceidratio", "1", {"no trace", "a sampled trace", "an invalid trace"}),
    ("always_on", "", set(CALLS)),
    ("always_off", "", set()),
    ("traceidratio", "0.0", set()),
    ("traceidratio", "1", set(CALLS)),
]


def build(monkeypatch: pytest.MonkeyPatch, sampler: str, argument: str) -> CallSampling:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    return CallSampling(TracerProvider(shutdown_on_exit=False).sampler)


@pytest.mark.parametrize(("sampler", "argument", "chosen"), ROWS)
def test_calls_are_chosen_as_the_sampler_says(
    monkeypatch: pytest.MonkeyPatch, sampler: str, argument: str, chosen: set[str]
):
    sampling = build(monkeypatch, sampler, argument)
    assert {name for name, metadata in CALLS.items() if sampling.chooses(metadata)} == chosen


@pytest.mark.parametrize("name", ["no trace", "an invalid trace"])
def test_ratio_is_the_fraction_of_calls_without_a_trace(monkeypatch: pytest.MonkeyPatch, name: str):
    random.seed(7)
    sampling = build(monkeypatch, "parentbased_traceidratio", "0.25")
    assert 200 < sum(sampling.chooses(CALLS[name]) for _ in range(1000)) < 300
