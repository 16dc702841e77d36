"""Until when a call may take."""

import pytest

from tensor_reshape.client.deadlines import Deadline


def test_no_deadline_leaves_no_limit():
    deadline = Deadline(None)
    assert (deadline.remaining_seconds, deadline.is_within(1e9)) == (None, False)


@pytest.mark.parametrize(("seconds", "within"), [(100.0, 1.0), (100.0, 99.0)])
def test_a_deadline_is_not_within_less_than_what_is_left(seconds: float, within: float):
    deadline = Deadline(seconds)
    assert deadline.remaining_seconds == pytest.approx(seconds, abs=0.5)
    assert (deadline.is_within(within), deadline.is_within(seconds)) == (False, True)


def test_a_deadline_that_has_passed_leaves_what_grpc_still_takes_for_a_timeout():
    deadline = Deadline(1e-9)
    assert (deadline.remaining_seconds, deadline.is_within(0)) == (1e-3, True)
