"""Orders for workers."""

from tensor_reshape.server.workers.messages import STOP_MARGIN_SECONDS
from worker_slots import ORDER


def test_worker_stop_timeout_is_drain_plus_grace_plus_margin():
    assert ORDER.stop_seconds == 1 + 8 + STOP_MARGIN_SECONDS
