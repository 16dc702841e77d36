"""The deadline of a call."""

import pytest

from tensor_reshape.client.deadlines import Deadline


def test_call_without_a_timeout_has_no_deadline():
    deadline = Deadline(None)
    assert (deadline.remaining_seconds, deadline.is_within(1e9)) == (None, False)


def test_deadline_is_within_compares_with_the_remaining_seconds():
    deadline = Deadline(100.0)
    assert deadline.remaining_seconds == pytest.approx(100, abs=0.5)
    assert [deadline.is_within(seconds) for seconds in (1.0, 99.0, 100.0)] == [False, False, True]


def test_expired_deadline_leaves_the_minimum_timeout():
    deadline = Deadline(1e-9)
    assert (deadline.remaining_seconds, deadline.is_within(0)) == (1e-3, True)
