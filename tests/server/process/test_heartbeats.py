"""Heartbeats of workers."""

from tensor_reshape.server.process.heartbeats import BEAT_SECONDS, Heartbeat


class Beats:
    """Counts heartbeats."""

    def __init__(self) -> None:
        self.count = 0
        self.heartbeat = Heartbeat(self.add)

    def add(self) -> None:
        self.count += 1

    def look(self, now: float, turns: int | None) -> int:
        """Looks, and returns how many heartbeats there have been."""
        self.heartbeat.look(now, turns)
        return self.count


def test_first_heartbeat_is_sent_at_once_and_others_after_turns():
    beats = Beats()
    assert beats.look(0, 0) == 1
    assert beats.look(BEAT_SECONDS, 1) == 2
    assert beats.look(2 * BEAT_SECONDS, 2) == 3


def test_no_heartbeat_is_sent_without_a_turn():
    beats = Beats()
    beats.look(0, 5)
    assert beats.look(100, 5) == 1
    assert beats.look(101, 6) == 2


def test_heartbeats_have_a_shortest_interval():
    beats = Beats()
    for number in range(100):
        beats.look(number * BEAT_SECONDS / 100, number)
    assert beats.count == 1


def test_heartbeat_is_sent_if_turns_are_unknown():
    beats = Beats()
    beats.look(0, None)
    assert beats.look(BEAT_SECONDS, None) == 2
