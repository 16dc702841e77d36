"""A fake has the results and errors of a client of a real server, unless a failure is requested."""

import inspect
from collections.abc import Callable

import grpc
import ml_dtypes
import numpy as np
import pytest

from both_clients import CLIENTS, FAKES, AnyClient, open_client
from remote_rejections import describe
from server_processes import ServerProcess
from tensor_reshape.client import (
    AsyncClient,
    CallTimeoutError,
    Client,
    InferredShape,
    LimitError,
    PackedTensor,
    Reason,
    ReshapeError,
    ServiceError,
    ShapeQuery,
    TensorReshapeError,
    UnavailableError,
)
from tensor_reshape.testing import AsyncFakeClient, FakeClient

SIX = np.arange(6, dtype=np.float32)
LARGE = np.arange(3 * 2**20, dtype=np.uint8)  # more than one message holds by default
TOO_LARGE = np.zeros(17 * 2**20, np.uint8)
QUERIES = [
    ShapeQuery(data_shape=["N", 4], shape=[0, -1], special_zero=True, explain=True),
    ShapeQuery(data_shape=[7], shape=[2, -1], special_zero=False, explain=True),
    ShapeQuery(data_from=0, shape=[-1], special_zero=False, operation="reshape"),
    ShapeQuery(data_from=1, shape=[-1], special_zero=False),
    ShapeQuery(data_shape=[2**64], shape=[-1], special_zero=False),
]
# The same call of each client. Both must have the same result or error.
CALLS: dict[str, Callable[[AnyClient], object]] = {
    "a reshape": lambda client: client.reshape(SIX, [2, -1]),
    "a static reshape": lambda client: client.static_reshape(SIX.reshape(2, 3), [0, -1], special_zero=True),
    "a dynamic reshape": lambda client: client.dynamic_reshape(SIX, np.array([3, 2], np.int32)),
    "bfloat16": lambda client: client.reshape(SIX.astype(ml_dtypes.bfloat16), [3, 2]),
    "elements below one byte": lambda client: client.reshape(np.ones(6, ml_dtypes.int4), [3, 2]),
    "packed elements": lambda client: client.reshape(PackedTensor("u1", [16], b"ab"), [4, -1]),
    "strides": lambda client: client.reshape(SIX.reshape(2, 3).T, [-1]),
    "a broadcast": lambda client: client.reshape(np.broadcast_to(SIX, (4, 6)), [-1]),
    "no elements": lambda client: client.reshape(np.zeros((4, 0, 2)), [-1, 0], special_zero=True),
    "an expected shape": lambda client: client.reshape(SIX, [2, -1], expected_shape=[None, 3]),
    "a stream": lambda client: client.reshape(LARGE, [3, -1]),
    "a stream of few elements": lambda client: client.reshape(SIX, [3, 2], transfer="stream"),
    "a stream with strides": lambda client: client.reshape(LARGE.reshape(3, -1).T, [-1]),
    "a view": lambda client: client.reshape(SIX, [3, 2], transfer="view"),
    "out": lambda client: client.reshape(SIX, [3, 2], out=np.zeros((3, 2), np.float32)),
    "a shape": lambda client: client.infer_shape(["N", 4], [0, -1], special_zero=True),
    "a shape of unknown rank": lambda client: client.infer_shape(None, [-1, 2]),
    "a batch": lambda client: client.infer_shapes(QUERIES),
    "a batch of several calls": lambda client: client.infer_shapes(QUERIES[:2] * 520),
    "no questions": lambda client: client.infer_shapes([]),
    "health": lambda client: client.check_health(),
    "health of the server": lambda client: client.check_health(""),
    "health of an unknown service": lambda client: client.check_health("nobody"),
    "a shape that a rule rejects": lambda client: client.infer_shape([6], [4, -1], explain=True),
    "an unexpected shape": lambda client: client.infer_shape([6], [-1], expected_shape=[5]),
    "a request that is too large": lambda client: client.reshape(TOO_LARGE, [-1], transfer="inline"),
    "an output that is too large": lambda client: client.reshape(
        np.broadcast_to(SIX, (2**22, 6)), [-1], transfer="inline"
    ),
}


def find_outcome(client: AnyClient, call: Callable[[AnyClient], object]) -> object:
    """Returns the result or the error of a call, in a form that can be compared."""
    try:
        return show(call(client))
    except (TensorReshapeError, TypeError, ValueError) as error:
        return show(error)


def show(outcome: object) -> object:
    shown = outcome
    match outcome:
        case list():
            shown = [show(item) for item in outcome]
        case np.ndarray():
            shown = outcome.dtype, outcome.shape, outcome.tobytes(), outcome.flags.writeable
        case PackedTensor():
            shown = outcome.data_type, outcome.dims, bytes(outcome.data)
        case InferredShape():
            shown = outcome.dims, outcome.conditions, outcome.origins, outcome.groups
        case ReshapeError():
            shown = *describe(outcome), outcome.message
        case Exception():
            shown = type(outcome), str(outcome)
    return shown


