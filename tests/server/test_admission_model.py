"""Whatever calls do and in whatever order: the budget is what they have, is never exceeded, and comes back."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tensor_reshape.core.errors import LimitError
from tensor_reshape.server.admission import Admission, Ticket
from tensor_reshape.server.config import COST_FACTOR, Config

MESSAGE = 1000
READ = COST_FACTOR * MESSAGE
BUDGET = 4 * READ + 700
MAX_CALLS = 12

peers = st.sampled_from("abc")
picks = st.integers(0, 2**16)


class ModelCall:
    """One call, and what it must have."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.starts = 0  # counted by the callback
        self.reads = 0  # counted by the model
        self.state = "resting"  # or "waiting", or "reading"
        self.kept = self.held = 0
        self.refusals: list[LimitError] = []
        self.ticket = Ticket(self.start, self.refusals.append, lambda: self.peer)

    @property
    def cost(self) -> int:
        return self.held + self.kept + READ * (self.state == "reading")

    def start(self) -> None:
        self.starts += 1


class AdmissionMachine(RuleBasedStateMachine):
    """Does to the real budget what calls do, and keeps the same account plainly."""

    def __init__(self) -> None:
        super().__init__()
        config = Config(max_message_bytes=MESSAGE, memory_budget_bytes=BUDGET, max_calls=MAX_CALLS)
        self.admission = Admission(config)
        self.calls: list[ModelCall] = []
        self.queues: dict[str, deque[ModelCall]] = {}  # in the order of their turns

    @property
    def used(self) -> int:
        return sum(call.cost for call in self.calls)

    @rule(peer=peers)
    def enter(self, peer: str) -> None:
        call = ModelCall(peer)
        if len(self.calls) == MAX_CALLS:
            with pytest.raises(LimitError):
                self.admission.enter(call.ticket)
            return
        self.admission.enter(call.ticket)
        self.calls.append(call)

    @precondition(lambda self: self.pick_from("resting"))
    @rule(pick=picks)
    def read(self, pick: int) -> None:
        call = self.choose("resting", pick)
        if self.queues or not self.begins(call):
            call.state = "waiting"
            self.queues.setdefault(call.peer, deque()).append(call)
        self.admission.read(call.ticket)

    @precondition(lambda self: self.pick_from("reading"))
    @rule(pick=picks, size=st.integers(0, READ))
    def receive(self, pick: int, size: int) -> None:
        call = self.choose("reading", pick)
        call.state = "resting"
        size = min(size, READ + call.kept)
        call.kept = size
        self.grant()
        self.admission.receive(call.ticket, size)

    @precondition(lambda self: self.calls)
    @rule(pick=picks, share=st.floats(0, 1))
    def keep(self, pick: int, share: float) -> None:
        call = self.calls[pick % len(self.calls)]
        call.kept = int(call.kept * share)
        self.grant()
        self.admission.keep(call.ticket, call.kept)

    @precondition(lambda self: self.calls)
    @rule(pick=picks, size=st.integers(0, 2 * READ))
    def hold(self, pick: int, size: int) -> None:
        call = self.calls[pick % len(self.calls)]
        if size > call.held and self.used + size - call.held > BUDGET:
            with pytest.raises(LimitError):
                self.admission.hold(call.ticket, size)
            return
        call.held = size
        self.grant()
        self.admission.hold(call.ticket, size)

    @precondition(lambda self: self.calls)
    @rule(pick=picks, again=st.booleans())
    def leave(self, pick: int, again: bool) -> None:
        call = self.calls.pop(pick % len(self.calls))
        if call.state == "waiting":
            self.queues[call.peer].remove(call)
            self.queues = {peer: queue for peer, queue in self.queues.items() if queue}
        self.grant()
        self.admission.leave(call.ticket)
        if again:
            self.admission.leave(call.ticket)

    @rule()
    def sweep(self) -> None:
        self.admission.sweep()

    def pick_from(self, state: str) -> list[ModelCall]:
        return [call for call in self.calls if call.state == state]

    def choose(self, state: str, pick: int) -> ModelCall:
        calls = self.pick_from(state)
        return calls[pick % len(calls)]

    def begins(self, call: ModelCall) -> bool:
        if self.used + READ > BUDGET:
            return False
        call.state = "reading"
        call.reads += 1
        return True

    def grant(self) -> None:
        while self.queues:
            peer, queue = next(iter(self.queues.items()))
            if not self.begins(queue[0]):
                return
            queue.popleft()
            del self.queues[peer]
            if queue:
                self.queues[peer] = queue

    @invariant()
    def the_budget_is_what_the_calls_have(self) -> None:
        assert self.admission._used == self.used <= BUDGET

    @invariant()
    def every_call_has_what_the_model_says(self) -> None:
        for call in self.calls:
            ticket = call.ticket
            assert (ticket.reading + ticket.kept + ticket.held, ticket.held) == (call.cost, call.held)
            assert (ticket.waiting, call.starts) == (call.state == "waiting", call.reads)

    def teardown(self) -> None:
        while self.calls:
            self.leave(0, again=False)
        assert (self.admission._used, self.admission.is_idle) == (0, True)


def test_the_budget_is_what_the_calls_have_and_comes_back():
    run_state_machine_as_test(
        AdmissionMachine, settings=settings(max_examples=150, stateful_step_count=60, deadline=None)
    )
