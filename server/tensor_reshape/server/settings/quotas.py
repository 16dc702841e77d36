"""Settings that limit each caller."""

from dataclasses import dataclass
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration

_NO_QUOTA = "The limit applies in each process. 0 = no limit."


@dataclass(frozen=True, kw_only=True)
class QuotaSettings:
    """Limits of each caller.

    A caller is an identity, or a host if clients do not authenticate. By default, callers have no quota, because a host
    may be a proxy for all clients. Even without quotas, the hosts share the capacity of the server fairly.
    """

    trusted_proxy: Annotated[
        tuple[str, ...],
        Declaration(
            help="IP address or network of a trusted proxy, or unix: for unix sockets. You can repeat the option. For "
            "calls from such a proxy, quotas and fair sharing use the last address in x-forwarded-for as the address "
            "of the caller. The server ignores this header in other calls.",
            metavar="ADDRESS",
        ),
    ] = ()

    max_calls_per_caller: Annotated[
        int, Declaration(help=f"Maximum number of running calls of one caller. {_NO_QUOTA}", least=0)
    ] = 0

    max_calls_per_caller_per_second: Annotated[
        float,
        Declaration(
            help="Maximum average number of calls that one caller may start per second. A caller may start this "
            f"number of calls at once. {_NO_QUOTA}",
            least=0,
            most=1_000_000,
        ),
    ] = 0.0
