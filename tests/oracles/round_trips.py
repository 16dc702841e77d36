"""Round trips of queries, single and in a batch, compared with `infer_locally`.

Any exception that is not a rejection is a failure, because every query must have a result or a rejection.
"""

from collections.abc import Sequence
from itertools import zip_longest

from tensor_reshape.client import InferredShape, ShapeQuery, infer_locally
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import Dim, format_dims
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_HEADER_BYTES
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.wire.batches import decode_batch_response, encode_batch_item, join_items
from tensor_reshape.wire.inference import build_infer_request, decode_infer_response
from tensor_reshape.wire.status import decode_rejection, encode_rejection

Result = ShapeAnswer | InferredShape | ReshapeError


def check_round_trips(items: Sequence[BatchItem], step: int = 1) -> list[str]:
    """Returns the differences of each item. A batch has all items, and every `step`-th one is also a single query."""
    service = ReshapeService(DEFAULT_LIMITS)
    items = [item for item in items if len(encode_batch_item(item)) <= MAX_HEADER_BYTES]
    try:
        local = infer_locally([make_query(item) for item in items])
        remote = decode_batch_response(service.infer_batch(join_items([encode_batch_item(item) for item in items])))
    except Exception as error:  # noqa: BLE001 - every exception is reported
        alone = [problem for item in items for problem in check_round_trips([item])] if len(items) > 1 else []
        return alone or [f"{' and '.join(map(format_item, items))}: {error!r}"]
    problems = []
    for index, (item, ours, theirs) in enumerate(zip_longest(items, local, remote)):
        answers = {"locally": ours, "in a batch": theirs}
        if item.data_from is None and index % step == 0:
            answers |= ask_alone(service, item.request)
        shown = {describe(answer) for answer in answers.values()}
        if len(shown) > 1:
            problems.append(
                f"{format_item(item)}: " + "; ".join(f"{name} {describe(each)}" for name, each in answers.items())
            )
    return problems


def ask_alone(service: ReshapeService, request: ShapeRequest) -> dict[str, Result | Exception | None]:
    """Returns the answers to one query, by their source."""
    raw = build_infer_request(request).SerializeToString()
    answers: dict[str, Result | Exception | None] = {}
    for name, ask in (("by a thread", service.infer_shape), ("at once", service.infer_shape_light)):
        try:
            response = ask(raw)
            if response is not None:
                answers[name] = decode_infer_response(response)
        except ReshapeError as error:
            status = encode_rejection(error)
            answers[name] = decode_rejection(status.code, status.trailing_metadata)
        except Exception as error:  # noqa: BLE001 - every exception is reported
            answers[name] = error
    return answers


def make_query(item: BatchItem) -> ShapeQuery:
    """Returns an item as an argument of the SDK."""
    (operation, data, target, special_zero, data_type, expected), explain = item.request
    return ShapeQuery(
        data_shape=data,
        shape=target,
        special_zero=special_zero,  # type: ignore[arg-type] # None must be rejected
        operation=operation.name,
        expected_shape=expected,
        data_type=data_type,
        explain=explain,
        data_from=item.data_from,
    )


def format_item(item: BatchItem) -> str:
    """Returns the text of an item in one line."""
    question, explain = item.request
    dims = [*(question.data or ()), *(question.target or ()), *(question.expected or ())]
    terms = [dim.expression for dim in dims if isinstance(dim, Dim) and dim.expression is not None]
    symbols = {
        f"{one.name}:{one.bounds[:]}" for expression in terms for one in (*expression.factors, *expression.divisors)
    }
    named = {f"{dim}:{dim.bounds[:]}" for dim in dims if isinstance(dim, Dim) and dim.expression is not None}
    shapes = f"{format_dims(question.data)} -> {format_dims(question.target)}"
    rest = f"special_zero {question.special_zero}, type {question.data_type}, explain {explain}"
    expected = "" if question.expected is None else f" expected {format_dims(question.expected)},"
    names = " ".join(sorted(named | symbols))
    return f"{question.operation.name} {shapes},{expected} {rest}, data_from {item.data_from} {names}".rstrip()


def describe(result: Result | Exception | None) -> object:
    """Returns the parts of a result that a caller sees."""
    if isinstance(result, ReshapeError):
        values = tuple(sorted(result.metadata.items()))
        return type(result).__name__, str(result.reason), result.message, result.field, values
    if isinstance(result, ShapeAnswer | InferredShape):
        explained = result.origins, result.groups
        return repr((result.dims, result.conditions, result.conditions_complete, explained))
    return repr(result)
