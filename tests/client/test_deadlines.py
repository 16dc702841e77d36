"""The deadline of a call."""

import pytest

from tensor_reshape.client.deadlines import Deadline


def test_missing_deadline_leaves_no_limit():
    deadline = Deadline(None)
    assert (deadline.remaining_seconds, deadline.is_within(1e9)) == (None, False)


def test_is_within_compares_with_the_remaining_time():
    deadline = Deadline(100.0)
    assert deadline.remaining_seconds == pytest.approx(100, abs=0.5)
    assert [deadline.is_within(seconds) for seconds in (1.0, 99.0, 100.0)] == [False, False, True]


def test_passed_deadline_leaves_the_least_timeout():
    deadline = Deadline(1e-9)
    assert (deadline.remaining_seconds, deadline.is_within(0)) == (1e-3, True)
