"""Calls that their callers reset before they were answered, counted for each connection: who resets too many goes.

A reset costs its caller some bytes and makes room for the next call, so no limit of calls under way bounds how many
calls a connection has the server begin for nothing (CVE-2023-44487). Each connection has a bucket of tokens:

- It holds `BURST_SECONDS` times `rate`, at least `MIN_BURST`, and gains `rate` tokens a second. A reset takes a token,
  and who has none left is an offender. nghttp2 does so with 1000 tokens and 33 a second; Envoy closes a connection of
  which, after 500 calls, more than half were reset within a second each. The rate is nghttp2's; the burst is less,
  since each call that is begun takes this server much longer, and at any rate more than the 128 calls that a
  connection may end all at once.
- A call that is answered gives a token back. So a connection of which half of the calls are answered is no offender,
  however many it carries: that of a proxy, or of one who hedges calls and cancels those that lose.
- The reset of a call costs a fiftieth where its time was up, or less than `LATE_SECONDS` of it were left: so a client
  may have all its calls run out of time, 128 at once and each after 80 ms, as it happens to those who give a busy
  server too little time. Who names such a time in order to reset calls has 50 times the rate. It is a whole second for
  the sake of a server that was held up, its processor throttled or busy: that reads the head of a call together with
  its reset, with as much time left as the caller had set. One that was held up for longer may take such calls for
  resets.
- While an address is distrusted, because a connection from it was an offender, others that come from it have less than
  the least burst, and earn the rest by answers: also those that were there before, and had no reset to count. So
  each may still end all its 128 calls at once. Who connects anew after each burst has 128 calls begun by a connection
  instead of 144: how many connections there may be bounds that, not this. An address of IPv6 is its /64 network, of
  which a stranger has all addresses.
- A call with a message above the limit is refused by gRPC's core, which tells its caller why and this server that to
  receive has failed: it counts as nothing. With `--serving threads` it counts as a reset: grpcio passes on no more than
  that the caller is gone.
- A call that this server has given up or cancelled is no reset, nor is a stream of which an answer has gone, nor what
  ends while the server stops. All clients of one unix socket have one name, and are not counted; nor are calls of
  methods that nobody serves, which grpcio refuses by itself.
- A call that costs much too much makes its connection an offender by itself (`header_lists`), whatever the rate is.

Only connections that have reset a call have a bucket, and those of distrusted addresses: for all others, the end of a
call costs the question whether there is one.
"""

import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tensor_reshape.server.calls.accounts import is_shared

BURST_SECONDS = 3.0
"""What a bucket gains in so long, it holds."""

MIN_BURST = 144.0
"""What a bucket holds at least, in tokens."""

DISTRUSTED_TOKENS = 128.0
"""What a connection has that comes from a distrusted address, until it earns more: one for each call it may have."""

DISTRUST_SECONDS = 60.0
"""How long an address is distrusted after the last of its connections was closed."""

SILENCE_SECONDS = 2.0
"""How long nothing is heard of who has reset too many calls.

No longer: one that was taken for an offender by mistake is to know soon that it has to connect anew. To forget a
connection costs its peer nothing, so this bounds no stranger who knows of it; the limits of connections do.
"""

ACCUSED_SILENCE_SECONDS = 10.0
"""How long nothing is heard of who is accused because of one call, which is no mistake."""

LATE_TOKENS = 0.02
"""What the reset of a call costs whose time was up, or nearly."""

LATE_SECONDS = 1.0
"""How much of its time may be left to a call that counts as late.

Two clocks, the network and a server that was held up lie between. Longer is no gain for who resets calls: any time that
he may set is allowed him already.
"""

MAX_BUCKETS = 8192
"""Connections that are remembered, and addresses: a stranger can open any number of them. The first ones go."""

