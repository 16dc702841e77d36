"""Arguments of calls and targets of clients: accepted values, and errors that name the right argument."""

import inspect
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from tensor_reshape.client import (
    AsyncClient,
    Client,
    DataType,
    InvalidRequestError,
    Reason,
    ShapeQuery,
    infer_locally,
    infer_shape_locally,
)
from tensor_reshape.client.arguments import check_target, read_data_type, read_integers, read_operation
from tensor_reshape.rules.operations import OPERATIONS

NOBODY = "127.0.0.1:1"  # nothing listens here, so a sent request would end with another error
SIX = np.arange(6, dtype=np.float32)
QUERY = ShapeQuery(data_shape=[6], shape=[6], special_zero=False)
MISSING = r"^special_zero is missing: write special_zero=True .*cop.* special_zero=False for a dimension of size 0$"


class PrintedType:
    """A dtype like those of torch, which is recognized by its text."""

    def __str__(self) -> str:
        return "torch.float16"


def find_others(rows: Mapping[str, tuple[object, str]], take: Callable[[Any], object]) -> dict[str, str]:
    """Returns the rows whose value is not rejected by a TypeError with this text, and the actual results."""
    said = {name: find_error(value, take) for name, (value, _) in rows.items()}
    return {name: said[name] for name, (_, text) in rows.items() if not re.search(text, said[name])}


def find_error(value: object, take: Callable[[Any], object]) -> str:
    with pytest.raises(TypeError) as caught:
        take(value)
    return str(caught.value)


# the argument for the shape of a reshape, the error
TARGETS: dict[str, tuple[object, str]] = {
    "a float": ([2.0, 3], r"shape\[0\] is 2\.0, of the type float: write 2$"),
    "a float of numpy": ([2, np.float64(3)], r"shape\[1\] is .*3\.0.*, of the type float64: write 3$"),
    "a fraction": ([2.5, 3], r"shape\[0\] is 2\.5, of the type float: write an integer$"),
    "a bool": ([True, 6], r"shape\[0\] is True, of the type bool: write 1$"),
    "a name": (["N", 3], r"shape\[0\] is 'N', of the type str: write an integer$"),
    "None for a dim": ([None, 3], r"shape\[0\] is None, of the type NoneType: write an integer$"),
    "an int": (6, r"shape is 6, not a sequence of dimensions: write \[6\]$"),
    "-1": (-1, r"shape is -1, not a sequence of dimensions: write \[-1\]$"),
    "text": ("2,3", r"shape is the text '2,3', not a sequence of dimensions: write a list, such as \[2, 3\]$"),
    "None": (None, r"shape is None, not a sequence of dimensions: write a list of its dimensions$"),
    "bytes": (b"\2\3", r"shape is the bytes b'.*', not a sequence of dimensions: write a list, such as \[2, 3\]$"),
    "a set": ({3, 2}, r"shape is the set \{.*\}, not a sequence of dimensions: write a list, such as \[2, 3\]$"),
    "a dict": (
        {3: 1, 2: 1},
        r"shape is the dict \{.*\}, not a sequence of dimensions: write a list, such as \[2, 3\]$",
    ),
    "a long text": ("2" * 1000, r"shape is the text '2{50,70}\.\.\., not a sequence of dimensions: write a list"),
}


@pytest.mark.parametrize("method", OPERATIONS)
def test_error_for_a_non_integer_shape_suggests_a_valid_argument(method: str):
    with Client(NOBODY) as client:
        reshape = getattr(client, method)
        assert find_others(TARGETS, lambda target: reshape(SIX, target, special_zero=False)) == {}


SHAPES = {"an int": 6, "text": "N,4", "a bool": True, "a set": {"N", 4}, "an array": SIX.reshape(2, 3)}


