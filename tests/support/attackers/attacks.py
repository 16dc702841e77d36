"""All attacks, by name: what each does, how many connections do it, and what others must not notice."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from attackers import computation, floods, garbage, memory, silence


class Interval(NamedTuple):
    """What polite clients on other connections must see at the most.

    Attributes:
        p50_ms: of calls, raw and SDK together.
        p99_ms: of the same.
        health_p99_ms: of health checks.
        refusals: of raw calls. Of the SDK's there is none in any attack, and no call is ever lost.
        recovery_seconds: after the end of the attack, until the last slow or failed call is over.
    """

    p50_ms: float = 50.0
    p99_ms: float = 100.0
    health_p99_ms: float = 100.0
    refusals: float = 0
    recovery_seconds: float = 1.0


ONE, MANY = Interval(), Interval(p50_ms=100, p99_ms=500, refusals=float("inf"))
BATCH = Interval(p50_ms=5)
CROWD = 16


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Attributes:
        name: in tables and on command lines.
        kind: what it aims at: a group of attacks.
        run: what each connection of the attacker does.
        connections: how many do it at once; `run` may open more than one.
        bounds: what others must see at the most.
        busy: whether two loops compute on the machine meanwhile.
        least_seconds: how long it must go on to show what it does.
    """

    name: str
    kind: str
    run: Callable[[str], None]
    connections: int = 1
    bounds: Interval = ONE
    busy: bool = False
    least_seconds: float = 0.0

    @property
    def sentence(self) -> str:
        """What it does, in a sentence."""
        text = (self.run.__doc__ or self.name).strip().rstrip(".")
        crowd = f"; {self.connections} connections do it at once" if self.connections > 1 else ""
        return f"{text}{crowd}{'; the machine is busy besides' if self.busy else ''}"


def _list(kind: str, bounds: Interval, *runs: Callable[[str], None], connections: int = 1) -> list[Attack]:
    crowd = f"-{connections}" if connections > 1 else ""
    return [Attack(f"{run.__name__.replace('_', '-')}{crowd}", kind, run, connections, bounds) for run in runs]


_CONTROL_FRAMES = Attack("control-frames", "floods", floods.control_frames)

ATTACKS = {
    attack.name: attack
    for attack in (
        *_list(
            "silence",
            ONE,
            silence.nobody,
            silence.silent_21_calls,
            silence.silent_after_header,
            silence.silent_health_checks,
            silence.silent_probes,
            silence.silent_inference_streams,
            silence.silent_reflections,
            silence.thousands_of_streams,
            silence.trickling_streams,
            silence.one_byte_short,
            silence.half_closes,
            silence.half_closed_connections,
            silence.idle_connections,
            silence.mute_connections,
        ),
        *_list(
            "silence",
            MANY,
            silence.silent_calls,
            silence.health_watches,
            silence.trickling_calls,
            silence.one_byte_short,
            silence.small_and_one_byte_short,
            connections=CROWD,
        ),
        Attack(
            "silent-health-checks-16",
            "silence",
            silence.silent_health_checks,
            CROWD,
            MANY,
            least_seconds=8.0,  # after which a supervisor takes a worker for dead whose health it cannot hear
        ),
        _CONTROL_FRAMES,
        replace(_CONTROL_FRAMES, name="control-frames-busy", busy=True),
        *_list(
            "floods",
            ONE,
            floods.pings,
            floods.unread_settings,
            floods.empty_continuations,
            floods.empty_data,
            floods.priorities,
            floods.window_updates,
            floods.unknown_frames,
            floods.rapid_resets,
            floods.forced_resets,
            floods.answered_resets,
            floods.many_headers,
            floods.huge_headers,
            floods.header_bombs,
            floods.early_header_bombs,
            floods.early_small_bombs,
            floods.early_garbled_bombs,
            floods.small_calls,
            floods.short_connections,
        ),
        *_list(
            "floods",
            MANY,
            floods.rapid_resets,
            floods.small_calls,
            floods.early_small_bombs,
            floods.early_garbled_bombs,
            connections=CROWD,
        ),
        *_list(
            "memory",
            ONE,
            memory.zero_windows,
            memory.zero_window_streams,
            memory.unread_answers,
            memory.large_calls,
            memory.broken_large_calls,
            memory.promised_bytes,
        ),
        *_list("memory", MANY, memory.zero_windows, memory.unread_watches, memory.sent_ahead, connections=CROWD),
        *_list(
            "computation",
            ONE,
            computation.odd_strides,
            computation.broadcasts,
            computation.hard_questions,
            computation.unknown_shapes,
            computation.elements_as_numbers,
        ),
        *_list(
            "computation",
            BATCH,
            computation.linked_batches,
            computation.large_linked_batches,
            computation.wide_batches,
            computation.large_colliding_batches,
        ),
        *_list(
            "garbage",
            ONE,
            garbage.garbled_others,
            garbage.garbled_messages,
            garbage.unknown_methods,
            garbage.wrong_headers,
            garbage.wrong_compression,
            garbage.forbidden_frames,
            garbage.wrong_protocols,
        ),
        *_list("garbage", MANY, garbage.random_frames, connections=CROWD),
    )
}
