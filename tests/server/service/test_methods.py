"""The methods over serialized messages: single queries, batches, and the server's info."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from plain_requests import begin
from tensor_reshape.client.queries import ShapeQuery, read_query
from tensor_reshape.rules import batches
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_HEADER_BYTES
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.server.config import Config
from tensor_reshape.server.process import pools
from tensor_reshape.server.process.pools import FairLock
from tensor_reshape.server.server_info import describe_server
from tensor_reshape.server.service import methods
from tensor_reshape.server.service.method_tables import WORK_THREADS, Work
from tensor_reshape.server.service.methods import ReshapeService, build_info_method
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire import batches as wire_batches
from tensor_reshape.wire import inference
from tensor_reshape.wire.batches import decode_batch_response, encode_batch_item, join_items
from tensor_reshape.wire.fields import encode_field
from tensor_reshape.wire.inference import build_infer_request
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE
from tensor_reshape.wire.servers import decode_server_info
from tests.oracles.round_trips import check_round_trips
from verification.prove import Wide, choose_request
from waits import WAIT_SECONDS, await_that, await_waiting

PLAIN = ShapeQuery(data_shape=["N", 12, 64], shape=[0, -1], special_zero=True)
REJECTED = ShapeQuery(data_shape=[2, 3], shape=[4, -1], special_zero=True)
ANOTHER = ShapeQuery(data_shape=["N", 12, 64], shape=[0, 768], special_zero=True)
SEARCHED = ShapeQuery(data_shape=[(0, 9), (0, 9)], shape=[None, 7, (2, 5)], special_zero=True)
LONG = ShapeQuery(data_shape=["N" * 1024, 4], shape=[0, -1], special_zero=True)
NO_BATCH = b"\xff"
QUERIES = {b"plain": PLAIN, b"rejected": REJECTED, b"searched": SEARCHED}
INFO_METHOD = build_info_method(describe_server(Config()))


@pytest.fixture
def service() -> ReshapeService:
    return ReshapeService(DEFAULT_LIMITS)


class RecordedLock(FairLock):
    """A fair lock that records the threads that give way. Each thread first waits until all others wait for it.

    Without this wait, a thread that is slow to wait for its next turn could be overtaken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []
        self.names: list[str] = []

    def give_way(self) -> None:
        self.names.append(threading.current_thread().name)
        await_that(lambda: len(self._waiting) >= sum(thread.is_alive() for thread in self.threads) - 1)
        super().give_way()


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> RecordedLock:
    """The lock of batches."""
    monkeypatch.setattr(pools, "SLICE_SECONDS", 0.0)  # each slice is over at once
    return RecordedLock()


@pytest.fixture
def shared(lock: RecordedLock) -> ReshapeService:
    """A service whose methods are called from several threads."""
    return ReshapeService(DEFAULT_LIMITS, make_turns=iter((FairLock(), lock)).__next__)


def build_request(query: ShapeQuery) -> bytes:
    return build_infer_request(read_query(query).request).SerializeToString()


def build_batch(queries: list[ShapeQuery]) -> bytes:
    return join_items([encode_batch_item(read_query(query)) for query in queries])


@examples(120)
@given(st.integers(0, 2**32))
def test_server_query_results_match_local_inference(seed: int):
    random = Random(seed)
    wide = Wide(random)
    items = [
        wide.choose_item(index) if random.random() < 0.5 else BatchItem(choose_request(random)[1]) for index in range(8)
    ]
    assert check_round_trips(items) == []


def test_running_batch_is_aborted_when_its_client_disconnects(service: ReshapeService):
    polls = iter([False, False, True])
    with pytest.raises(LimitError) as caught:
        service.infer_batch(build_batch([PLAIN] * 9), lambda: next(polls))
    assert caught.value.reason is Reason.STALLED


def test_small_batch_without_searches_is_executed_at_once(service: ReshapeService):
    batch = build_batch([PLAIN, REJECTED] * 8)
    assert service.infer_batch_light(batch) == service.infer_batch(batch)


def test_result_of_a_repeated_batch_item_is_not_computed_again(
    service: ReshapeService, monkeypatch: pytest.MonkeyPatch
):
    batch = build_batch([PLAIN, REJECTED])
    first = service.infer_batch_light(batch)
    with monkeypatch.context() as patch:
        patch.delattr(methods, "answer_light_item")
        assert service.infer_batch_light(batch) == first
        assert service.infer_batch_light(build_batch([ANOTHER])) is None


