"""Finds the most helpful connection error if the target is a host name with several addresses.

gRPC reports the error of only one address, which is the address that failed last. For example, localhost means both
127.0.0.1 and ::1. If a server listens only on 127.0.0.1 and requires TLS, a client without TLS may get the error of
::1, which is "connection refused". Such an error is misleading, so this module calls the other addresses.
"""

import re
import socket
import time
from contextlib import closing, suppress
from urllib.parse import unquote

import grpc

from tensor_reshape.client.connections import FAILED_ADDRESS
from tensor_reshape.client.deadlines import LEAST_TIMEOUT_SECONDS
from tensor_reshape.client.errors import UnavailableError
from tensor_reshape.client.grpc_core import open_transport
from tensor_reshape.client.options import ChannelOptions, Endpoint, build_channel_options
from tensor_reshape.client.requests import build_health_check
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.wire.methods import SERVICE

_HOST_NAME = re.compile(r"(?:dns:(?:///)?)?([^:/\[\]]+):(\d+)")
# gRPC calls both addresses of localhost, even if the hosts file of the machine has only one of them.
_LOOPBACKS = {"localhost": ("127.0.0.1", "::1")}
_TOTAL_SECONDS = 1.0  # the time for all calls, most of which fail within milliseconds


def find_better_error(error: UnavailableError, endpoint: Endpoint, options: ChannelOptions) -> UnavailableError:
    """Returns the error of another address of the target if a server responds there, and otherwise `error`.

    The function makes connections, and takes at most a second. It sends no metadata, so it sends no tokens.

    Args:
        error: the error of a call, which may name an address that accepted no connection.
        endpoint: the target of the call, and the credentials.
        options: the channel options of the client.
    """
    failed, found = FAILED_ADDRESS.search(error.message), _HOST_NAME.fullmatch(endpoint.target)
    if failed is None or found is None:
        return error
    name, port = found.groups()
    # The certificate of a server contains the host name instead of the address.
    own = [("grpc.ssl_target_name_override", name), *options]
    end = time.monotonic() + _TOTAL_SECONDS
    for address in _list_addresses(name, port):
        if address.endswith(f":{unquote(failed[1])}"):
            continue
        seconds = max(end - time.monotonic(), LEAST_TIMEOUT_SECONDS)
        other = _call(address, endpoint, own, seconds)
        if isinstance(other, UnavailableError) and not FAILED_ADDRESS.search(other.message):
            return other
    return error


def _list_addresses(name: str, port: str) -> list[str]:
    """Returns the addresses of a host name in gRPC's notation."""
    hosts = dict.fromkeys(_LOOPBACKS.get(name, ()))
    with suppress(OSError):
        hosts |= dict.fromkeys(str(entry[4][0]) for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
    return [f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}" for host in hosts]


def _call(address: str, endpoint: Endpoint, options: ChannelOptions, seconds: float) -> TensorReshapeError | None:
    """Returns the error of a health check, or None if it succeeds."""
    merged = build_channel_options(endpoint.target, options, avoid_unhealthy=False)
    if endpoint.credentials is None:
        channel = grpc.insecure_channel(address, merged)
    else:
        channel = grpc.secure_channel(address, endpoint.credentials, merged)
    check = build_health_check(SERVICE)
    with closing(open_transport(channel, "public")) as transport:
        try:
            transport.send(check.method, check.request, seconds, ())
        except TensorReshapeError as error:
            return error
    return None
