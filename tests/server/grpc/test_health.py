"""The health responses of the server, without a socket."""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2

from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.calls.statuses import StatusError
from tensor_reshape.server.grpc.health import HEALTH_SERVICE, MAX_WATCHES_PER_CONNECTION, Health, HealthWatch
from tensor_reshape.wire.methods import SERVICE

SOURCE = find_source("ipv4:127.0.0.1:1")
SERVING, NOT_SERVING, UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def build_request(service: str = "") -> bytes:
    return bytes(health_pb2.HealthCheckRequest(service=service).SerializeToString())


def open_watch(health: Health, request: bytes = b"", notify: Callable[[], None] = lambda: None) -> HealthWatch:
    return health.open_watch(request, notify, SOURCE)


@pytest.mark.parametrize("service", ["", SERVICE])
def test_health_status_is_serving_until_the_server_stops(service: str):
    health = Health()
    assert health.check(build_request(service)) == SERVING
    health.stop_serving()
    assert health.check(build_request(service)) == NOT_SERVING


def test_health_check_of_an_unknown_service_is_not_found():
    with pytest.raises(StatusError) as caught:
        Health().check(build_request("another"))
    assert caught.value.status.code == "NOT_FOUND"


def test_health_definition_contains_that_of_grpcio_health_checking():
    own, published = FileDescriptorProto(), FileDescriptorProto()
    HEALTH_SERVICE.file.CopyToProto(own)
    health_pb2.DESCRIPTOR.CopyToProto(published)
    assert (own.package, own.name) == (published.package, "grpc/health/v1/health.proto")
    # Older releases of the package have no List, and generated modules have no JSON names.
    messages = {re.sub(' *json_name: ".*"\n', "", str(message)) for message in own.message_type}
    assert set(map(str, published.message_type)) <= messages
    assert [method for method in published.service[0].method if method not in own.service[0].method] == []


@pytest.mark.parametrize("respond", [Health.check, Health.list, open_watch], ids=["check", "list", "watch"])
def test_malformed_health_check_message_is_rejected(respond: Callable[[Health, bytes], object]):
    with pytest.raises(ReshapeError):
        respond(Health(), b"\xff")


def test_health_watch_sends_each_status_once():
    health = Health()
    watch = open_watch(health)
    assert (watch.find_update(), watch.find_update()) == (SERVING, None)
    health.stop_serving()
    assert (watch.find_update(), watch.find_update(), watch.is_over) == (NOT_SERVING, None, False)
    health.end_watches()
    assert (watch.find_update(), watch.is_over) == (None, True)


def test_health_watch_of_an_unknown_service_sends_service_unknown():
    assert open_watch(Health(), build_request("another")).find_update() == UNKNOWN


def test_only_open_health_watches_are_notified():
    health, looks = Health(), Counter[str]()
    for name in ("stays", "leaves"):
        watch = open_watch(health, notify=partial(looks.update, [name]))
    watch.close()
    health.stop_serving()
    health.end_watches()
    assert looks == {"stays": 2}


def test_number_of_health_watches_per_connection_is_limited():
    health = Health()
    watches = [open_watch(health) for _ in range(MAX_WATCHES_PER_CONNECTION)]
    with pytest.raises(LimitError) as caught:
        open_watch(health)
    assert caught.value.reason == Reason.SERVER_BUSY
    watches[0].close()
    open_watch(health)


def fails() -> None:
    message = "a secret"
    raise RuntimeError(message)


def test_failing_health_watch_does_not_stop_other_notifications(caplog: pytest.LogCaptureFixture):
    health, looks = Health(), Counter[str]()
    for look in (fails, partial(looks.update, ["looks"])):
        open_watch(health, notify=look)
    health.stop_serving()
    assert (looks["looks"], [record.message for record in caplog.records]) == (1, ["bug"])
