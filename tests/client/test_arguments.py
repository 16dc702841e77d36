"""What callers write: what is taken, and what an error says to write instead."""

import inspect
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensor_reshape.client import (
    AsyncClient,
    Client,
    DataType,
    DimLike,
    InvalidRequestError,
    Reason,
    ShapeQuery,
    infer_locally,
)
from tensor_reshape.client.arguments import read_data_type, read_integers, read_operation
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation

NOBODY = "127.0.0.1:1"  # so whatever was sent would end in another error
SIX = np.arange(6, dtype=np.float32)
RESHAPES = ["static_reshape", "dynamic_reshape", "reshape"]
QUERY = ShapeQuery(data_shape=[6], shape=[6], special_zero=False)
MISSING = r"^special_zero is missing: write special_zero=True .*copy.* special_zero=False for a dim of 0$"


class NamedType:
    """As `numpy.dtype`, of another library."""

    name = "bfloat16"


class PrintedType:
    """As torch has them: known by what they print."""

    def __str__(self) -> str:
        return "torch.float16"


# what a caller writes as the target of a reshape, what the error says
TARGETS: dict[str, tuple[object, str]] = {
    "a float": ([2.0, 3], r"shape\[0\] is 2\.0, of the type float: write 2$"),
    "a float of numpy": ([2, np.float64(3)], r"shape\[1\] is .*3\.0.*, of the type float64: write 3$"),
    "a fraction": ([2.5, 3], r"shape\[0\] is 2\.5, of the type float: write an integer$"),
    "a bool": ([True, 6], r"shape\[0\] is True, of the type bool: write 1$"),
    "a name": (["N", 3], r"shape\[0\] is 'N', of the type str: write an integer$"),
    "None for a dim": ([None, 3], r"shape\[0\] is None, of the type NoneType: write an integer$"),
    "an int": (6, r"shape is 6: write \[6\]$"),
    "-1": (-1, r"shape is -1: write \[-1\]$"),
    "text": ("2,3", r"shape is the text '2,3': write a list, as \[2, 3\]$"),
    "None": (None, r"shape is None: write a list of its dims$"),
    "bytes": (b"\2\3", r"shape is the bytes b'.*': write a list, as \[2, 3\]$"),
    "a set": ({3, 2}, r"shape is the set \{.*\}: write a list, as \[2, 3\]$"),
    "a dict": ({3: 1, 2: 1}, r"shape is the dict \{.*\}: write a list, as \[2, 3\]$"),
    "a long text": ("2" * 1000, r"shape is the text '2{50,70}\.\.\.: write a list"),
}


@pytest.mark.parametrize("method", RESHAPES)
@pytest.mark.parametrize(("target", "text"), TARGETS.values(), ids=TARGETS)
def test_a_target_that_is_none_says_what_to_write(method: str, target: object, text: str):
    with Client(NOBODY) as client, pytest.raises(TypeError, match=text):
        getattr(client, method)(SIX, target, special_zero=False)


@pytest.mark.parametrize("field", ["data_shape", "shape", "expected_shape"])
@pytest.mark.parametrize(
    "dims", [6, "N,4", True, {"N", 4}, SIX.reshape(2, 3)], ids=["int", "text", "bool", "set", "array"]
)
def test_a_shape_of_a_question_has_items(field: str, dims: object):
    query: dict[str, Any] = {"data_shape": [6], "shape": [6], field: dims}
    with pytest.raises(TypeError, match=r"a shape is a sequence of dims, and .* is .*: write"):
        infer_locally([ShapeQuery(**query, special_zero=False)])


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (6.0, "is 6.0, of the type float: write 6$"),
        ([2, 8], r"data\.dims\[0\] is \[2, 8\]: write a tuple \(low, high\)"),
        ((2.0, 8), r"^the least of data\.dims\[0\] is 2\.0, of the type float: write 2$"),
        ((2, 8.0), r"^the most of data\.dims\[0\] is 8\.0, of the type float: write 8$"),
        ((None, None), r"^the least of data\.dims\[0\] is None, .*: write an integer$"),
        ((True, 8), r"^the least of data\.dims\[0\] is True, of the type bool: write 1$"),
    ],
)
def test_a_dim_of_a_question_says_what_to_write(dim: DimLike, text: str):
    with pytest.raises(TypeError, match=text):
        infer_locally([ShapeQuery(data_shape=[dim], shape=[6], special_zero=False)])


