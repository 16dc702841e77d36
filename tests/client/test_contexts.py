"""What is sent beside the message of one call, and what its errors carry; by both clients."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import grpc
import numpy as np
import pytest

from both_clients import CALLERS, AnyClient, open_client
from in_process import lose_once, run_runner, run_stock
from tensor_reshape.client import ReshapeError, ResponseError, ServiceError, ShapeQuery, TensorReshapeError
from tensor_reshape.client.contexts import CALL_OPTIONS, CallOptions, ClientContext, build_metadata, check_metadata
from tensor_reshape.client.deadlines import Deadline
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.batches import encode_batch_response
from tensor_reshape.wire.inference import build_infer_response
from tensor_reshape.wire.request_ids import REQUEST_ID_KEY

SIX = np.arange(6, dtype=np.float32)
PAIR = ("tenant", "a")
NAMED: dict[str, Any] = {"metadata": [PAIR], "request_id": "call-7"}
SENT = {PAIR, (REQUEST_ID_KEY, "call-7")}

Ask = Callable[[AnyClient, Mapping[str, Any]], object]
ASKED: dict[str, Ask] = {
    "inline": lambda client, how: client.reshape(SIX, [2, 3], **how),
    "stream": lambda client, how: client.reshape(SIX, [2, 3], transfer="stream", **how),
    "view": lambda client, how: client.static_reshape(SIX, [2, 3], transfer="view", **how),
    "infer": lambda client, how: client.infer_shape([6], [2, 3], **how),
    "batch": lambda client, how: client.infer_shapes(
        [ShapeQuery(data_shape=[6], shape=[2, 3], special_zero=False)], **how
    ),
    "health": lambda client, how: client.check_health(**how),
}
REFUSED: dict[str, Ask] = {
    "infer": lambda client, how: client.infer_shape([6], [4], **how),
    "stream": lambda client, how: client.reshape(np.zeros((2, 2), np.float32), [4], transfer="stream", **how),
}


class Recorder(grpc.ServerInterceptor):
    """Keeps the metadata of the calls that the client makes."""

    def __init__(self) -> None:
        self.calls: list[set[tuple[str, str | bytes]]] = []

    def intercept_service(  # type: ignore[override] # whatever comes next is passed on
        self, continuation: Callable[..., object], handler_call_details: grpc.HandlerCallDetails
    ) -> object:
        if not handler_call_details.method.endswith("/Watch"):  # which gRPC's core makes by itself, of the health
            self.calls.append(set(cast("list[tuple[str, str | bytes]]", handler_call_details.invocation_metadata)))
        return continuation(handler_call_details)


@pytest.fixture(params=CALLERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def recorded(recorder: Recorder) -> Iterator[str]:
    """A server that answers InferShape and batches alone, and keeps what it is sent of all calls."""
    answer = ShapeAnswer((2, 3))
    methods = {
        "InferShape": lambda *_: build_infer_response(answer).SerializeToString(),
        "BatchInferShape": lambda *_: encode_batch_response([answer], 2**20),
    }
    with run_stock(methods, interceptors=[recorder]) as address:
        yield address


@pytest.mark.parametrize("asked", ASKED)
def test_every_call_takes_metadata_and_a_request_id_behind_those_of_the_client(
    kind: str, asked: str, recorder: Recorder, recorded: str
):
    # Most are not implemented there, but sent, which is enough.
    with open_client(kind, recorded, metadata=[("of", "all")]) as client, suppress(ServiceError):
        ASKED[asked](client, NAMED)
    assert recorder.calls
    assert all({("of", "all"), *SENT} <= sent for sent in recorder.calls)


def test_what_one_call_sends_no_other_does(kind: str, recorder: Recorder, recorded: str):
    with open_client(kind, recorded) as client:
        ASKED["infer"](client, NAMED)
        ASKED["infer"](client, {})
    assert [SENT & sent for sent in recorder.calls] == [SENT, set()]


def test_all_attempts_of_a_call_have_its_request_id(kind: str, recorder: Recorder):
    answer = build_infer_response(ShapeAnswer((2, 3))).SerializeToString()
    lossy = {"InferShape": lose_once(answer, [])}
    with run_stock(lossy, interceptors=[recorder]) as address, open_client(kind, address) as client:
        ASKED["infer"](client, NAMED)
    assert [sent >= SENT for sent in recorder.calls].count(True) == 2


def refuse(request_id: str, _: bytes, context: grpc.ServicerContext) -> bytes:
    """Serves a call that ends badly, and is told this id."""
    context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
    context.abort(grpc.StatusCode.INTERNAL, "no")


def test_an_error_has_the_id_that_the_server_returns(kind: str):
    with run_stock({"InferShape": partial(refuse, "of-the-server")}) as address, open_client(kind, address) as client:
        with pytest.raises(ServiceError) as caught:
            ASKED["infer"](client, {})
        assert caught.value.request_id == "of-the-server"


def test_what_a_server_returns_is_not_taken_for_an_id_where_it_is_none(kind: str):
    with run_stock({"InferShape": partial(refuse, "a b")}) as address, open_client(kind, address) as client:
        with pytest.raises(ServiceError) as caught:
            ASKED["infer"](client, NAMED)
        assert caught.value.request_id == "call-7"


def test_a_refusal_of_the_real_server_has_the_id_of_its_call(kind: str):
    with run_runner() as runner, open_client(kind, runner.addresses[0]) as client:
        with pytest.raises(ReshapeError) as caught:
            REFUSED["infer"](client, NAMED)
        assert caught.value.request_id == "call-7"


def test_an_answer_that_cannot_be_read_has_the_id_of_its_call(kind: str):
    with run_stock({"InferShape": lambda *_: b"\xff"}) as address, open_client(kind, address) as client:
        with pytest.raises(ResponseError) as caught:
            ASKED["infer"](client, NAMED)
        assert caught.value.request_id == "call-7"
        assert caught.value.__cause__ is not None


def test_what_is_refused_before_it_is_sent_has_no_id(kind: str):
    with open_client(kind, "127.0.0.1:1") as client, pytest.raises(ReshapeError) as caught:
        client.reshape(SIX, [4], **NAMED)
    assert caught.value.request_id is None


@pytest.mark.parametrize("name", ["check_health", "infer_shapes", "infer_shape", "reshape"])
def test_an_option_that_there_is_not_is_named_with_the_nearest(kind: str, name: str):
    arguments: dict[str, tuple[object, ...]] = {
        "check_health": (),
        "infer_shapes": ([],),
        "infer_shape": ([6], [6]),
        "reshape": (SIX, [6]),
    }
    with (
        open_client(kind, "127.0.0.1:1") as client,
        pytest.raises(TypeError, match=rf"{name}\(\) got .*'request_ids'. Did you mean 'request_id'"),
    ):
        getattr(client, name)(*arguments[name], request_ids="x")


@pytest.mark.parametrize("request_id", ["", "a b", "a\nb", "a" * 129, "\u00e4"])
def test_a_request_id_that_is_none_is_refused(request_id: str):
    with pytest.raises(ValueError, match="request_id"):
        build_metadata(CallOptions(request_id=request_id))


def test_a_call_has_one_request_id():
    with pytest.raises(ValueError, match="besides"):
        build_metadata(CallOptions(request_id="a", metadata=[(REQUEST_ID_KEY, "b")]))


def test_the_metadata_may_hold_the_request_id():
    error = TensorReshapeError()
    with (
        pytest.raises(TensorReshapeError),
        ClientContext(Deadline(1), build_metadata({"metadata": [(REQUEST_ID_KEY, "b")]})),
    ):
        raise error
    assert error.request_id == "b"


def test_an_error_of_something_else_is_left_as_it_is():
    with pytest.raises(KeyError), ClientContext(Deadline(1), ((REQUEST_ID_KEY, "b"),)):
        raise KeyError


def test_the_options_of_a_call_are_those_that_are_documented():
    assert all(f"{name}: " in str(CallOptions.__doc__) for name in CALL_OPTIONS)


@pytest.mark.parametrize(
    "pair", [("Bad Key", "x"), ("", "x"), ("key", "a\nb"), ("key", b"x"), ("key-bin", "x"), ("key", "\u00e4")], ids=str
)
def test_metadata_that_grpc_cannot_send_is_refused(pair: tuple[str, str | bytes]):
    with pytest.raises(ValueError, match="metadata"):
        check_metadata([pair])


@pytest.mark.parametrize("metadata", [{"tenant": "a"}, "tenant=a", 5], ids=["a dict", "text", "a number"])
def test_metadata_that_are_no_pairs_say_what_to_write_and_are_not_shown(metadata: object):
    with pytest.raises(
        TypeError, match=r"^metadata is of the type (dict|str|int): write pairs, as \[\('key', 'value'\)\]$"
    ):
        check_metadata(metadata)  # type: ignore[arg-type] # that is the point


def test_metadata_that_can_be_read_only_once_are_sent_all_the_same():
    assert check_metadata(iter([PAIR])) == (PAIR,)  # type: ignore[arg-type] # no sequence


def test_metadata_that_grpc_can_send_are_kept():
    pairs = (("x-key", "value, with more"), ("trace-bin", b"\x00\xff"))
    assert check_metadata(pairs) == pairs