@pytest.mark.parametrize("field", ["data_shape", "shape", "expected_shape"])
def test_shape_query_rejects_a_shape_that_is_not_a_sequence(field: str):
    query: dict[str, Any] = {"data_shape": [6], "shape": [6], "special_zero": False}
    rows = {name: (dims, r".* is .*, not a sequence of dimensions: write") for name, dims in SHAPES.items()}
    assert find_others(rows, lambda dims: infer_locally([ShapeQuery(**{**query, field: dims})])) == {}


DIMS: dict[str, tuple[object, str]] = {
    "a float": (6.0, "is 6.0, of the type float: write 6$"),
    "a float of numpy": (np.float32(6), r"is .*6\.0.*, of the type float32"),
    "bytes": (b"N", r"data\.dims\[0\] is b'N', of the type bytes"),
    "no bounds": ((), r"data\.dims\[0\] is \(\): write a tuple \(low, high\)"),
    "one bound": ((2,), r"write a tuple \(low, high\)"),
    "three bounds": ((2, 3, 4), r"write a tuple \(low, high\)"),
    "bounds of text": (("2", "8"), r"^the minimum of data\.dims\[0\] is '2'"),
    "a list": ([2, 8], r"data\.dims\[0\] is \[2, 8\]: write a tuple \(low, high\)"),
    "a least float": ((2.0, 8), r"^the minimum of data\.dims\[0\] is 2\.0, of the type float: write 2$"),
    "a most float": ((2, 8.0), r"^the maximum of data\.dims\[0\] is 8\.0, of the type float: write 8$"),
    "no least": ((None, None), r"^the minimum of data\.dims\[0\] is None, .*: write an integer$"),
    "a least bool": ((True, 8), r"^the minimum of data\.dims\[0\] is True, of the type bool: write 1$"),
}


def test_error_for_an_invalid_dim_suggests_valid_forms():
    query: dict[str, Any] = {"shape": [6], "special_zero": False}
    assert find_others(DIMS, lambda dim: infer_locally([ShapeQuery(data_shape=[dim], **query)])) == {}


def test_numpy_integers_are_accepted_in_shapes():
    read = read_integers(np.array([2, 3], np.uint8), "shape")
    assert (read, [type(item) for item in read]) == ((2, 3), [int, int])


@pytest.mark.parametrize("method", [*OPERATIONS, "infer_shape"])
async def test_error_for_a_missing_special_zero_explains_the_flag(method: str):
    data: object = [6] if method == "infer_shape" else SIX
    with Client(NOBODY) as client, pytest.raises(TypeError, match=MISSING):
        getattr(client, method)(data, [6])
    async with AsyncClient(NOBODY) as awaited:
        with pytest.raises(TypeError, match=MISSING):
            await getattr(awaited, method)(data, [6])


def test_shape_query_without_special_zero_is_rejected_on_creation():
    with pytest.raises(TypeError, match=MISSING):
        ShapeQuery(data_shape=[6], shape=[6])  # type: ignore[call-arg] # type checkers also report it


def test_local_inference_without_special_zero_explains_the_flag():
    with pytest.raises(TypeError, match=MISSING):
        infer_shape_locally([6], [6])  # type: ignore[call-arg] # type checkers also report it


@pytest.mark.parametrize(
    "function", [Client.reshape, AsyncClient.infer_shape, ShapeQuery, infer_shape_locally], ids=lambda it: it.__name__
)
def test_python_help_shows_that_special_zero_is_required(function: Callable[..., object]):
    assert "special_zero: bool = required" in str(inspect.signature(function))


@pytest.mark.parametrize(("value", "shown"), [(0, "0"), (1, "1"), ("true", "'true'")])
def test_error_for_a_non_bool_special_zero_suggests_a_bool(value: bool, shown: str):
    text = f"special_zero is {shown}, .* write special_zero=True"
    with Client(NOBODY) as client, pytest.raises(TypeError, match=text):
        client.reshape(SIX, [6], special_zero=value)
    with pytest.raises(TypeError, match=text):
        infer_locally([ShapeQuery(data_shape=[1], shape=[1], special_zero=value)])


