"""Records what OpenVINO has in its tensors and makes of them: `python -m verification.compare.recordings > CASES`.

What it prints is `conformance/cases/full/packed.jsonl`, by which the tests know OpenVINO without having it; then
`scripts/kit --write` adds the sentences. The elements are OpenVINO's own: each tensor is converted, u1 to u6 and i4 to
i32, the floats to f32.
"""

import json
from random import Random
from typing import Any

import openvino
from openvino import opset1

from tensor_reshape.rules.dtypes import DataType, ElementKind
from verification.compare.tensors import Reshape, find_type, load_tensor, make_tensor, reshape_theirs, run_node

_SHAPES = (((), (1,)), ((5,), (-1, 1)), ((3, 3), (9,)), ((2, 4, 2), (4, -1)), ((7, 11), (11, 7)), ((0, 3), (3, 0)))


def main() -> None:
    """Prints a case a line."""
    number, random, source = 0, Random(12), f"OpenVINO {openvino.__version__.split('-')[0]} executed"
    for data_type in DataType:
        if data_type <= DataType.F64:
            continue
        for dims, target in _SHAPES:
            data = random.randbytes(make_tensor(data_type, dims).byte_size)
            one = Reshape(data_type, dims, target, data)
            output = reshape_theirs(one)
            number += 1
            told = {"shape": output.dims, "bytes": output.data.hex()}
            question = {"data": dims, "shape": target, "special_zero": False, "data_type": str(data_type)}
            case = {
                "id": f"packed/ov-{number:04}",
                "rule": "packed",
                "operations": ["reshape"],
                **question,
                "bytes": data.hex(),
                "answer": told,
                "because": "",
                "recorded": {"by": source, **told, "elements": read_elements(one)},
            }
            print(json.dumps(case))


def read_elements(one: Reshape) -> list[Any]:
    """Returns the elements as numbers, in row-major order."""
    if not one.data:
        return []
    parameter = openvino.op.Parameter(find_type(one.data_type), openvino.PartialShape(list(one.dims)))
    if one.data_type.kind is not ElementKind.FLOAT:
        return _list(run_node(opset1.convert(parameter, "i32"), parameter, one).data)
    # The reference implementation converts none of these floats; the plugin for processors does.
    model = openvino.Model([opset1.convert(parameter, "f32")], [parameter], "node")
    return _list(openvino.Core().compile_model(model, "CPU")([load_tensor(one)])[0])


def _list(array: Any) -> list[Any]:  # noqa: ANN401 - OpenVINO has no types
    numbers: list[Any] = array.reshape(-1).tolist()
    return numbers


if __name__ == "__main__":
    main()
