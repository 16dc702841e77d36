"""Gates: admission checks at the beginning of a call, for example authentication and quotas.

- When a call begins, a gate checks its `CallInfo`, before the call takes a concurrency slot or memory. If the client of
  a call has no free slot, the call waits before it begins (see `AdmissionQueue`).
- Gates run in a fixed order until a gate rejects the call. When the call is over, the server calls `leave` once for
  each gate that has admitted the call.
- Gates do not check calls of the health methods, including the health methods of the Open Inference Protocol. Gates do
  check calls of the reflection methods.
- A gate may run on any thread, and the server holds no lock while the gate runs. A gate must not block, because it may
  run on the thread that receives all calls.
- If a gate raises an exception that is not a `ReshapeError`, the server logs a bug and rejects the call (fail closed).
- A caller is an authenticated identity (`CallInfo.identity`). Without authentication, a caller is an IPv4 address or
  the /64 network of an IPv6 address, because one client often has the whole network. All clients of unix sockets are
  one caller. The module `sources` determines the addresses of clients behind a proxy.
- The rate limit is a token bucket. A full bucket has one token for each call that the caller may begin within
  `BURST_SECONDS`, and at least one token. An admitted call takes a token. A rejected call takes no token, and its error
  says when to retry.
- Each worker process counts calls separately. With several workers, a caller has its whole quota in each worker.
- The server remembers a caller while the caller has a running call or a token bucket that is not full. If the server
  already remembers `MAX_CALLERS` callers, it forgets a few old callers for each new caller. It forgets only callers
  that have no running call. Quotas therefore do not limit a client that has more than `MAX_CALLERS` addresses.
- Calls of methods without gates, for example the health methods, do not count towards a quota.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.sources import find_address, is_shared
from tensor_reshape.server.config import Config

_LOGGER = logging.getLogger(__name__)


class Gate(Protocol):
    """Admits or rejects calls. The docstring of this module lists the rules for gates."""

    def admit(self, info: CallInfo) -> None:
        """Admits a call, or rejects it by raising an error.

        A gate may set `info.identity` for later gates and for observers.

        Raises:
            ReshapeError: the error with which the call is rejected.
        """

    def leave(self, info: CallInfo) -> None:
        """Handles the end of a call that this gate has admitted."""


class Gates(tuple[Gate, ...]):
    """Gates, in the order in which they run."""

    __slots__ = ()

    def find_rejection(self, info: CallInfo) -> ReshapeError | None:
        """Runs the gates and returns the first error, or None if all gates admit the call.

        `CallInfo.leave` must be called when the call is over, even if a gate has rejected it.
        """
        for gate in self:
            try:
                gate.admit(info)
            except ReshapeError as rejection:
                return rejection
            except Exception:
                _LOGGER.exception("bug", extra={"method": info.method})
                return ReshapeError("internal error", reason=Reason.INTERNAL_ERROR)
            info.at_end.append(partial(gate.leave, info))
        return None


BURST_SECONDS = 1.0
"""The capacity of a token bucket in seconds.

A caller that was idle may begin at once all calls that its rate limit allows in this time.
"""

MAX_CALLERS = 8192
"""The maximum number of remembered callers without a running call."""

# When a new caller is added, this number of old callers is examined and perhaps removed. More than one old caller is
# examined for each new caller, so that old callers can be removed faster than new callers are added.
_EXAMINED_CALLERS = 2
_UNIX = "unix"  # the name of the single caller for all clients of unix sockets


@dataclass(slots=True)
class _Caller:
    """A caller, with its number of running calls and its number of tokens at the time `filled_at`."""

    calls: int
    tokens: float
    filled_at: float


class CallerQuotas:
    """The quotas of all callers. Any thread may use this object."""

    def __init__(self, max_calls: int, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without callers.

        Args:
            max_calls: the number of running calls that a caller may have. 0 means no limit.
            rate: the number of calls per second that a caller may begin. 0 means no limit.
            clock: a function that returns the current time in seconds.
        """
        self._max_calls = max_calls
        self._rate = rate
        self._most_tokens = max(1.0, rate * BURST_SECONDS)
        self._clock = clock
        self._lock = threading.Lock()  # this lock guards the callers, and is held only while calls are counted
        self._callers: OrderedDict[str, _Caller] = OrderedDict()  # callers, roughly in the order of their latest calls

    def __len__(self) -> int:
        """The number of remembered callers."""
        return len(self._callers)

    def admit(self, info: CallInfo) -> None:
        """Counts a call for its caller, or rejects the call (see `gates.Gate`).

        Raises:
            LimitError: the reason is QUOTA_EXCEEDED.
        """
        with self._lock:
            caller = self._find(find_caller(info))
            if self._max_calls and caller.calls >= self._max_calls:
                raise reject_quota(f"this caller has {caller.calls} running calls, and the limit is {self._max_calls}")
            if self._rate and caller.tokens < 1:
                message = f"this caller exceeds its limit of {self._rate:g} calls per second"
                raise reject_quota(message, (1 - caller.tokens) / self._rate)
            caller.calls += 1
            caller.tokens -= 1

    def leave(self, info: CallInfo) -> None:
        """Records the end of a call (see `gates.Gate`)."""
        with self._lock:
            # The dict `_callers` still contains this caller, because a caller with a running call is never removed.
            self._callers[find_caller(info)].calls -= 1

    def _find(self, name: str) -> _Caller:
        """Returns a caller with its current number of tokens. A new caller gets a full token bucket."""
        now = self._clock()
        caller = self._callers.get(name)
        if caller is None:
            self._forget(now)
            caller = self._callers[name] = _Caller(0, self._most_tokens, now)
        self._callers.move_to_end(name)
        self._fill(caller, now)
        return caller

    def _fill(self, caller: _Caller, now: float) -> None:
        caller.tokens = min(self._most_tokens, caller.tokens + (now - caller.filled_at) * self._rate)
        caller.filled_at = now

    def _forget(self, now: float) -> None:
        """Examines the oldest callers, and forgets each caller with a full token bucket and without running calls.

        If there are too many callers, this method also forgets callers whose token bucket is not full.
        """
        for name, caller in [item for item, _ in zip(self._callers.items(), range(_EXAMINED_CALLERS), strict=False)]:
            self._fill(caller, now)
            if caller.calls:
                # A caller with running calls moves to the end of the dict, so that the next `_forget` examines other
                # callers.
                self._callers.move_to_end(name)
            elif len(self._callers) >= MAX_CALLERS or not self._rate or caller.tokens == self._most_tokens:
                del self._callers[name]


def build_quotas(config: Config) -> tuple[CallerQuotas, ...]:
    """Returns the quota gate if a quota is configured. Otherwise returns an empty tuple."""
    if not (config.max_calls_per_caller or config.max_calls_per_caller_per_second):
        return ()
    return (CallerQuotas(config.max_calls_per_caller, config.max_calls_per_caller_per_second),)


def find_caller(info: CallInfo) -> str:
    """Returns the name of the caller of a call.

    The name of an authenticated caller begins with "identity", so that no identity can be confused with an address.
    """
    if info.identity:
        return f"identity {info.identity}"
    address = info.address or find_address(info.peer)
    return _UNIX if is_shared(address) else address


def reject_quota(message: str, retry_seconds: float | None = None) -> LimitError:
    """Returns the QUOTA_EXCEEDED error.

    `retry_seconds` is the time after which the caller may retry, or None if this time is unknown.
    """
    rejection = LimitError.of(Reason.QUOTA_EXCEEDED, message)
    rejection.retry_seconds = retry_seconds
    return rejection
