"""The values of `like=` if only numpy is installed. `tests/frameworks` tests torch, jax and PyArrow."""

import sys
import types

import numpy as np
import pytest

from tensor_reshape.client.frameworks import NUMPY, find_framework
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import DTYPES

SIX = np.arange(6, dtype=np.float32)


class Foreign:
    """An array that implements the array API standard."""

    def __array_namespace__(self) -> types.ModuleType:
        namespace = types.ModuleType("some_array_library")
        namespace.from_dlpack = np.from_dlpack  # type: ignore[attr-defined]
        return namespace


@pytest.mark.parametrize(
    "like", [None, np, SIX, SIX.view(np.recarray), np.float32(1)], ids=["none", "module", "array", "recarray", "scalar"]
)
def test_numpy_output_is_available_for_every_data_type(like: object):
    assert {find_framework(like, data_type) for data_type in DTYPES} == {NUMPY}


def test_array_api_output_is_created_by_its_namespace():
    framework = find_framework(Foreign(), DataType.F32)
    assert np.shares_memory(framework.present(SIX), SIX)
    assert (framework.name, framework.takes_read_only) == ("some_array_library", False)
    with pytest.raises(TypeError, match=r"some_array_library .* has no type bf16"):  # numpy cannot export it
        find_framework(Foreign(), DataType.BF16)


@pytest.mark.parametrize(
    "like",
    ["torch", [1.0], b"", sys, object(), SIX.dtype, np.float32, np.ndarray],
    ids=["text", "list", "bytes", "module", "object", "dtype", "scalar type", "class"],
)
def test_like_option_rejects_objects_other_than_arrays_or_namespaces(like: object):
    with pytest.raises(TypeError, match=r"like must be an array, or a namespace such as torch or jax\.numpy"):
        find_framework(like, DataType.F32)
