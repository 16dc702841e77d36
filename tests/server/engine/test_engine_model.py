"""For any events of calls in any order, the budget is the memory of all calls, is never exceeded, and is returned."""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from engine_calls import RecordedEngine, replay
from hypothesis_profiles import examples
from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.results import OK
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.lifecycle import READ_BELOW_UNSENT, CallHandler, Lifecycle

MESSAGE = 1024
WORK = COST_FACTOR * MESSAGE
BUDGET = 24 * MESSAGE
MAX_CALLS = 40
LIMIT = (BUDGET - 2 * MESSAGE) // 2  # of each pool

peers = st.sampled_from([*(f"ipv4:10.0.0.{host}:{port}" for host in (1, 2, 3) for port in (1, 2, 3)), "unix:"])
picks = st.integers(0, 2**16)


class ModelCall(CallHandler):
    """One call, and its expected memory.

    Attributes:
        state: "new", "waiting to read", "reading", "arrived", "waiting to work", "granted", "sending", "ended",
            "abandoned" or "left".
        arrived: the size of the message that has arrived and has no response yet.
        reading: the memory for that message, or for the message that it receives.
        reserved: the memory for the work, or for the response of a unary call.
        outbox: the sizes of responses that are being sent.
        claimed: whether the memory of its messages is in the processing pool.
    """

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.state = "new"
        self.held = self.arrived = self.reading = self.reserved = 0
        self.outbox: list[int] = []
        self.claimed = False
        self.life = Lifecycle(self, "/a.service/Method")

    @property
    def kept(self) -> int:
        return self.reserved + (0 if self.held else COST_FACTOR * sum(self.outbox))

    @property
    def receiving(self) -> int:
        return self.reading + (0 if self.claimed else self.kept)

    @property
    def working(self) -> int:
        return self.held + (self.kept if self.claimed else 0)

    def settle(self) -> None:
        self.claimed = self.claimed and self.kept > 0

    def start_read(self) -> None:
        assert self.state == "waiting to read"
        self.state, self.reading = "reading", MESSAGE

    def start_work(self) -> None:
        assert self.state == "waiting to work"
        self.state, self.reserved, self.reading, self.claimed = "granted", WORK, 0, True

    def start_send(self) -> None:
        assert self.outbox or self.state == "sending"

    def abort(self, rejection: LimitError) -> None:
        raise AssertionError(rejection)

    def drop(self, rejection: LimitError | None) -> None:
        del rejection
        raise AssertionError


