"""How much one caller may have of a server."""

from dataclasses import dataclass
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration

_NO_QUOTA = "In each process. 0: no such limit."


@dataclass(frozen=True, kw_only=True)
class QuotaSettings:
    """What one caller may have: an identity, or where there is none, a host.

    There is no quota by default: a host may be a proxy with all callers behind it, and hosts share what there is fairly
    in any case.
    """

    trusted_proxy: Annotated[
        tuple[str, ...],
        Declaration(
            help="IP address or network of a proxy, or unix: for the unix sockets; may be repeated. The last address "
            "in the header x-forwarded-for of its calls is that of their caller, for quotas and fair shares. The "
            "header is ignored in all other calls.",
            metavar="ADDRESS",
        ),
    ] = ()

    max_calls_per_caller: Annotated[
        int, Declaration(help=f"Calls that one caller, an identity or else a host, has under way. {_NO_QUOTA}", least=0)
    ] = 0

    max_calls_per_caller_per_second: Annotated[
        float,
        Declaration(
            help=f"Calls that one caller begins in a second, on average; as many at once. {_NO_QUOTA}",
            least=0,
            most=1_000_000,
        ),
    ] = 0.0