def test_result_of_a_long_batch_item_is_not_cached(service: ReshapeService, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire_batches, "encode_batch_result", lambda _: b"result")
    for size, is_cached in ((4096, True), (4097, False)):
        monkeypatch.setattr(wire_batches, "decode_batch_items", lambda _: iter([BatchItem(read_query(PLAIN).request)]))
        item = bytes(size - len(b"result"))
        assert service._find_item_result(item) == b"result"
        monkeypatch.setattr(
            wire_batches, "decode_batch_items", lambda _: iter([BatchItem(read_query(SEARCHED).request)])
        )
        assert service._find_item_result(item) == (b"result" if is_cached else None)


def test_small_batch_with_too_large_results_is_left_to_a_worker_thread():
    batch = build_batch([PLAIN, REJECTED] * 8)
    response = ReshapeService(DEFAULT_LIMITS).infer_batch(batch)
    results = reshape_pb2.BatchInferShapeResponse.FromString(response).results
    size = sum(result.ByteSize() for result in results)
    for limit, light in ((size, response), (size - 1, None)):
        assert ReshapeService(replace(DEFAULT_LIMITS, max_output_bytes=limit)).infer_batch_light(batch) == light
    service = ReshapeService(replace(DEFAULT_LIMITS, max_output_bytes=20))
    assert Reason.OUTPUT_TOO_LARGE in {
        error.reason for error in decode_batch_response(service.infer_batch(batch)) if isinstance(error, ReshapeError)
    }


def test_batch_of_1024_bytes_is_executed_at_once(service: ReshapeService):
    batch = build_batch([PLAIN])
    for size, is_light in ((1024, True), (1025, False)):
        unknown = encode_field(b"\x9a\x06", bytes(size - len(batch) - 4))  # a field of a newer client
        assert len(batch + unknown) == size
        assert (service.infer_batch_light(batch + unknown) == service.infer_batch(batch)) == is_light


@pytest.mark.parametrize("queries", [[PLAIN] * 17, [REJECTED, SEARCHED], [LONG]], ids=["items", "search", "bytes"])
def test_large_batch_is_left_to_a_worker_thread(service: ReshapeService, queries: list[ShapeQuery]):
    assert service.infer_batch_light(build_batch(queries)) is None


def test_message_of_a_disconnected_client_is_not_parsed(service: ReshapeService):
    for answer in (service.infer_shape, service.infer_batch):
        with pytest.raises(LimitError) as rejection:
            answer(NO_BATCH, lambda: True)
        assert rejection.value.reason == Reason.STALLED
        with pytest.raises(ReshapeError) as malformed:
            answer(NO_BATCH, lambda: False)
        assert malformed.value.reason == Reason.MESSAGE_MALFORMED