def test_integers_of_numpy_are_integers():
    read = read_integers(np.array([2, 3], np.uint8), "shape")
    assert (read, [type(item) for item in read]) == ((2, 3), [int, int])


@pytest.mark.parametrize("method", [*RESHAPES, "infer_shape"])
async def test_a_call_without_special_zero_says_what_its_values_mean(method: str):
    data: object = [6] if method == "infer_shape" else SIX
    with Client(NOBODY) as client, pytest.raises(TypeError, match=MISSING):
        getattr(client, method)(data, [6])
    async with AsyncClient(NOBODY) as awaited:
        with pytest.raises(TypeError, match=MISSING):
            await getattr(awaited, method)(data, [6])


def test_a_query_without_special_zero_says_so_where_it_is_made():
    with pytest.raises(TypeError, match=MISSING):
        ShapeQuery(data_shape=[6], shape=[6])  # type: ignore[call-arg] # that is the point: type checkers say so, too


@pytest.mark.parametrize("function", [Client.reshape, AsyncClient.infer_shape, ShapeQuery], ids=lambda it: it.__name__)
def test_help_shows_that_special_zero_is_required(function: Callable[..., object]):
    assert "special_zero: bool = required" in str(inspect.signature(function))


@pytest.mark.parametrize(("value", "shown"), [(1, "1"), ("true", "'true'")])
def test_a_flag_that_is_no_bool_says_what_to_write(value: bool, shown: str):
    with (
        Client(NOBODY) as client,
        pytest.raises(TypeError, match=f"special_zero is {shown}, .* write special_zero=True"),
    ):
        client.reshape(SIX, [6], special_zero=value)


def test_none_for_the_flag_is_the_refusal_of_the_rules():
    with Client(NOBODY) as client, pytest.raises(InvalidRequestError) as caught:
        client.reshape(SIX, [6], special_zero=None)  # type: ignore[call-overload] # that is the point
    assert caught.value.reason is Reason.SPECIAL_ZERO_MISSING


OPERATIONS = {
    "reshape": RESHAPE,
    "Reshape": RESHAPE,
    "Reshape-1": RESHAPE,
    "RESHAPE": RESHAPE,
    "OPERATION_RESHAPE": RESHAPE,
    "static_reshape": STATIC_RESHAPE,
    "StaticReshape": STATIC_RESHAPE,
    "StaticReshape-1": STATIC_RESHAPE,
    "DynamicReshape": DYNAMIC_RESHAPE,
    "dynamic-reshape": DYNAMIC_RESHAPE,
}


@pytest.mark.parametrize(("name", "operation"), OPERATIONS.items(), ids=OPERATIONS)
def test_an_operation_is_known_in_every_usual_spelling(name: str, operation: Operation):
    assert read_operation(name) is operation


@pytest.mark.parametrize("name", ["transpose", "", "Reshape-2", None, 3, ["reshape"]], ids=repr)
def test_what_is_no_operation_is_refused_with_those_that_are(name: object):
    with pytest.raises(InvalidRequestError, match="it is one of static_reshape, dynamic_reshape, reshape") as caught:
        read_operation(name)
    assert (caught.value.reason, caught.value.field) == (Reason.OPERATION_UNSPECIFIED, "operation")


@pytest.mark.parametrize("data_type", DataType, ids=str)
def test_a_data_type_is_known_by_its_name(data_type: DataType):
    assert read_data_type(str(data_type)) is read_data_type(str(data_type).upper()) is data_type


DATA_TYPES: dict[str, tuple[object, DataType]] = {
    "one": (DataType.U4, DataType.U4),
    "the name in numpy": ("float32", DataType.F32),
    "the name in torch": ("torch.bfloat16", DataType.BF16),
    "a type of numpy": (np.float32, DataType.F32),
    "a dtype of numpy": (np.dtype(">f4"), DataType.F32),
    "a type of ml_dtypes": (ml_dtypes.float8_e4m3fn, DataType.F8E4M3),
    "a dtype of ml_dtypes": (np.dtype(ml_dtypes.int4), DataType.I4),
    "a type of Python's": (bool, DataType.BOOLEAN),
    "a type with a name": (NamedType(), DataType.BF16),
    "a type that prints its name": (PrintedType(), DataType.F16),
}


@pytest.mark.parametrize(("value", "data_type"), DATA_TYPES.values(), ids=DATA_TYPES)
def test_a_data_type_is_known_by_what_array_libraries_call_it(value: object, data_type: DataType):
    assert read_data_type(value) is data_type