def test_special_zero_none_raises_special_zero_missing():
    with Client(NOBODY) as client, pytest.raises(InvalidRequestError) as caught:
        client.reshape(SIX, [6], special_zero=None)  # type: ignore[call-overload] # wrong on purpose
    assert caught.value.reason is Reason.SPECIAL_ZERO_MISSING


@pytest.mark.parametrize("name", ["transpose", "", "Reshape-2", None, 3, ["reshape"]], ids=repr)
def test_unknown_operation_error_lists_all_operations(name: object):
    with pytest.raises(InvalidRequestError, match="use one of static_reshape, dynamic_reshape, reshape") as caught:
        read_operation(name)
    assert (caught.value.reason, caught.value.field) == (Reason.OPERATION_UNSPECIFIED, "operation")


DATA_TYPES: dict[str, tuple[object, DataType]] = {
    "one": (DataType.U4, DataType.U4),
    "the name in numpy": ("float32", DataType.F32),
    "the name in torch": ("torch.bfloat16", DataType.BF16),
    "a type of numpy": (np.float32, DataType.F32),
    "a dtype of numpy": (np.dtype(">f4"), DataType.F32),
    "a type of ml_dtypes": (ml_dtypes.float8_e4m3fn, DataType.F8E4M3),
    "a dtype of ml_dtypes": (np.dtype(ml_dtypes.int4), DataType.I4),
    "a type of Python's": (bool, DataType.BOOLEAN),
    "a type with a name": (SimpleNamespace(name="bfloat16"), DataType.BF16),
    "a type that prints its name": (PrintedType(), DataType.F16),
    **{f"the name {each}": (str(each), each) for each in DataType},
    **{f"the name {str(each).upper()}": (str(each).upper(), each) for each in DataType},
}


def test_data_type_is_accepted_by_its_names_in_array_libraries():
    read = {name: read_data_type(value) for name, (value, _) in DATA_TYPES.items()}
    assert read == {name: data_type for name, (_, data_type) in DATA_TYPES.items()}


@pytest.mark.parametrize(("value", "hint"), [("f31", r"\. Did you mean '"), (np.complex64, "u64"), ("no", "")], ids=str)
def test_unsupported_data_type_error_lists_supported_types(value: object, hint: str):
    with pytest.raises(
        InvalidRequestError, match=f"which is not supported; supported types: boolean, i8.*{hint}"
    ) as caught:
        read_data_type(value)
    assert (caught.value.reason, caught.value.field) == (Reason.DATA_TYPE_UNSUPPORTED, "data_type")


@pytest.mark.parametrize("value", [14, 1.5, None, ("f32",)], ids=repr)
def test_invalid_data_type_error_names_valid_values(value: object):
    with pytest.raises(TypeError, match="write a DataType or its name, such as 'f32' or 'float32'"):
        read_data_type(value)


def test_invalid_data_type_of_a_shape_query_is_rejected():
    (answer,) = infer_locally([ShapeQuery(data_shape=[6], shape=[6], special_zero=False, data_type="f64")])
    assert isinstance(answer, InvalidRequestError)
    assert answer.reason is Reason.DATA_TYPE_UNSUPPORTED
    assert answer.message.endswith("; reshape takes every type")


def call_without_server(queries: list[ShapeQuery]) -> object:
    with Client(NOBODY) as client:
        return client.infer_shapes(queries)


BATCHES: dict[str, tuple[object, str]] = {
    "a query": (QUERY, r"^queries is a single ShapeQuery, .*: write \[query\]$"),
    "None": (None, r"^queries is a single NoneType, .*: write \[query\]$"),
    "a number": (6, r"^queries is a single int, .*: write \[query\]$"),
    "a dict": ([QUERY, {"data_shape": [6]}], r"^queries\[1\] is of the type dict: write ShapeQuery\("),
}


@pytest.mark.parametrize("ask", [infer_locally, call_without_server])
def test_batch_call_rejects_arguments_that_are_not_query_lists(ask: Callable[[Any], object]):
    assert find_others(BATCHES, ask) == {}


