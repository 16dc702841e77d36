"""The slots of workers: in each runs one process, and when that has ended, the next.

- A slot is in one `State`. What moves it to another is an `Event`; `TRANSITIONS` lists all moves, and an event that it
  does not list for a state changes nothing.
- Each state has one deadline, counted from when the slot last entered it. When it passes, that is an event.
- What a slot does, it does on entering a state: starts a process, or sends it a signal or a message.
- There is a process in every state but BACKING_OFF and STOPPED.
- After STOP no process is started.
- No clock: time passes by `Slot.advance` alone. One thread, the supervisor's, calls everything here.
"""

import logging
import math
import signal
from collections.abc import Callable, Mapping
from enum import Enum, auto

from tensor_reshape.server.process.heartbeats import BEAT_SECONDS
from tensor_reshape.server.workers.messages import BEAT, LEAVING, REFUSAL, STOP_MARGIN_SECONDS, Order
from tensor_reshape.server.workers.processes import WorkerProcess

START_SECONDS = 60.0
"""How long a worker may take from its start to its first heartbeat. Imports take seconds where processors are few."""

SILENCE_SECONDS = 2.5 * BEAT_SECONDS
"""How long a worker that serves may send no heartbeat until its threads are looked at: one may be missing."""

IDLE_SECONDS = 1.0
"""How long it may then be idle. A worker that copies gigabytes is silent for half a minute, but it is not idle."""

BUSY_SECONDS = 60.0
"""How long it may send no heartbeat, whatever its threads do: a thread that spins is as busy as one that copies."""

STABLE_SECONDS = 10.0
"""A worker that lived so long did not end because of how it starts."""

BACK_OFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""How long a slot waits before the next start: at once first, then longer and longer while workers end early."""

_LOGGER = logging.getLogger(__name__)


class State(Enum):
    """What a slot does; behind it, what its deadline is."""

    BACKING_OFF = auto()
    """There is no process. BACK_OFF_SECONDS until one is started; the first is started without a pause."""

    STARTING = auto()
    """The process has not sent a heartbeat yet. START_SECONDS."""

    SERVING = auto()
    """The last heartbeat is recent. SILENCE_SECONDS since it."""

    SILENT = auto()
    """Heartbeats are missing, and the threads are looked at. What is left of BUSY_SECONDS since the last one."""

    LEAVING = auto()
    """The worker stops by itself, or because somebody else told it to; another follows. The order's `stop_seconds`."""

    KILLED = auto()
    """SIGKILL is sent, and another worker follows. No deadline: nothing more can be done to end a process."""

    STOPPING = auto()
    """SIGTERM is sent, and no other worker follows. The order's `stop_seconds`."""

    HURRYING = auto()
    """As STOPPING, and the calls under way were told to end now. STOP_MARGIN_SECONDS."""

    KILLED_AT_STOP = auto()
    """SIGKILL is sent, and no other worker follows. No deadline."""

    STOPPED = auto()
    """There is no process, and none follows. No deadline."""


class Event(Enum):
    """What moves a slot from one state to another."""

    BEAT = auto()
    """The worker sent a heartbeat."""

    LEAVE = auto()
    """The worker says that it begins to stop."""

    EXIT = auto()
    """The process has ended, or could not be started."""

    DEADLINE = auto()
    """The deadline of the state has passed."""

    IDLE = auto()
    """A silent worker has done nothing for IDLE_SECONDS."""

    STOP = auto()
    """The server is to stop."""

    HURRY = auto()
    """The server is to stop now: a second signal."""


