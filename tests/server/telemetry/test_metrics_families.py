"""Names and labels of the metrics."""

import re

from tensor_reshape.server.engine.lifecycle import State
from tensor_reshape.server.telemetry.metrics import (
    COUNTER,
    HISTOGRAM,
    PROCESS_FAMILIES,
    SERVER_FAMILIES,
    VALUES,
)

FAMILIES = (*PROCESS_FAMILIES, *SERVER_FAMILIES)


def test_metric_names_follow_the_prometheus_conventions():
    for family in FAMILIES:
        assert re.fullmatch(r"tensor_reshape_[a-z_]+", family.name)
        assert family.shown_name.endswith("_total") == (family.kind == COUNTER), family.name
        assert (family.kind == HISTOGRAM) == bool(family.buckets), family.name
        assert family.kind != HISTOGRAM or family.name.endswith(("_seconds", "_bytes")), family.name
        assert list(family.buckets) == sorted(set(family.buckets)), family.name
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_states_of_running_calls_are_label_values():
    assert [*VALUES["state"], "done"] == [state.name.lower() for state in State]
