"""Settings that limit each caller."""

from dataclasses import dataclass
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration

_NO_QUOTA = "The limit applies in each process. 0 = no limit."


@dataclass(frozen=True, kw_only=True)
class QuotaSettings:
    """Limits of each caller.

    A caller is an identity, or a host if callers do not authenticate. There is no quota by default, because a host may
    be a proxy for all callers. Hosts share the capacity fairly in any case.
    """

    trusted_proxy: Annotated[
        tuple[str, ...],
        Declaration(
            help="IP address or network of a proxy, or unix: for unix sockets; may be repeated. For calls from these "
            "addresses, the last address in x-forwarded-for is the caller's, for quotas and fair sharing. The "
            "header of other calls is ignored.",
            metavar="ADDRESS",
        ),
    ] = ()

    max_calls_per_caller: Annotated[
        int, Declaration(help=f"Maximum number of running calls of one caller. {_NO_QUOTA}", least=0)
    ] = 0

    max_calls_per_caller_per_second: Annotated[
        float,
        Declaration(
            help="Maximum average number of calls that one caller may start per second. It may start as many at once. "
            f"{_NO_QUOTA}",
            least=0,
            most=1_000_000,
        ),
    ] = 0.0