@pytest.mark.parametrize("link", [0.0, False])
def test_data_from_must_be_an_integer(link: int):
    query = ShapeQuery(data_from=link, shape=[6], special_zero=False)
    with pytest.raises(TypeError, match=f"^data_from is {link}, of the type .*: write 0$"):
        infer_locally([QUERY, query])


def test_batch_call_accepts_a_generator_of_queries():
    assert infer_locally(query for query in [QUERY, QUERY]) == [(6,), (6,)]


def test_health_service_must_be_text():
    service: Any = 5
    with (
        Client(NOBODY) as client,
        pytest.raises(TypeError, match=r"^service is 5: write the name of a service as text"),
    ):
        client.check_health(service)


def test_submit_requires_a_method_as_its_first_argument():
    with Client(NOBODY) as client, pytest.raises(TypeError, match=r"client\.submit\(client\.reshape, array, shape"):
        client.submit("reshape", SIX, [6])  # type: ignore[arg-type] # wrong on purpose


@pytest.mark.parametrize(("target", "hint"), [([4, -1], "the nearest are 3 and 6"), ([4, 2], "3, or -1, for shape")])
def test_local_rejection_lists_accepted_values(target: list[int], hint: str):
    with Client(NOBODY) as client, pytest.raises(InvalidRequestError, match=f"; accepted: .*{hint}") as caught:
        client.reshape(SIX, target, special_zero=False)
    assert "accepted" not in caught.value.metadata  # only the server's rejection has it


GOOD = [
    "localhost:50051",
    "127.0.0.1:1",
    "[::1]:65535",
    "tensor-reshape.default.svc.cluster.local:50051",
    "dns:///host:50051",
    "dns:host",
    "dns://8.8.8.8/host:50051",
    "unix:relative/path",
    "unix:///run/socket",
    "unix-abstract:name",
    "ipv4:127.0.0.1:1,127.0.0.1:2",
    "ipv6:[::1]:1",
    "xds:///service",
]
# the target, the suggested target
BAD = {
    "http://localhost:50051": "write 'localhost:50051' without the scheme; for TLS, pass credentials=",
    "https://example.com:443/": "write 'example.com:443' without the scheme; for TLS",
    "grpc://localhost:50051": "'localhost:50051'",
    "localhost": "add a port, as in 'localhost:50051'",
    "": "add a port, as in 'localhost:50051'",
    "50051": "write 'localhost:50051'",
    ":50051": "write 'localhost:50051'",
    "::1:50051": r"in brackets, '\[::1\]:50051'",
    "host:1,host:2": "end it with a port from 1 to 65535",
    "localhost:0": "end it with a port from 1 to 65535",
    "localhost:65536": "end it with a port from 1 to 65535",
    "localhost:50051/path": "end it with a port from 1 to 65535",
}


def test_valid_grpc_targets_are_accepted():
    assert [check_target(target) for target in GOOD] == GOOD


@pytest.mark.parametrize(("target", "advice"), BAD.items(), ids=BAD)
def test_error_for_an_ambiguous_target_suggests_a_valid_target(target: str, advice: str):
    with pytest.raises(ValueError, match=advice) as caught:
        check_target(target)
    assert repr(target) in str(caught.value)


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        (50051, "write 'localhost:50051'"),
        (True, "write text such as"),
        (("example.com", 1), "write 'example.com:1'"),
        (b"localhost:1", "write text such as 'localhost:50051'"),
        (None, "write text such as"),
    ],
    ids=str,
)
def test_grpc_target_must_be_text(target: object, advice: str):
    with pytest.raises(TypeError, match=advice):
        check_target(target)


@pytest.mark.parametrize("kind", CLIENTS)
def test_client_rejects_an_invalid_target_on_creation(kind: str):
    with pytest.raises(ValueError, match="add a port"), open_client(kind, "localhost"):
        pass


def test_default_target_address_is_valid():
    with Client() as client:
        assert "localhost:50051" in repr(client)
