"""What a worker is ordered."""

from tensor_reshape.server.workers.messages import STOP_MARGIN_SECONDS
from worker_slots import ORDER


def test_a_worker_may_take_the_drain_the_grace_and_a_margin_to_stop():
    assert ORDER.stop_seconds == 1 + 8 + STOP_MARGIN_SECONDS