# Heartbeats count no more from LEAVING on: a worker that stops may be kept from sending any by the calls under way, so
# only the deadline tells whether it hangs.
TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.BACKING_OFF: {
        Event.DEADLINE: State.STARTING,
        Event.STOP: State.STOPPED,
    },
    State.STARTING: {
        Event.BEAT: State.SERVING,
        Event.LEAVE: State.LEAVING,
        Event.EXIT: State.BACKING_OFF,
        Event.DEADLINE: State.KILLED,
        Event.STOP: State.STOPPING,
    },
    State.SERVING: {
        Event.BEAT: State.SERVING,
        Event.LEAVE: State.LEAVING,
        Event.EXIT: State.BACKING_OFF,
        Event.DEADLINE: State.SILENT,
        Event.STOP: State.STOPPING,
    },
    State.SILENT: {
        Event.BEAT: State.SERVING,
        Event.LEAVE: State.LEAVING,
        Event.EXIT: State.BACKING_OFF,
        Event.DEADLINE: State.KILLED,
        Event.IDLE: State.KILLED,
        Event.STOP: State.STOPPING,
    },
    State.LEAVING: {
        Event.EXIT: State.BACKING_OFF,
        Event.DEADLINE: State.KILLED,
        Event.STOP: State.STOPPING,
    },
    State.KILLED: {
        Event.EXIT: State.BACKING_OFF,
        Event.STOP: State.STOPPING,
    },
    State.STOPPING: {
        Event.EXIT: State.STOPPED,
        Event.DEADLINE: State.KILLED_AT_STOP,
        Event.HURRY: State.HURRYING,
    },
    State.HURRYING: {
        Event.EXIT: State.STOPPED,
        Event.DEADLINE: State.KILLED_AT_STOP,
    },
    State.KILLED_AT_STOP: {
        Event.EXIT: State.STOPPED,
    },
    State.STOPPED: {},
}

# After STOP: that a worker ends is no failure any more.
_FINAL_STATES = frozenset({State.STOPPING, State.HURRYING, State.KILLED_AT_STOP, State.STOPPED})


