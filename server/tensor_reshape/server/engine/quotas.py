"""How much one caller may have: calls under way, and calls in a time. A gate: see `gates`.

- A caller is the identity that a gate before this one has found (`CallHead.identity`). Without one, it is the host, or
  the /64 network of an IPv6 host, because one client has all addresses of it. All clients of unix sockets are one
  caller. See `sources` for proxies.
- Calls in a time are counted by a bucket of tokens: it holds what it gains in `BURST_SECONDS`, at least one, and a call
  that is admitted takes one. A call that is refused takes nothing, and is told when there will be a token.
- A process counts for itself: with several workers, a caller with a connection to each may have as much of each.
- Callers are remembered while they have a running call or a bucket that is not full. At most `MAX_CALLERS` without a
  running call are remembered; when there are more, the first of them is forgotten, as if it had not called. So quotas
  do not bound a client with more addresses than that.
- Calls of methods without gates, such as health, are not counted.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.engine.sources import find_address, is_shared

BURST_SECONDS = 1.0
"""What a bucket gains in so long, it holds: who has called little may call so much more at once."""

MAX_CALLERS = 8192
"""Callers without a call under way that are remembered."""

_LOOKS = 2  # how many callers may be forgotten for each that comes: so there are never more of them than that
_UNIX = "unix"


@dataclass(slots=True)
class _Caller:
    """What a caller has: calls under way, and tokens, as of a time."""

    calls: int
    tokens: float
    filled_at: float


class CallerQuotas:
    """The quotas of all callers; safe to use from any thread."""

    def __init__(self, max_calls: int, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts with nobody.

        Args:
            max_calls: how many calls a caller may have under way; 0: any number.
            rate: how many a caller may begin in a second; 0: any number.
            clock: in seconds.
        """
        self._max_calls = max_calls
        self._rate = rate
        self._most_tokens = max(1.0, rate * BURST_SECONDS)
        self._clock = clock
        self._lock = threading.Lock()  # guards what follows; nothing is done under it but to count
        self._callers: OrderedDict[str, _Caller] = OrderedDict()  # the last to have begun a call last

    def __len__(self) -> int:
        """How many callers are remembered."""
        return len(self._callers)

    def admit(self, head: CallHead) -> None:
        """Counts a call; see `gates.Gate`.

        Raises:
            LimitError: QUOTA_EXCEEDED.
        """
        name = find_caller(head)
        with self._lock:
            refusal = self._take(self._find(name))
        if refusal is not None:
            raise refusal

    def leave(self, head: CallHead) -> None:
        """Notes that a call is over; see `gates.Gate`."""
        with self._lock:
            self._callers[find_caller(head)].calls -= 1  # it is there: who has a call is not forgotten

    def _take(self, caller: _Caller) -> LimitError | None:
        if self._max_calls and caller.calls >= self._max_calls:
            return refuse_quota(f"{caller.calls} calls of this caller are under way, as many as one may have here")
        if self._rate and caller.tokens < 1:
            message = f"this caller has begun more calls than {self._rate:g} in a second, as many as one may here"
            return refuse_quota(message, (1 - caller.tokens) / self._rate)
        caller.calls += 1
        caller.tokens -= 1
        return None

    def _find(self, name: str) -> _Caller:
        """Returns a caller with the tokens that its bucket has gained."""
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
        """Forgets those that were first to come, where they have nothing, or there are too many."""
        for name, caller in [item for item, _ in zip(self._callers.items(), range(_LOOKS), strict=False)]:
            self._fill(caller, now)
            if caller.calls:
                self._callers.move_to_end(name)  # so that those behind it are looked at next time
            elif len(self._callers) >= MAX_CALLERS or not self._rate or caller.tokens == self._most_tokens:
                del self._callers[name]


def build_quotas(config: Config) -> tuple[CallerQuotas, ...]:
    """Returns the gate, where a quota is configured: without one there is none to be asked."""
    if not (config.max_calls_per_caller or config.max_calls_per_caller_per_second):
        return ()
    return (CallerQuotas(config.max_calls_per_caller, config.max_calls_per_caller_per_second),)


def find_caller(head: CallHead) -> str:
    """Returns whose a call is: no identity is taken for a host, nor a host for one."""
    if head.identity:
        return f"identity {head.identity}"
    address = head.address or find_address(head.peer)
    return _UNIX if is_shared(address) else address


def refuse_quota(message: str, retry_seconds: float | None = None) -> LimitError:
    """Returns the refusal of a call that is more than its caller may have; None: when to come again is not known."""
    refusal = LimitError.of(Reason.QUOTA_EXCEEDED, message)
    refusal.retry_seconds = retry_seconds
    return refusal