@pytest.mark.parametrize(("value", "hint"), [("f31", r"\. Did you mean '"), (np.complex64, "u64"), ("no", "")], ids=str)
def test_a_data_type_that_is_not_served_is_refused_with_those_that_are(value: object, hint: str):
    with pytest.raises(InvalidRequestError, match=f"which is not served; served are boolean, i8.*{hint}") as caught:
        read_data_type(value)
    assert (caught.value.reason, caught.value.field) == (Reason.DATA_TYPE_UNSUPPORTED, "data_type")


@pytest.mark.parametrize("value", [14, 1.5, None, ("f32",)], ids=repr)
def test_what_names_no_data_type_says_what_to_write(value: object):
    with pytest.raises(TypeError, match="write a DataType, or the name of one, as 'f32' or 'float32'"):
        read_data_type(value)


@pytest.mark.parametrize("data_type", ["f64", np.float64])
def test_the_data_type_of_a_question_counts_however_it_is_written(data_type: str):
    query = ShapeQuery(data_shape=[6], shape=[6], special_zero=False, data_type=data_type)
    (answer,) = infer_locally([query])
    assert isinstance(answer, InvalidRequestError)
    assert (answer.reason, answer.message.endswith("; reshape takes every type")) == (
        Reason.DATA_TYPE_UNSUPPORTED,
        True,
    )


def ask_nobody(queries: list[ShapeQuery]) -> object:
    with Client(NOBODY) as client:
        return client.infer_shapes(queries)


@pytest.mark.parametrize("ask", [infer_locally, ask_nobody])
@pytest.mark.parametrize("queries", [QUERY, None, 6], ids=["a query", "None", "a number"])
def test_a_single_query_is_no_batch(ask: Callable[[Any], object], queries: object):
    with pytest.raises(TypeError, match=rf"^queries is a single {type(queries).__name__}, .*: write \[query\]$"):
        ask(queries)


@pytest.mark.parametrize("link", [0.0, False])
def test_a_link_is_an_integer(link: int):
    query = ShapeQuery(data_from=link, shape=[6], special_zero=False)
    with pytest.raises(TypeError, match=f"^data_from is {link}, of the type .*: write 0$"):
        infer_locally([QUERY, query])


@pytest.mark.parametrize("ask", [infer_locally, ask_nobody])
def test_a_batch_is_of_queries(ask: Callable[[Any], object]):
    with pytest.raises(TypeError, match=r"^queries\[1\] is of the type dict: write ShapeQuery\("):
        ask([QUERY, {"data_shape": [6]}])


def test_a_batch_may_be_made_as_it_is_read():
    assert infer_locally(query for query in [QUERY, QUERY]) == [(6,), (6,)]


@pytest.mark.parametrize("arrays", [[SIX, SIX], (SIX, SIX[:3])], ids=["alike", "unlike"])
def test_a_list_of_arrays_is_no_array(arrays: list[float]):
    with Client(NOBODY) as client, pytest.raises(TypeError, match=r"list of arrays: .* numpy\.stack"):
        client.reshape(arrays, [-1], special_zero=False)


def test_rows_of_different_lengths_are_no_array():
    with Client(NOBODY) as client, pytest.raises(ValueError, match="rows of different lengths, which no tensor has"):
        client.reshape([[1, 2], [3]], [-1], special_zero=False)


def test_a_list_of_numbers_of_numpy_is_an_array(client: Client):
    assert client.reshape([np.float32(1), np.float32(2)], [2, 1], special_zero=False).tolist() == [[1], [2]]


def test_a_service_is_named_by_a_text():
    service: Any = 5
    with Client(NOBODY) as client, pytest.raises(TypeError, match=r"^service is 5: write its name as a text"):
        client.check_health(service)


def test_submit_takes_the_method_and_not_what_it_returns():
    with Client(NOBODY) as client, pytest.raises(TypeError, match=r"client\.submit\(client\.reshape, array, shape"):
        client.submit("reshape", SIX, [6])  # type: ignore[arg-type] # that is the point


@pytest.mark.parametrize(("target", "hint"), [([4, -1], "the nearest are 3 and 6"), ([4, 2], "3, or -1, for shape")])
def test_what_would_have_been_accepted_is_part_of_what_this_process_says(target: list[int], hint: str):
    with Client(NOBODY) as client, pytest.raises(InvalidRequestError, match=f"; accepted: .*{hint}") as caught:
        client.reshape(SIX, target, special_zero=False)
    assert "accepted" not in caught.value.metadata  # which are those of the server's refusal
