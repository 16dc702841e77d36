"""Room that connections share: what one takes, what it may still take, and which is next.

- Whoever finds no room waits. Room is given to connections round-robin, and within one in the order of its claims.
- Above a part of the pool, room is for connections that have nothing of it, so that those that have much cannot keep
  them out, however many of them there are within reason.
- One connection has at most its share. All clients of one unix socket have one name; they share as they like.
- Where nobody has anything, a claim is granted whatever it is: else one larger than the pool would wait for ever.

Nothing here locks, and every step costs the same however many wait. `admission` decides what is claimed.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass


class Account:
    """One connection's part of a pool.

    Attributes:
        name: of the connection.
        share: what it may have.
        used: the bytes that it has.
        claims: those that wait.
    """

    __slots__ = ("claims", "name", "share", "used")

    def __init__(self, name: str, share: int) -> None:
        """Starts with nothing: so it is made anew for each call of a connection that makes one at a time."""
        self.name = name
        self.share = share
        self.used = 0
        self.claims = _NO_CLAIMS  # until there is one: most accounts never have any


@dataclass(slots=True, eq=False)
class Claim:
    """A wish for room.

    Attributes:
        size: in bytes.
        grant: called with the lock of the admission when the room is theirs; returns what is to be done without it.
        account: whose it is.
        pool: where it waits.
    """

    size: int
    grant: Callable[[], Callable[[], None]]
    account: Account
    pool: "Pool"

    def withdraw(self) -> None:
        """Takes it back."""
        self.pool.withdraw(self)


_NO_CLAIMS: deque[Claim] = deque(maxlen=0)


class Pool:
    """So many bytes for all connections.

    Attributes:
        used: the bytes that they have, all of them together.
        is_short: whether a connection waits that is within its share.
    """

    def __init__(self, limit: int, ceiling: int, share: int) -> None:
        """Starts with all of it free.

        Args:
            limit: what all may have together.
            ceiling: up to where connections may take more when they have something.
            share: what one connection may have.
        """
        self._limit = limit
        self._ceiling = ceiling
        self._share = share
        self._accounts: dict[str, Account] = {}  # by name; of connections that have something, or wait
        # Accounts with claims that are within their share; the others wait for their own connection alone.
        self._newcomers: OrderedDict[str, Account] = OrderedDict()
        self._holders: OrderedDict[str, Account] = OrderedDict()
        self.used = 0
        self.is_short = False  # kept, not worked out: every call asks for it several times, and hardly any changes it

    def find_account(self, name: str) -> Account:
        """Returns the account of a connection; one that has nothing, and waits for nothing, is not kept."""
        return self._accounts.get(name) or self._open_account(name)

    def fits(self, account: Account, size: int) -> bool:
        """Whether the connection may have so many bytes more, now."""
        if self.used == 0:
            return True  # also what is larger than the pool: it would wait for ever
        if account.used == 0:
            return self.used + size <= self._limit
        return account.used + size <= account.share and self.used + size <= self._ceiling

    def change(self, name: str, size: int) -> None:
        """Notes that a connection has `size` bytes more, or fewer."""
        self._change(self._accounts.get(name) or self._open_account(name), size)

    def take(self, name: str, size: int) -> bool:
        """Gives a connection room where no claim that waits comes first, and returns whether it did."""
        account = self._accounts.get(name) or self._open_account(name)
        others_wait = self._newcomers or (account.used and self._holders)
        if account.claims or others_wait or not self.fits(account, size):
            return False
        self._change(account, size)
        return True

    def claim(self, name: str, size: int, grant: Callable[[], Callable[[], None]]) -> Claim:
        """Has a connection wait for room, behind what it waits for already."""
        account = self.find_account(name)
        claim = Claim(size, grant, account, self)
        if not account.claims:
            account.claims = deque()
        account.claims.append(claim)
        self._place(account)
        return claim

    def withdraw(self, claim: Claim) -> None:
        """Takes a claim back."""
        claim.account.claims.remove(claim)
        self._place(claim.account)

    def grant(self) -> list[Callable[[], None]]:
        """Grants what there is room for; returns what is to be done without the lock."""
        granted = []
        for queue in (self._newcomers, self._holders):
            while queue:
                account = next(iter(queue.values()))  # that of the connection which is next
                if not self.fits(account, account.claims[0].size):
                    break
                claim = account.claims.popleft()
                self._change(account, claim.size)
                self._place(account)
                # That may have moved it: one that had nothing has something now.
                if account.name in queue:
                    queue.move_to_end(account.name)
                granted.append(claim.grant())
            if queue:
                break  # who has nothing is not overtaken by a smaller claim of one who has
        return granted

    @property
    def newcomers(self) -> int:
        """How many connections wait that have nothing."""
        return len(self._newcomers)

    def _open_account(self, name: str) -> Account:
        return Account(name, self._ceiling if is_shared(name) else self._share)

    def _change(self, account: Account, size: int) -> None:
        account.used += size
        self.used += size
        if account.claims:
            self._place(account)
        elif account.used:  # it is in no queue: it left when its last claim did
            self._accounts[account.name] = account
        else:
            self._accounts.pop(account.name, None)

    def _place(self, account: Account) -> None:
        """Puts an account into the queue that it belongs to, if to any: at its end, unless it is there already.

        To be called whenever its claims have changed, and while it has any, whenever it has more or less.
        """
        if account.used or account.claims:
            self._accounts[account.name] = account
        else:
            self._accounts.pop(account.name, None)
        belongs = self._find_queue(account)
        for queue in (self._newcomers, self._holders):
            if queue is belongs:
                queue.setdefault(account.name, account)
            else:
                queue.pop(account.name, None)
        self.is_short = bool(self._newcomers or self._holders)

    def _find_queue(self, account: Account) -> OrderedDict[str, Account] | None:
        if not account.claims:
            return None
        if account.used == 0:
            return self._newcomers
        return self._holders if account.used + account.claims[0].size <= account.share else None


def is_shared(name: str) -> bool:
    """Whether a connection's name is that of all clients of a unix socket: no share can be one client's there."""
    return name.startswith("unix")
