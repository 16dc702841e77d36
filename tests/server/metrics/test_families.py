"""The table of the metrics keeps to what Prometheus asks of names."""

import re

import pytest

from tensor_reshape.server.metrics.families import (
    COUNTER,
    HISTOGRAM,
    PROCESS_FAMILIES,
    PUSHED_BACK,
    SERVER_FAMILIES,
    VALUES,
    Family,
)

FAMILIES = (*PROCESS_FAMILIES, *SERVER_FAMILIES)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_name_is_of_this_project_and_ends_in_its_unit(family: Family):
    assert re.fullmatch(r"tensor_reshape_[a-z_]+", family.name)
    assert family.shown_name.endswith("_total") == (family.kind == COUNTER)
    assert (family.kind == HISTOGRAM) == bool(family.buckets)
    if family.kind == HISTOGRAM:
        assert family.name.endswith(("_seconds", "_bytes"))


def test_no_two_have_one_name():
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


@pytest.mark.parametrize("family", PROCESS_FAMILIES, ids=lambda family: family.name)
def test_the_values_of_each_label_are_known_beforehand(family: Family):
    assert set(family.labels) <= {*VALUES, "service", "method", "code"}


def test_buckets_grow():
    assert all(list(family.buckets) == sorted(set(family.buckets)) for family in FAMILIES)


def test_what_is_pushed_back_may_come_again():
    assert {"SERVER_BUSY", "STALLED"} <= set(PUSHED_BACK)
    assert "NOT_DIVISIBLE" not in PUSHED_BACK
