"""Detection of local addresses."""

from tensor_reshape.runtime.addresses import is_local

LOCAL = [
    "localhost",
    "localhost:50051",
    "LocalHost.:50051",
    "127.0.0.1:50051",
    "127.8.9.1:50051",
    "[::1]:50051",
    "::1",
    "[::ffff:127.0.0.1]:1",
    "dns:localhost:1",
    "dns:///localhost:50051",
    "dns:///[::1]:50051",
    "dns://8.8.8.8/localhost:50051",
    "dns:/localhost:50051",
    "ipv4:127.0.0.1:1?/10.0.0.1",
    "ipv4:127.0.0.1:1,127.0.0.2:2",
    "ipv6:[::1]:1",
    "ipv6:%5B::1%5D:1",
    "unix:/run/server.sock",
    "unix:///run/server.sock",
    "unix:server.sock",
    "unix-abstract:server",
]
REMOTE = [
    "reshape.example",
    "reshape.example:50051",
    "localhost.example:50051",
    "10.0.0.1:50051",
    "0.0.0.0:50051",
    "[fe80::1]:50051",
    "[::ffff:10.0.0.1]:1",
    "dns:///reshape.example:50051",
    "dns://127.0.0.1/reshape.example:50051",
    "ipv4:127.0.0.1:1,10.0.0.1:2",
    "xds:///localhost",
    "ipv4:10.0.0.1:1#/127.0.0.1",
    "ipv4:10.0.0.1:1?/127.0.0.1",
    "ipv4:10.0.0.1:1/127.0.0.1",
    "dns:reshape.example:1/localhost",
    "dns:///reshape.example/localhost",
    "",
]


def test_only_loopback_and_unix_socket_addresses_count_as_local():
    assert [target for target in LOCAL + REMOTE if is_local(target)] == LOCAL
