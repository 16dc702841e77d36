"""The life cycle of a call without an engine: every event in every state, and the held memory."""

import pytest

from tensor_reshape.server.engine.lifecycle import (
    TRICKLE_BYTES_PER_SECOND,
    CallHandler,
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


def make(state: State = State.NEW) -> Lifecycle:
    life = Lifecycle(CallHandler(), METHOD)
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
