"""Whatever calls do and in whatever order: the budget is what they have, is never exceeded, and comes back."""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.tickets import Ticket
from tensor_reshape.server.config import COST_FACTOR, Config

MESSAGE = 1024
WORK = COST_FACTOR * MESSAGE
BUDGET = 24 * MESSAGE
MAX_CALLS = 40

peers = st.sampled_from(["a", "b", "c", "d", "e", "f", "unix:"])
picks = st.integers(0, 2**16)


class ModelCall:
    """One call, and what it must have.

    Attributes:
        state: "resting", "waiting to read", "reading", "arrived", "waiting to work" or "working".
        kept: what it has of messages.
        arrived: the size of the message that has arrived and is not answered yet.
    """

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.state = "resting"
        self.kept = self.held = self.arrived = 0
        self.claimed = False
        self.refusals: list[LimitError] = []
        self.ticket = Ticket(self.start, self.refusals.append)

    @property
    def receiving(self) -> int:
        reading = MESSAGE if self.state == "reading" else self.arrived
        return reading + (0 if self.claimed else self.kept)

    @property
    def working(self) -> int:
        return self.held + (self.kept if self.claimed else 0)

    def keep(self, size: int) -> None:
        self.kept = size
        self.claimed = self.claimed and size > 0

    def start(self) -> None:
        assert self.state == "waiting to read"
        self.state = "reading"

    def work(self) -> None:
        assert self.state == "waiting to work"
        self.state, self.kept, self.arrived, self.claimed = "working", self.kept + WORK, 0, True


class AdmissionMachine(RuleBasedStateMachine):
    """Does to the real budget what calls do, and keeps the same account plainly."""

    def __init__(self) -> None:
        super().__init__()
        config = Config(max_message_bytes=MESSAGE, memory_budget_bytes=BUDGET, max_calls=MAX_CALLS)
        self.admission = Admission(config)
        self.calls: list[ModelCall] = []
        self.order: dict[tuple[str, str], list[ModelCall]] = defaultdict(list)  # of those that wait, by peer and wish

    @rule(peer=peers)
    def enter(self, peer: str) -> None:
        call = ModelCall(peer)
        try:
            self.admission.enter(call.ticket, peer)
        except LimitError:
            assert len(self.calls) >= MAX_CALLS * 3 // 4
        else:
            assert len(self.calls) < MAX_CALLS
            self.calls.append(call)

    @precondition(lambda self: self.pick_from("resting"))
    @rule(pick=picks)
    def read(self, pick: int) -> None:
        call = self.choose("resting", pick)
        self.wait(call, "waiting to read")
        self.admission.read(call.ticket)

    @precondition(lambda self: self.pick_from("reading"))
    @rule(pick=picks, size=st.integers(0, MESSAGE))
    def receive(self, pick: int, size: int) -> None:
        call = self.choose("reading", pick)
        call.state = "resting"
        call.keep(size)
        self.admission.receive(call.ticket, size)

    @precondition(lambda self: self.pick_from("reading"))
    @rule(pick=picks, size=st.integers(0, MESSAGE))
    def arrive(self, pick: int, size: int) -> None:
        call = self.choose("reading", pick)
        call.state, call.arrived = "arrived", size
        self.admission.arrive(call.ticket, size)

    @precondition(lambda self: self.pick_from("arrived"))
    @rule(pick=picks)
    def work(self, pick: int) -> None:
        call = self.choose("arrived", pick)
        self.wait(call, "waiting to work")
        self.admission.work(call.ticket, WORK, call.work)

    @precondition(lambda self: self.pick_from("working"))
    @rule(pick=picks, size=st.integers(0, WORK))
    def answer(self, pick: int, size: int) -> None:
        call = self.choose("working", pick)
        call.state = "resting"
        call.keep(size)
        self.admission.receive(call.ticket, size)

    @precondition(lambda self: self.calls)
    @rule(pick=picks, size=st.integers(0, 2 * WORK))
    def hold(self, pick: int, size: int) -> None:
        call = self.calls[pick % len(self.calls)]
        before = call.held
        call.held = size
        try:
            self.admission.hold(call.ticket, size)
        except LimitError:
            assert size > before
            call.held = before

    @precondition(lambda self: self.calls)
    @rule(pick=picks, again=st.booleans())
    def leave(self, pick: int, again: bool) -> None:
        call = self.calls.pop(pick % len(self.calls))
        self.admission.leave(call.ticket)
        if again:
            self.admission.leave(call.ticket)
        call.state = "left"

    @rule()
    def sweep(self) -> None:
        self.admission.sweep()

    def pick_from(self, state: str) -> list[ModelCall]:
        return [call for call in self.calls if call.state == state]

    def choose(self, state: str, pick: int) -> ModelCall:
        calls = self.pick_from(state)
        return calls[pick % len(calls)]

    def wait(self, call: ModelCall, state: str) -> None:
        call.state = state
        self.order[call.peer, state].append(call)

    @invariant()
    def the_budget_is_what_the_calls_have(self) -> None:
        receiving, working = self.admission._receiving, self.admission._working
        assert receiving.used == sum(call.receiving for call in self.calls) <= (BUDGET - 2 * MESSAGE) // 2
        assert working.used == sum(call.working for call in self.calls)
        assert receiving.used + working.used == self.admission.used_bytes

    @invariant()
    def a_claim_never_makes_the_budget_overflow(self) -> None:
        # What is held by a lone call, or kept of a small message, may lie above the pool's limit; a claim must not add.
        working = self.admission._working
        assert working.used <= max(
            (BUDGET - 2 * MESSAGE) // 2 + sum(min(call.kept, MESSAGE) for call in self.calls),
            2 * WORK + MAX_CALLS * MESSAGE,
        )

    @invariant()
    def within_a_connection_who_came_first_is_first(self) -> None:
        for (_, state), calls in self.order.items():
            calls[:] = [call for call in calls if call.state != "left"]
            served = [call.state != state for call in calls]
            assert served == sorted(served, reverse=True)
            calls[:] = [call for call in calls if call.state == state]

    @invariant()
    def nobody_waits_for_room_that_is_there(self) -> None:
        for pool, size in ((self.admission._receiving, MESSAGE), (self.admission._working, WORK)):
            if pool._newcomers:
                assert not pool.fits(next(iter(pool._newcomers.values())), size)
            elif pool._holders:
                assert not pool.fits(next(iter(pool._holders.values())), size)

    def teardown(self) -> None:
        while self.calls:
            self.leave(0, again=False)
        assert (self.admission.used_bytes, self.admission.is_idle) == (0, True)
        assert (self.admission._receiving._accounts, self.admission._working._accounts) == ({}, {})
        assert self.admission._calls == {}


def test_the_budget_is_what_the_calls_have_and_comes_back():
    run_state_machine_as_test(
        AdmissionMachine, settings=settings(max_examples=150, stateful_step_count=60, deadline=None)
    )