def test_concurrent_batches_are_processed_item_by_item_in_turn(shared: ReshapeService, lock: RecordedLock):
    def ask() -> None:
        shared.infer_batch(build_batch([PLAIN] * 4), lambda: False)

    lock.threads = [threading.Thread(target=ask, name=name, daemon=True) for name in "abc"]
    with lock:
        for count, thread in enumerate(lock.threads, 1):
            thread.start()
            await_waiting(lock, count)
    for thread in lock.threads:
        thread.join(WAIT_SECONDS)
    stages = 2 * 2  # before and after each item is decoded, and before and after it is solved
    assert len(lock.names) == 3 * 4 * stages
    assert "".join(lock.names) == "abc" * (len(lock.names) // 3)


def test_query_does_not_wait_for_a_running_batch(shared: ReshapeService, lock: RecordedLock):
    answers: SimpleQueue[bytes] = SimpleQueue()
    request = build_request(SEARCHED)
    with lock:
        threading.Thread(target=lambda: answers.put(shared.infer_shape(request)), daemon=True).start()
        assert answers.get(timeout=WAIT_SECONDS) == ReshapeService(DEFAULT_LIMITS).infer_shape(request)


def find_what_cannot_be_sent(*_: object) -> ShapeAnswer:
    return ShapeAnswer((2**64,))


def find_a_bug(*_: object) -> ShapeAnswer:
    message = "a secret"
    raise RuntimeError(message)


@pytest.mark.parametrize("bug", [find_what_cannot_be_sent, find_a_bug], ids=lambda bug: bug.__name__)
def test_exception_in_a_batch_is_logged_and_not_returned(
    service: ReshapeService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bug: Callable[..., ShapeAnswer],
):
    monkeypatch.setattr(batches, "answer_question", bug)
    with caplog.at_level(logging.ERROR):
        found = decode_batch_response(service.infer_batch(build_batch([PLAIN, REJECTED])))
    rejections = [(answer.reason, answer.message) for answer in found if isinstance(answer, ReshapeError)]
    assert rejections == [(Reason.INTERNAL_ERROR, "internal error")] * 2
    logged = {(one.message, bool(one.exc_info), vars(one)["method"]) for one in caplog.records}
    assert logged == {("bug", True, BATCH_INFER_SHAPE.path)}


class Asked(ReshapeService):
    """A service of the queries above.

    Attributes:
        read: the names that were decoded, in this order.
    """

    def __init__(self) -> None:
        super().__init__(DEFAULT_LIMITS)
        self.read: list[bytes] = []

    def decode(self, raw: bytes) -> ShapeRequest:
        self.read.append(raw)
        return read_query(QUERIES[raw.strip()]).request


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    service = Asked()
    monkeypatch.setattr(inference, "decode_infer_request", service.decode)
    monkeypatch.setattr(inference, "encode_infer_response", lambda answer: str(answer.dims).encode())
    return service


def test_query_result_is_equal_on_the_receiving_and_worker_threads(asked: Asked):
    assert asked.infer_shape_light(b"plain") == ReshapeService(DEFAULT_LIMITS).infer_shape(b"plain")


def test_repeated_query_is_answered_without_decoding(asked: Asked):
    for ask in (asked.infer_shape_light, asked.infer_shape):
        assert ask(b"plain") == ask(b"plain")
    assert asked.read == [b"plain"]
    assert (asked.lookups.misses, asked.lookups.hits) == (1, 3)


def test_result_of_a_long_query_is_not_cached(asked: Asked):
    size = 4096 - len(asked.infer_shape(b"plain"))
    for raw, reads in ((b"plain".ljust(size), 1), (b"plain".ljust(size + 1), 2)):
        asked.read.clear()
        assert asked.infer_shape(raw) == asked.infer_shape(raw)
        assert len(asked.read) == reads


def test_ten_thousand_query_results_are_cached(asked: Asked, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference, "decode_infer_request", lambda _: asked.decode(b"plain"))
    monkeypatch.setattr(inference, "encode_infer_response", lambda _: bytes(40))
    for _ in range(2):
        for number in range(10_000):
            asked.infer_shape(number.to_bytes(60))
    assert (asked.lookups.misses, asked.lookups.hits) == (10_000, 10_000)


def test_query_error_is_not_cached(asked: Asked):
    for ask in (asked.infer_shape_light, asked.infer_shape_light, asked.infer_shape):
        with pytest.raises(ValueError, match="divisible"):
            ask(b"rejected")
    assert asked.read == [b"rejected"] * 3


def test_query_that_needs_a_search_runs_on_a_thread(asked: Asked):
    assert asked.infer_shape_light(b"searched") is None
    result = asked.infer_shape(b"searched")
    assert asked.infer_shape_light(b"searched") == result


def test_query_above_4_kib_is_passed_to_a_thread_undecoded(asked: Asked):
    assert asked.infer_shape_light(b"plain".ljust(4097)) is None
    assert asked.read == []
    assert asked.infer_shape_light(b"plain".ljust(4096)) is not None


def test_each_method_has_its_kind_of_long_work(service: ReshapeService):
    (stream,) = service.methods.streams
    kinds = {method.name.rpartition("/")[2]: method.find_work(b"") for method in service.methods.unary}
    kinds["StreamReshape"] = stream.find_work(b"")
    tensors = dict.fromkeys(("StaticReshape", "DynamicReshape", "Reshape", "StreamReshape"), Work.TENSORS)
    assert kinds == {**tensors, "InferShape": Work.QUERIES, "BatchInferShape": Work.BATCHES}


def test_stream_method_opens_a_stream_with_the_limits_of_the_service():
    held: list[int] = []
    (stream,) = ReshapeService(replace(DEFAULT_LIMITS, max_output_bytes=5)).methods.streams
    with pytest.raises(LimitError):
        [*stream.open(held.append).receive(begin((6,), (-1,), (1,)))]
    assert [*stream.open(held.append).receive(begin((5,), (-1,), (1,)))]
    assert held == [5 + 3 * 5]


def test_only_work_that_runs_in_parallel_has_more_than_8_threads():
    assert WORK_THREADS == {Work.TENSORS: 16, Work.QUERIES: 8, Work.BATCHES: 8, Work.NUMBERS: 1}


def test_server_info_method_returns_the_info_of_the_server():
    answer = INFO_METHOD.respond_light(b"")
    assert answer is not None
    assert decode_server_info(answer) == describe_server(Config())
    assert INFO_METHOD.respond_light(b"\x0a\x01x") == answer  # an unknown field of a newer client


def test_malformed_or_oversized_server_info_request_is_rejected():
    for request in (b"\xff", b"\x0a\x02x"):
        with pytest.raises(ReshapeError):
            INFO_METHOD.respond_light(request)
    with pytest.raises(LimitError):
        INFO_METHOD.respond_light(b"\xff" * (MAX_HEADER_BYTES + 1))
