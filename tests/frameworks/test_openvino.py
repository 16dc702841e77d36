"""The OpenVINO program of examples/moving prints what its comments say, and packed tensors match those of OpenVINO."""

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from documents import ROOT, read_printed
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import pack

PROGRAM = ROOT / "examples/moving/in_openvino.py"


@pytest.fixture
def openvino(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """OpenVINO, without the telemetry that forks this process when it is imported."""
    monkeypatch.setenv("CI", "true")
    module: ModuleType = pytest.importorskip(
        "openvino", reason="OpenVINO is not installed: scripts/verify frameworks installs it"
    )
    return module


@pytest.mark.usefixtures("openvino")
def test_openvino_example_prints_the_output_in_its_comments():
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)

    assert done.stdout.split() == read_printed(PROGRAM), done.stderr


@pytest.mark.parametrize("data_type", [one for one in DataType if one.is_packed], ids=str)
def test_packed_tensor_has_the_byte_size_of_an_openvino_tensor(openvino: ModuleType, data_type: DataType):
    # Releases up to 2026.4 round the size of u3 and u6 up to a multiple of three bytes.
    step = data_type.group_items if data_type in {DataType.U3, DataType.U6} else 1
    for items in range(0, 6 * step, step):
        tensor = openvino.Tensor(getattr(openvino.Type, str(data_type)), openvino.Shape([items]))
        assert tensor.byte_size == data_type.count_bytes(items)


@pytest.mark.parametrize("data_type", [DataType.U2, DataType.U4, DataType.I4], ids=str)
def test_packed_element_bytes_match_openvino(openvino: ModuleType, data_type: DataType):
    elements = np.arange(2**data_type.bits, dtype=np.uint8)
    packed = openvino.Tensor(getattr(openvino.Type, str(data_type)), openvino.Shape([elements.size]))
    packed.data.reshape(-1).view(np.uint8)[:] = pack(data_type, elements)
    parameter = openvino.op.Parameter(packed.element_type, packed.shape)
    converted = openvino.Tensor(openvino.Type.i32, packed.shape)
    assert openvino.Model([openvino.opset1.convert(parameter, "i32")], [parameter], "model").evaluate(
        [converted], [packed]
    )
    assert np.array_equal(converted.data % elements.size, elements)
