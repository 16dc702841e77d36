"""A slot with random events has at most one process, and none after it stops."""

import signal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from hypothesis_profiles import examples
from tensor_reshape.server.workers.messages import BEAT, LEAVING, REJECTION, STOP_MARGIN_SECONDS
from tensor_reshape.server.workers.slots import HANG_SECONDS, STABLE_SECONDS
from worker_slots import ORDER, TICK, Room


class SlotModel(RuleBasedStateMachine):
    """Any events of a slot, in any order. `Room` checks that at most one process runs."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room()
        self.stopped_with: int | None = None  # the number of processes until the stop

    def has_process(self) -> bool:
        return self.room.slot.pid is not None

    @rule(seconds=st.sampled_from([0, TICK, 1, STOP_MARGIN_SECONDS, STABLE_SECONDS, HANG_SECONDS]))
    def advance(self, seconds: float) -> None:
        self.room.slot.advance(seconds)

    @precondition(has_process)
    @rule(messages=st.sampled_from([BEAT, LEAVING, BEAT + LEAVING, BEAT * 3, LEAVING + BEAT, REJECTION + b"no"]))
    def send(self, messages: bytes) -> None:
        self.room.process.sent += messages

    @precondition(has_process)
    @rule(code=st.sampled_from([0, 1, -signal.SIGKILL]))
    def exit(self, code: int) -> None:
        self.room.exit(code)

    @rule(full=st.booleans())
    def fill(self, full: bool) -> None:
        self.room.full = full

    @precondition(lambda self: self.stopped_with is None)
    @rule()
    def stop(self) -> None:
        self.room.slot.stop()
        self.stopped_with = len(self.room.processes)

    @precondition(lambda self: self.stopped_with is not None)
    @rule()
    def hurry(self) -> None:
        self.room.slot.hurry()

    @invariant()
    def no_process_is_started_after_the_stop(self) -> None:
        assert self.stopped_with in {None, len(self.room.processes)}

    @invariant()
    def a_process_without_a_slot_is_closed(self) -> None:
        assert self.has_process() == any(not process.is_closed for process in self.room.processes)

    @invariant()
    def a_worker_gets_one_sigterm_before_it_is_hurried(self) -> None:
        for process in self.room.processes:
            signals = [action for action in process.actions if action != "SIGKILL"]
            assert signals == ["SIGTERM", *["hurry"] * (len(signals) - 1)][: len(signals)]

    @invariant()
    def a_worker_is_killed_once(self) -> None:
        assert all(process.actions.count("SIGKILL") <= 1 for process in self.room.processes)

    @invariant()
    def a_serving_worker_was_not_signalled(self) -> None:
        assert not self.room.slot.serves or (self.has_process() and not self.room.process.actions)

    def teardown(self) -> None:
        """Checks that a process without further messages is killed, and is the last one after the slot is stopped."""
        if self.stopped_with is None:
            self.room.slot.stop()
        if self.has_process():
            self.room.process.sent = b""
            self.room.wait(ORDER.stop_seconds + 2 * TICK)
            assert self.room.process.was_killed
            self.room.exit(-signal.SIGKILL)
        assert self.room.slot.pid is None


def test_worker_slot_keeps_its_invariants_for_random_events():
    run_state_machine_as_test(SlotModel, settings=settings(examples(100), stateful_step_count=40))
