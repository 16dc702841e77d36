"""The choice of calls that get a span."""

import random

import pytest
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

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
    (None, "", {"no trace", "a sampled trace", "an invalid trace"}),
    ("parentbased_always_on", "", {"no trace", "a sampled trace", "an invalid trace"}),
    ("parentbased_always_off", "", {"a sampled trace"}),
    ("parentbased_traceidratio", "0", {"a sampled trace"}),
    ("parentbased_traceidratio", "1", {"no trace", "a sampled trace", "an invalid trace"}),
    ("always_on", "", set(CALLS)),
    ("always_off", "", set()),
    ("TraceIdRatio", "0.0", set()),
    ("traceidratio", "1", set(CALLS)),
]


def build(sampler: str | None, argument: str = "") -> CallSampling:
    named = {} if sampler is None else {"OTEL_TRACES_SAMPLER": sampler}
    return CallSampling(named | {"OTEL_TRACES_SAMPLER_ARG": argument})


@pytest.mark.parametrize(("sampler", "argument", "chosen"), ROWS)
def test_calls_are_chosen_as_the_sampler_says(sampler: str | None, argument: str, chosen: set[str]):
    sampling = build(sampler, argument)
    assert {name for name, metadata in CALLS.items() if sampling.chooses(metadata)} == chosen


def test_ratio_without_parents_chooses_the_traces_of_opentelemetry():
    sampling, expected = build("traceidratio", "0.25"), TraceIdRatioBased(0.25)
    random.seed(7)
    for trace in (random.getrandbits(128) for _ in range(200)):
        metadata = [("traceparent", f"00-{trace:032x}-b7ad6b7169203331-01")]
        decision = expected.should_sample(None, trace, "").decision
        assert sampling.chooses(metadata) == (decision is not Decision.DROP)


@pytest.mark.parametrize("name", ["no trace", "an invalid trace"])
def test_ratio_is_the_fraction_of_calls_without_a_trace(name: str):
    random.seed(7)
    sampling = build("parentbased_traceidratio", "0.25")
    assert 200 < sum(sampling.chooses(CALLS[name]) for _ in range(1000)) < 300


@pytest.mark.parametrize(("sampler", "argument"), [("nosuch", ""), ("traceidratio", "x"), ("traceidratio", "1.5")])
def test_invalid_variables_leave_the_decision_to_opentelemetry(sampler: str, argument: str):
    sampling = build(sampler, argument)
    assert sampling.sampler is None
    assert sampling.chooses(CALLS["no trace"])