class EngineMachine(RuleBasedStateMachine):
    """Makes calls on a real engine, and calculates the expected memory independently. No time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.config = Config(max_message_bytes=MESSAGE, memory_budget_bytes=BUDGET, max_calls=MAX_CALLS)
        self.engine = RecordedEngine(self.config)
        self.calls: list[ModelCall] = []
        self.order: dict[tuple[str, str], list[ModelCall]] = defaultdict(
            list
        )  # waiting calls, by peer and by what they wait for

    @rule(peer=peers)
    def enter(self, peer: str) -> None:
        call = ModelCall(peer)
        self.wait(call, "waiting to read")
        try:
            actions = self.engine.enter(call.life, find_source(peer))
        except LimitError:
            call.state = "left"
            assert len(self.calls) >= MAX_CALLS * 7 // 8
        else:
            assert len(self.calls) < MAX_CALLS
            self.calls.append(call)
            self.engine.perform(actions)

    @precondition(lambda self: self.pick_from("reading"))
    @rule(pick=picks, size=st.integers(0, MESSAGE))
    def receive(self, pick: int, size: int) -> None:
        call = self.choose("reading", pick)
        call.state, call.arrived = "arrived", size
        assert self.engine.message_received(call.life, size)

    @precondition(lambda self: self.pick_from("arrived"))
    @rule(pick=picks)
    def answer(self, pick: int) -> None:
        """Sends a response of the same size to a stream's message, if there is memory for it."""
        call = self.choose("arrived", pick)
        if not (call.claimed or self.engine.fits(call.life, call.arrived)):
            return
        call.reading = call.reserved = 0
        call.outbox.append(call.arrived)
        call.settle()
        self.rest(call)
        self.engine.perform(self.engine.respond(call.life, [bytes(call.arrived)], None))

    @precondition(lambda self: any(call.outbox for call in self.calls))
    @rule(pick=picks)
    def send(self, pick: int) -> None:
        calls = [call for call in self.calls if call.outbox]
        call = calls[pick % len(calls)]
        size = call.outbox.pop(0)
        call.settle()
        if call.state == "sending":
            self.rest(call)
        self.engine.perform(self.engine.sent(call.life, size))

    @precondition(lambda self: self.pick_from("arrived"))
    @rule(pick=picks)
    def work(self, pick: int) -> None:
        call = self.choose("arrived", pick)
        if call.reserved:
            return  # the call already works
        call.reading = call.arrived
        self.wait(call, "waiting to work")
        self.engine.perform(self.engine.request_work(call.life))

    @precondition(lambda self: self.pick_from("granted"))
    @rule(pick=picks)
    def begin_work(self, pick: int) -> None:
        call = self.choose("granted", pick)
        call.state = "arrived"
        assert self.engine.begin_work(call.life)

    @precondition(lambda self: self.pick_from("arrived"))
    @rule(pick=picks, size=st.integers(1, MESSAGE))
    def end(self, pick: int, size: int) -> None:
        """Ends a unary call with its response."""
        call = self.choose("arrived", pick)
        cost = COST_FACTOR * max(size, call.arrived)
        if call.outbox or (not call.claimed and cost > MESSAGE):
            return
        call.state, call.reading, call.reserved = "ended", 0, cost
        call.settle()
        is_first, actions = self.engine.end(call.life, OK, size)
        assert is_first
        self.engine.perform(actions)

    @precondition(lambda self: any(not call.outbox for call in self.calls))
    @rule(pick=picks, size=st.integers(0, 2 * WORK))
    def hold(self, pick: int, size: int) -> None:
        calls = [call for call in self.calls if not call.outbox]
        call = calls[pick % len(calls)]
        before = call.held
        call.held = size
        try:
            self.engine.perform(self.engine.reserve(call.life, size))
        except LimitError:
            assert size > before
            call.held = before

    @precondition(lambda self: self.calls)
    @rule(pick=picks, again=st.booleans())
    def leave(self, pick: int, again: bool) -> None:
        """Ends a call for gRPC. If a thread works on the call, the call is over after the thread has finished."""
        call = self.calls[pick % len(self.calls)]
        if call.state == "abandoned":
            self.calls.remove(call)
            call.state = "left"
            is_first, actions = self.engine.end(call.life, OK, 1)
            assert not is_first
            self.engine.perform(actions)
            return
        if call.state == "arrived":
            call.state = "abandoned"
        else:
            self.calls.remove(call)
            call.state = "left"
        for _ in range(1 + again):
            self.engine.perform(self.engine.release(call.life))

    def rest(self, call: ModelCall) -> None:
        """Lets a stream request its next message, if allowed."""
        call.state = "sending"
        if len(call.outbox) < READ_BELOW_UNSENT:
            self.wait(call, "waiting to read")

    @rule()
    def sweep(self) -> None:
        self.engine.perform(self.engine.sweep())

    def pick_from(self, state: str) -> list[ModelCall]:
        return [call for call in self.calls if call.state == state]

    def choose(self, state: str, pick: int) -> ModelCall:
        calls = self.pick_from(state)
        return calls[pick % len(calls)]

    def wait(self, call: ModelCall, state: str) -> None:
        call.state = state
        self.order[call.peer, state].append(call)

    @invariant()
    def the_budget_equals_the_memory_of_the_calls(self) -> None:
        receiving, working = self.engine._receiving, self.engine._processing
        assert receiving.used == sum(call.receiving for call in self.calls) <= LIMIT
        assert working.used == sum(call.working for call in self.calls)
        assert receiving.used + working.used == self.engine.used_bytes

    @invariant()
    def a_claim_never_makes_the_budget_overflow(self) -> None:
        # The memory of a single call, or of a small message, may exceed the pool's limit, but a claim must not add to
        # it.
        working = self.engine._processing
        assert working.used <= max(
            LIMIT + sum(min(call.kept, MESSAGE) for call in self.calls),
            2 * WORK + MAX_CALLS * MESSAGE,
        )

    @invariant()
    def calls_of_a_connection_keep_their_order(self) -> None:
        for (_, state), calls in self.order.items():
            calls[:] = [call for call in calls if call.state != "left"]
            served = [call.state != state for call in calls]
            assert served == sorted(served, reverse=True)
            calls[:] = [call for call in calls if call.state == state]

    @invariant()
    def no_call_waits_for_free_memory(self) -> None:
        for pool in (self.engine._receiving, self.engine._processing):
            assert pool.grant() is None

    @invariant()
    def an_address_without_memory_waits_only_for_a_full_pool(self) -> None:
        for pool, size in ((self.engine._receiving, MESSAGE), (self.engine._processing, WORK)):
            assert not pool.newcomers or pool.used + size > LIMIT

    def teardown(self) -> None:
        while self.calls:
            self.leave(0, again=False)
        assert (self.engine.used_bytes, self.engine.is_idle) == (0, True)
        for pool in (self.engine._receiving, self.engine._processing, self.engine._slots):
            assert (pool._addresses, pool._connections, pool.waiting.queues) == ({}, {}, {})
        assert replay(self.engine.lines, self.config) == self.engine.lines


def test_memory_pools_match_the_memory_of_calls_for_random_events():
    run_state_machine_as_test(EngineMachine, settings=settings(examples(150), stateful_step_count=60))