_V6_BEGINS = "ipv6:%5B"


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class ResetBuckets:
    """The buckets of all connections; safe to use from any thread.

    Attributes:
        hurry: called when a connection is accused for the first time, in the same thread: to have offenders looked at.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts with none; each gains `rate` tokens a second."""
        self.hurry: Callable[[], None] = lambda: None
        self._rate = rate
        self._burst = max(rate * BURST_SECONDS, MIN_BURST)
        self._clock = clock
        self._is_stopped = False
        self._lock = threading.Lock()  # guards all that follows; nothing is done under it but to count
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()  # by connection, the last to be used last
        self._distrusted: OrderedDict[str, float] = OrderedDict()  # until when, by address
        self._accused: OrderedDict[str, None] = OrderedDict()  # connections, in the order in which they were first
        self._offenders: dict[str, float] = {}  # since the last look, and how long to silence each

    def note_reset(self, peer: str, seconds_left: float) -> None:
        """Notes that a call was reset before it was answered.

        Args:
            peer: the name of the connection.
            seconds_left: until the time was up that the caller had set; infinite where it had set none.
        """
        if not peer or is_shared(peer) or self._is_stopped:
            return
        with self._lock:
            bucket = self._fill(peer)
            bucket.tokens -= LATE_TOKENS if seconds_left < LATE_SECONDS else 1.0
            if bucket.tokens < 0:  # again with each reset: it may not have been found
                self._offenders.setdefault(peer, SILENCE_SECONDS)
                self._distrust(find_address(peer))

    def accuse(self, peers: Collection[str]) -> None:
        """Takes connections for offenders because of one call each; a name that is empty is nobody's."""
        named = {peer for peer in peers if peer and not is_shared(peer)}
        if not named or self._is_stopped:
            return
        with self._lock:
            is_new = not named <= self._accused.keys()
            for peer in named:
                self._accused[peer] = None
                if len(self._accused) > MAX_BUCKETS:
                    self._accused.popitem(last=False)
                self._distrust(find_address(peer))
            self._offenders |= dict.fromkeys(named, ACCUSED_SILENCE_SECONDS)
        if is_new:  # else they have been: what they had sent before comes yet
            self.hurry()

    def stop(self) -> None:
        """Notes that the server stops: from now on it ends calls itself, and none is a reset."""
        self._is_stopped = True

    def note_answer(self, peer: str) -> None:
        """Notes that a call was answered; nearly all calls are of connections without a bucket, and go on at once."""
        if self._distrusted or peer in self._buckets:  # without the lock: both only begin to matter with a reset
            self._earn(peer)

    def take_offenders(self) -> dict[str, float]:
        """Returns the connections that have become offenders, or have gone on to be, since this was called last.

        With each comes for how many seconds nothing is to be heard of it until it is closed.
        """
        if not self._offenders:
            return {}
        with self._lock:
            taken, self._offenders = self._offenders, {}
        return taken

    def _earn(self, peer: str) -> None:
        with self._lock:
            now = self._clock()
            while self._distrusted and next(iter(self._distrusted.values())) < now:
                self._distrusted.popitem(last=False)
            is_distrusted = find_address(peer) in self._distrusted
            if is_distrusted or peer in self._buckets:
                bucket = self._fill(peer)
                bucket.tokens = min(self._burst, bucket.tokens + 1)
                if bucket.tokens == self._burst and not is_distrusted:
                    del self._buckets[peer]  # as if there had been no reset

    def _fill(self, peer: str) -> _Bucket:
        """Returns a connection's bucket with what it has gained."""
        now = self._clock()
        bucket = self._buckets.get(peer)
        if bucket is None:
            trusted = self._distrusted.get(find_address(peer), now) <= now
            bucket = self._buckets[peer] = _Bucket(self._burst if trusted else DISTRUSTED_TOKENS, now)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(peer)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at) * self._rate)
        bucket.filled_at = now
        return bucket

    def _distrust(self, address: str) -> None:
        self._distrusted[address] = self._clock() + DISTRUST_SECONDS
        self._distrusted.move_to_end(address)
        if len(self._distrusted) > MAX_BUCKETS:
            self._distrusted.popitem(last=False)


def find_address(peer: str) -> str:
    """Returns the address in a connection's name; of IPv6, its /64 network."""
    address = peer.rpartition(":")[0]
    if not address.startswith(_V6_BEGINS):
        return address
    host = address.removeprefix(_V6_BEGINS).removesuffix("%5D").partition("%25")[0]
    try:
        return socket.inet_pton(socket.AF_INET6, host)[:8].hex()
    except OSError:
        return address