class Slot:
    """One worker and, when it has ended, the next.

    Attributes:
        order: what each of its workers is to do.
        state: what the slot does now.
        refusal: why the last worker could not serve, in its own words; empty where it sent none.
        starts: how many workers were started, or tried to.
        silences: how often the heartbeats of one that served were missing.
    """

    def __init__(self, order: Order, spawn: Callable[[Order], WorkerProcess] = WorkerProcess) -> None:
        """Leaves the slot empty; the first `advance` starts a worker.

        Args:
            order: what each of its workers is to do.
            spawn: starts a process; may raise OSError.
        """
        self.order = order
        self.state = State.BACKING_OFF
        self.refusal = ""
        self.starts = self.silences = 0
        self._spawn = spawn
        # The worker's process, from its start until `record_exit`: in all states that have one.
        self._worker: WorkerProcess | None = None
        # Seconds until the deadline of the state, as `advance` counts them.
        self._remaining_seconds = 0.0
        # Seconds since the last start, whatever became of it. Tells at the next back-off whether the worker was stable.
        self._lived_seconds = 0.0
        # Seconds for which a SILENT worker has been seen idle without a break.
        self._idle_seconds = 0.0
        # How many back-offs there have been since a worker was stable, whose own is the first: they grow with each.
        self._back_offs = 0
        # All deadlines but that of BACKING_OFF, which depends on the back-offs before it.
        self._deadline_seconds = {
            State.STARTING: START_SECONDS,
            State.SERVING: SILENCE_SECONDS,
            State.SILENT: BUSY_SECONDS - SILENCE_SECONDS,
            State.LEAVING: order.stop_seconds,
            State.KILLED: math.inf,
            State.STOPPING: order.stop_seconds,
            State.HURRYING: STOP_MARGIN_SECONDS,
            State.KILLED_AT_STOP: math.inf,
            State.STOPPED: math.inf,
        }

    @property
    def serves(self) -> bool:
        """Whether the worker answers calls, as far as is known, and is not about to end."""
        return self.state in {State.SERVING, State.SILENT}

    @property
    def pid(self) -> int | None:
        """The number of the worker's process, until `record_exit`."""
        return self._worker.pid if self._worker else None

    def advance(self, seconds: float) -> None:
        """Lets time pass: reads what the worker has sent, then looks whether it hangs or a deadline has passed."""
        self._remaining_seconds -= seconds
        self._lived_seconds += seconds
        # Messages before the deadline: a heartbeat that lies in the pipe was in time, however late it is read.
        self._read_messages()
        if self._remaining_seconds <= 0:
            self._handle(Event.DEADLINE)
        # Of silent workers alone: a look reads a file for each thread, which takes 2 ms for fifty.
        if self.state is State.SILENT:
            self._watch_idleness(seconds)

    def record_exit(self, code: int) -> None:
        """Takes note of the end of the worker's process, which has been reaped; `code` as of `subprocess`."""
        if self._worker is None:
            return
        self._read_messages()  # its last words may be a refusal
        if not self.refusal:  # which says more
            self._log(logging.INFO if self.state in _FINAL_STATES else logging.ERROR, "worker ended", code=code)
        self._worker.close(code)
        self._worker = None
        self._handle(Event.EXIT)

    def stop(self) -> None:
        """Has the worker stop gracefully, and no other start."""
        self._handle(Event.STOP)

    def hurry(self) -> None:
        """Has a worker that stops end the calls under way now."""
        self._handle(Event.HURRY)

    def close(self) -> None:
        """Kills the worker and awaits its end, if there is one; the slot cannot be used any more."""
        if self._worker:
            self._worker.send_signal(signal.SIGKILL)
            self._worker.close()
            self._worker = None

    def _handle(self, event: Event) -> None:
        state = TRANSITIONS[self.state].get(event)
        if state is not None:
            self._enter(state)

    def _enter(self, state: State) -> None:
        if (self.state, state) == (State.STARTING, State.SERVING):
            self._log(logging.INFO, "worker serves")
        # All of the new state before anything is done: a start that fails is an event already, in STARTING.
        self.state = state
        backs_off = state is State.BACKING_OFF
        self._remaining_seconds = self._count_back_off() if backs_off else self._deadline_seconds[state]
        match state:
            case State.STARTING:
                self._start()
            case State.SILENT:
                self._idle_seconds = 0.0
                self.silences += 1
            case State.KILLED | State.KILLED_AT_STOP:
                self._log(logging.ERROR, "worker hangs")
                self._signal(signal.SIGKILL)
            case State.STOPPING:
                self._signal(signal.SIGTERM)
            case State.HURRYING if self._worker:
                self._worker.hurry()

    def _start(self) -> None:
        self.refusal = ""
        self._lived_seconds = 0.0
        self.starts += 1
        try:
            self._worker = self._spawn(self.order)
        except OSError as error:  # no memory or no processes left: the same may work in a while
            self._log(logging.ERROR, "worker cannot be started", reason=str(error))
            self._handle(Event.EXIT)

    def _count_back_off(self) -> float:
        if self._lived_seconds >= STABLE_SECONDS:
            self._back_offs = 0
        seconds = BACK_OFF_SECONDS[min(self._back_offs, len(BACK_OFF_SECONDS) - 1)]
        self._back_offs += 1
        return seconds

    def _read_messages(self) -> None:
        messages = self._worker.read_messages() if self._worker else b""
        if messages.startswith(REFUSAL):
            self.refusal = messages.removeprefix(REFUSAL).decode(errors="replace")
            return
        # Several heartbeats are worth one, and none that comes after LEAVING counts: so BEAT first.
        if BEAT in messages:
            self._handle(Event.BEAT)
        if LEAVING in messages:
            self._handle(Event.LEAVE)

    def _watch_idleness(self, seconds: float) -> None:
        # Only without a break: a worker whose thread waits for memory or for the disk now and then makes progress.
        idle = self._worker is not None and self._worker.is_idle()
        self._idle_seconds = self._idle_seconds + seconds if idle else 0.0
        if self._idle_seconds > IDLE_SECONDS:
            self._handle(Event.IDLE)

    def _signal(self, number: signal.Signals) -> None:
        if self._worker:
            self._worker.send_signal(number)

    def _log(self, level: int, message: str, **extra: object) -> None:
        _LOGGER.log(level, message, extra={"worker": self.order.number, "pid": self.pid, **extra})
