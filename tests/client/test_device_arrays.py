"""Views of arrays on a device, with a framework whose memory the SDK must not read."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from server_processes import ServerProcess
from tensor_reshape.client import Client, InvalidRequestError, Reason
from tensor_reshape.client.device_arrays import DeviceArray
from tensor_reshape.wire.arrays import Array

CUDA = 2


class Remote:
    """An array that follows the array API standard, on a device, so that only its own framework may read it."""

    def __init__(self, hidden: Array, framework: ModuleType, device: int = CUDA) -> None:
        self._hidden, self._framework, self._device = hidden, framework, device
        self.shape, self.dtype = hidden.shape, hidden.dtype

    def __array_namespace__(self) -> ModuleType:
        return self._framework

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0

    def __dlpack__(self, **_: Any) -> object:
        raise AssertionError("elements were moved")

    @staticmethod
    def reshape_copy(array: "Remote", dims: tuple[int, ...], *, copy: bool | None = None) -> "Remote":
        return type(array)(np.reshape(array._hidden, dims, copy=copy), array._framework)

    @property
    def hidden(self) -> Array:
        return self._hidden


def make_framework(name: str) -> ModuleType:
    module = ModuleType(name)
    module.reshape = Remote.reshape_copy  # type: ignore[attr-defined]
    module.from_dlpack = None  # type: ignore[attr-defined]
    return module


@pytest.fixture
def remote() -> Iterator[ModuleType]:
    module = make_framework("remote")
    sys.modules["remote"] = module
    yield module
    del sys.modules["remote"]


@pytest.mark.parametrize("kind", CLIENTS)
def test_view_of_an_array_on_a_device_moves_no_element(kind: str, server: ServerProcess, remote: ModuleType):
    array: Any = Remote(np.arange(6, dtype=np.float16), remote)
    with open_client(kind, server.address) as client:
        for like in (array, remote):
            for copy in ("if_needed", "never"):
                viewed: Any = client.reshape(array, [2, -1], transfer="view", like=like, copy=copy)
                assert isinstance(viewed, Remote)
                assert (viewed.shape, np.shares_memory(viewed.hidden, array.hidden)) == ((2, 3), True)


def test_array_on_a_device_needs_a_view_and_its_own_framework(client: Client, remote: ModuleType):
    array: Any = Remote(np.arange(6, dtype=np.float32), remote)
    options: tuple[dict[str, Any], ...] = (
        {},
        {"like": remote},
        {"like": remote, "transfer": "stream"},
        {"transfer": "view"},
        {"transfer": "view", "like": np},
        {"transfer": "view", "like": make_framework("other")},
    )
    for how in options:
        with pytest.raises(TypeError, match=r'on a device: pass .* with transfer="view" and like= its framework'):
            client.reshape(array, [2, 3], special_zero=False, **how)


def test_strided_array_on_a_device_is_copied_if_allowed(client: Client, remote: ModuleType):
    array: Any = Remote(np.arange(6, dtype=np.int32).reshape(2, 3).T, remote)
    copied = client.reshape(array, [-1], special_zero=False, transfer="view", like=array)
    assert copied.hidden.tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(InvalidRequestError) as caught:
        client.reshape(array, [-1], special_zero=False, transfer="view", like=array, copy="never")
    assert (caught.value.reason, caught.value.field) == (Reason.VIEW_IMPOSSIBLE, "data.strides")


def test_rejected_view_on_a_device_has_the_error_of_the_rules(client: Client, remote: ModuleType):
    array: Any = Remote(np.arange(6, dtype=np.int32), remote)
    with pytest.raises(InvalidRequestError) as caught:
        client.reshape(array, [4, -1], special_zero=False, transfer="view", like=array)
    assert caught.value.reason is Reason.NOT_DIVISIBLE


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float64])
def test_stand_in_has_the_type_and_shape_of_the_array(dtype: type[np.generic], remote: ModuleType):
    found = DeviceArray.find(Remote(np.zeros((3, 0, 2), dtype), remote), remote)
    assert found is not None
    assert (found.stand_in.shape, found.stand_in.dtype) == ((3, 0, 2), np.dtype(dtype))
    assert DeviceArray.find(Remote(np.zeros(3, dtype), remote, device=1), remote) is None


def test_array_on_a_device_with_an_unknown_type_is_rejected(client: Client, remote: ModuleType):
    array: Any = Remote(np.zeros(3, np.uint8), remote)
    array.dtype = "remote.float12"
    with pytest.raises(InvalidRequestError) as caught:
        client.reshape(array, [-1], special_zero=False, transfer="view", like=remote)
    assert caught.value.reason is Reason.DATA_TYPE_UNSUPPORTED


def test_device_array_of_an_unsupported_type_is_rejected_by_name(remote: ModuleType):
    array: Any = Remote(np.zeros(3, np.float32), remote)
    array.dtype = "other.quaternion"
    with pytest.raises(InvalidRequestError, match="data is an array of quaternion, which is not supported") as caught:
        DeviceArray.find(array, remote)
    error = caught.value
    assert (error.reason, error.field, error.metadata["dtype"]) == (
        "DATA_TYPE_UNSUPPORTED",
        "data.data_type",
        "quaternion",
    )
