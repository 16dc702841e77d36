"""Connections of random HTTP/2 frames: the quick half of what `scripts/attack` sends at length."""

from frame_runs import run_random_frames

CONNECTIONS = 1000


def test_random_frames_break_nothing(serving: str):
    frames = run_random_frames(serving, CONNECTIONS, "quick")

    assert frames.unreachable < CONNECTIONS
    assert frames.find_misses() == [], frames