@pytest.mark.parametrize("fake", FAKES)
def test_fake_client_returns_the_results_of_a_server(server: ServerProcess, fake: str, monkeypatch: pytest.MonkeyPatch):
    with open_client(CLIENTS[FAKES.index(fake)], server.address) as real:
        expected = {name: find_outcome(real, call) for name, call in CALLS.items()}
    monkeypatch.setattr("grpc._cython.cygrpc.Channel", None)  # so no channel could connect
    with open_client(fake, "nobody:1") as client:
        for name, call in CALLS.items():
            assert find_outcome(client, call) == expected[name], name


def test_fake_client_has_the_limits_of_a_server(server: ServerProcess):
    with Client(server.address) as real, FakeClient() as fake:
        info, faked = real.server_info(), fake.server_info()
    assert (faked.version, faked.limits, faked.operations) == (info.version, info.limits, info.operations)


@pytest.mark.parametrize(("fake", "real"), [(FakeClient, Client), (AsyncFakeClient, AsyncClient)])
def test_fake_client_has_the_method_signatures_of_the_client(fake: type, real: type):
    assert issubclass(fake, real)
    names = [name for name in dir(real) if not name.startswith("_") or name == "__init__"]
    assert [
        name for name in names if inspect.signature(getattr(fake, name)) != inspect.signature(getattr(real, name))
    ] == []


ENDS: dict[str, Callable[[AnyClient], object]] = {
    "an array": lambda client: client.reshape(SIX, [2, 3]),
    "a stream": lambda client: client.reshape(LARGE, [-1]),
    "a shape": lambda client: client.infer_shape([6], [6]),
    "a batch": lambda client: client.infer_shapes(QUERIES),
    "health": lambda client: client.check_health(),
    "being ready": lambda client: client.wait_until_ready(),
}


@pytest.mark.parametrize("kind", FAKES)
@pytest.mark.parametrize("call", ENDS.values(), ids=ENDS)
def test_fake_client_fail_next_affects_only_one_call(kind: str, call: Callable[[AnyClient], object]):
    with open_client(kind, "nobody:1") as client:
        client.fail_next()
        with pytest.raises(UnavailableError, match="failure requested"):
            call(client)
        call(client)


@pytest.mark.parametrize("kind", FAKES)
def test_closed_fake_client_rejects_calls(kind: str):
    with open_client(kind, "nobody:1") as client:
        client._await(client._client.close())
        for call in ENDS.values():
            with pytest.raises(ValueError, match="closed"):
                call(client)


@pytest.mark.parametrize("kind", FAKES)
def test_fake_client_call_raises_the_error_given_to_fail_next(kind: str):
    error = LimitError.of(Reason.SERVER_BUSY, "busy")
    with open_client(kind, "nobody:1") as client:
        client.fail_next(error, times=2)
        for request_id in ("job-7", "job-8"):
            with pytest.raises(LimitError) as caught:
                client.infer_shape([6], [6], request_id=request_id)
            assert (caught.value.reason, caught.value.request_id) == (Reason.SERVER_BUSY, request_id)
        assert client.infer_shape([6], [6]) == (6,)


def test_fake_client_raises_errors_in_the_order_of_fail_next():
    with FakeClient() as client:
        for error in (OSError("first"), OSError("second")):
            client.fail_next(error)
        for text in ("first", "second"):
            with pytest.raises(OSError, match=text):
                client.check_health()


def test_fail_next_accepts_any_exception():
    with FakeClient() as client:
        for error in (OSError("the disk"), CallTimeoutError("late", grpc.StatusCode.DEADLINE_EXCEEDED)):
            client.fail_next(error)
            with pytest.raises(OSError, match=r"the disk|late"):  # Python's TimeoutError is an OSError
                client.server_info()
        for wrong in (UnavailableError, "UNAVAILABLE"):
            with pytest.raises(TypeError, match=r"^error is .*: write an exception, such as LimitError\.of\("):
                client.fail_next(wrong)  # type: ignore[arg-type] # the test passes invalid errors
        client.check_health()


def test_argument_error_does_not_consume_fail_next():
    with FakeClient() as client:
        client.fail_next()
        with pytest.raises(ReshapeError):
            client.reshape(SIX, [4], special_zero=False)
        with pytest.raises(ServiceError):
            client.reshape(SIX, [6], special_zero=False)


def test_fake_client_accepts_client_options_and_reports_progress():
    with FakeClient("host:1", timeout=5, inline_max_bytes=1, chunk_bytes=2) as client:
        assert not isinstance(client.reshape(SIX, [2, 3], special_zero=False).base, bytes)  # the array was streamed
        assert repr(client) == "<FakeClient of host:1>"
        with pytest.raises(ValueError, match="timeout"):
            client.infer_shape([1], [1], special_zero=False, timeout=-1)
        assert client.submit(client.infer_shape, [6], [-1], special_zero=False).result() == (6,)
    reports: list[tuple[int, int]] = []
    with FakeClient() as client:
        client.reshape(LARGE, [-1], special_zero=False, progress=lambda *report: reports.append(report))
    assert (reports[0], reports[-1]) == ((0, LARGE.nbytes), (LARGE.nbytes, LARGE.nbytes))
