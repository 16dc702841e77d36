"""The life cycle of a call without an engine: every event in every state, and the held memory."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_calls import Idle
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.server.config import COST_FACTOR
from tensor_reshape.server.engine.lifecycle import (
    READ_BELOW_UNSENT,
    TRANSITIONS,
    TRICKLE_BYTES_PER_SECOND,
    Event,
    IllegalEventError,
    Lifecycle,
    State,
)

E, S = Event, State
METHOD = "/a.service/Method"

# All transitions, independent of the implementation: for each state, the next state of each event. Others are bugs.
MOVES: dict[State, dict[State, set[Event]]] = {
    S.NEW: {S.NEW: {E.ENTER}, S.WAITING: {E.REQUEST}, S.ENDING: {E.END}, S.ABORTED: {E.ABORT}, S.DONE: {E.OVER}},
    S.WAITING: {
        S.WAITING: {E.SENT},
        S.RECEIVING: {E.READ},
        S.ENDING: {E.END},
        S.ABORTED: {E.ABORT},
        S.DONE: {E.OVER},
    },
    S.RECEIVING: {
        S.RECEIVING: {E.SENT},
        S.WORKING: {E.ARRIVE, E.HALF_CLOSE},
        S.ENDING: {E.END},
        S.ABORTED: {E.ABORT},
        S.DONE: {E.OVER},
    },
    S.WORKING: {
        S.WORKING: {E.SENT},
        S.QUEUED: {E.QUEUE},
        S.SENDING: {E.RESPOND},
        S.ENDING: {E.END},
        S.ABANDONED: {E.OVER},
    },
    S.QUEUED: {
        S.QUEUED: {E.GRANT, E.SENT},
        S.WORKING: {E.BEGIN_WORK},
        S.ENDING: {E.END},
        S.ABORTED: {E.ABORT},
        S.DONE: {E.OVER},
    },
    S.SENDING: {
        S.SENDING: {E.SENT},
        S.WAITING: {E.REQUEST},
        S.ENDING: {E.END},
        S.ABORTED: {E.ABORT},
        S.DONE: {E.OVER},
    },
    S.ENDING: {
        S.ENDING: {E.ARRIVE, E.HALF_CLOSE, E.QUEUE, E.BEGIN_WORK, E.RESPOND, E.SENT, E.END},
        S.ABORTED: {E.ABORT},
        S.DONE: {E.OVER},
    },
    S.ABORTED: {
        S.ABORTED: {E.ARRIVE, E.HALF_CLOSE, E.QUEUE, E.BEGIN_WORK, E.RESPOND, E.SENT, E.END, E.ABORT},
        S.DONE: {E.OVER},
    },
    S.ABANDONED: {S.ABANDONED: {E.SENT, E.OVER}, S.DONE: {E.QUEUE, E.RESPOND, E.END}},
    S.DONE: {S.DONE: {E.ARRIVE, E.HALF_CLOSE, E.QUEUE, E.BEGIN_WORK, E.RESPOND, E.SENT, E.END, E.OVER}},
}


class Notes:
    """A journal that records the transitions."""

    def __init__(self) -> None:
        self.moves: list[tuple[State, Event, State]] = []

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        del size, result
        self.moves.append((before, event, life.state))


def make(state: State = State.NEW) -> Lifecycle:
    life = Lifecycle(Idle(), METHOD)
    life.state = state
    return life


def find_next(state: State, event: Event) -> State | None:
    return next((after for after, events in MOVES[state].items() if event in events), None)


@pytest.mark.parametrize("event", Event, ids=lambda event: event.name)
@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_call_state_transitions_match_the_documented_table(state: State, event: Event):
    life, after = make(state), find_next(state, event)
    if after is None:
        with pytest.raises(IllegalEventError, match=f"{state.name} cannot {event.name}"):
            life.move(event)
        assert life.state is state
    else:
        assert (life.move(event), life.state) == (after is not state, after)


def reach(start: State, without: Iterable[Event] = ()) -> set[State]:
    """Returns the reachable states of a call."""
    found, left = {start}, [start]
    while left:
        new = {after for event, after in TRANSITIONS[left.pop()].items() if event not in without} - found
        found |= new
        left += new
    return found


def test_every_call_state_and_event_is_reachable():
    assert reach(State.NEW) == set(State)
    assert {event for row in TRANSITIONS.values() for event in row} == set(Event)


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_every_call_state_can_reach_done(state: State):
    life = make(state)
    life.move(Event.OVER)
    if life.state is State.ABANDONED:
        life.move(Event.END)
    assert life.state is State.DONE


def test_ended_call_never_returns_to_the_working_state():
    assert reach(State.ENDING) == {State.ENDING, State.ABORTED, State.DONE}
    assert reach(State.ABANDONED) == {State.ABANDONED, State.DONE}
    assert reach(State.DONE) == {State.DONE}


@given(st.lists(st.sampled_from(list(Event)), max_size=60))
def test_illegal_event_leaves_the_call_state_unchanged(events: list[Event]):
    life, journal, expected = make(), Notes(), State.NEW
    life.journals = (journal,)
    for event in events:
        after = find_next(expected, event)
        try:
            life.move(event)
        except IllegalEventError:
            assert after is None
        else:
            assert after is life.state
            assert journal.moves[-1] == (expected, event, after)
            expected = after
        assert life.state is expected


@pytest.mark.parametrize(
    ("in_working_pool", "held", "holdings"),
    [
        (False, 0, (100 + 20 + COST_FACTOR * 5, 0)),
        (True, 0, (100, 20 + COST_FACTOR * 5)),
        (False, 7, (120, 7)),
        (True, 7, (100, 27)),
    ],
)
def test_memory_of_a_call_includes_message_work_and_responses(
    in_working_pool: bool, held: int, holdings: tuple[int, int]
):
    life = make()
    life.reading, life.reserved, life.unsent_bytes = 100, 20, 5
    life.in_working_pool, life.held = in_working_pool, held
    assert life.holdings == holdings


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
@pytest.mark.parametrize("unsent", range(READ_BELOW_UNSENT + 1))
def test_stream_reads_its_next_message_if_few_responses_are_unsent(state: State, unsent: int):
    life = make(state)
    life.unsent = unsent
    assert life.may_read == (state is State.SENDING and unsent < READ_BELOW_UNSENT)


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_aborted_call_of_an_unreading_client_sends_no_error(state: State):
    life = make(state)
    assert life.ignores_rejections == (state in {State.ENDING, State.ABORTED})
    life.unsent = 1
    assert life.ignores_rejections


def test_stall_clock_stops_while_the_server_works():
    life = make()
    life.since = 10.0
    life.stop_clock(14.0)
    assert life.since == 14.0
    life.resume_clock(90.0)
    assert life.since == 86.0


@pytest.mark.parametrize(
    ("moved", "since"), [(None, 20.0), (0, 10.0), (-5, 10.0), (TRICKLE_BYTES_PER_SECOND, 11.0), (2**40, 20.0)]
)
def test_stall_clock_advances_with_transferred_bytes_up_to_now(moved: int | None, since: float):
    life = make()
    life.since = 10.0
    life.advance(20.0, moved)
    assert life.since == since
