"""Until when a call may take."""

import pytest

from tensor_reshape.client.deadlines import Deadline


def test_no_deadline_leaves_no_limit():
    deadline = Deadline(None)
    assert (deadline.remaining_seconds, deadline.is_within(1e9)) == (None, False)


def test_a_deadline_is_not_within_less_than_what_is_left():
    deadline = Deadline(100.0)
    assert deadline.remaining_seconds == pytest.approx(100, abs=0.5)
    assert [deadline.is_within(seconds) for seconds in (1.0, 99.0, 100.0)] == [False, False, True]


def test_a_deadline_that_has_passed_leaves_what_grpc_still_takes_for_a_timeout():
    deadline = Deadline(1e-9)
    assert (deadline.remaining_seconds, deadline.is_within(0)) == (1e-3, True)
