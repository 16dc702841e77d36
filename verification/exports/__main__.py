"""Exports modules of torch with both exporters, and runs them in onnxruntime with several sizes.

`scripts/verify exports` writes the graphs without weights, as text, and what onnxruntime did with the sizes, into the
folder tests/onnx/exports. The tests compare `check` with them, and need neither torch nor onnxruntime.

The newer exporter of torch 2.13 and 2.14, which is `dynamo` here, refuses two modules: `chunks` and `second_batch`. The
program prints the reasons and continues.
"""

import json
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper, parser, printer

from verification.exports.modules import CASES, Case, Shapes

FOLDER = Path(__file__).parents[2] / "tests/onnx/exports"
MAX_ELEMENTS = 64
"""Larger constants become inputs with a fixed shape, because weights do not matter for shapes."""

_FAILED = re.compile(r"while running (\w+) node\. Name:'([^']*)'")


def main() -> None:
    """Writes all exports, and prints one line for each."""
    warnings.simplefilter("ignore")
    FOLDER.mkdir(exist_ok=True)
    runs: dict[str, Any] = {}
    for name, case in CASES.items():
        for exporter in ("dynamo", "script"):
            key = f"{name}.{exporter}"
            try:
                model = _export(case, uses_dynamo=exporter == "dynamo")
            except Exception as error:  # noqa: BLE001 - an exporter may raise anything
                print(f"{key}: cannot be exported: {str(error).strip().splitlines()[0][:200]}", file=sys.stderr)
                continue
            runs[key] = list(_run(model, case))
            text = printer.to_text(_strip(model))
            parser.parse_model(text)
            (FOLDER / f"{key}.onnxtxt").write_text(text + "\n")
            print(key, len(text), [run.get("node", "accepts") for run in runs[key]])
    (FOLDER / "runs.json").write_text(json.dumps(runs, indent=1) + "\n")


def _export(case: Case, *, uses_dynamo: bool) -> onnx.ModelProto:
    torch.manual_seed(0)
    inputs = tuple(torch.zeros(shape) for shape in case.example.values())
    options: dict[str, Any] = {"input_names": list(case.example), "dynamo": uses_dynamo}
    if uses_dynamo:
        options["dynamic_shapes"] = tuple(dict(case.dynamic[given]) for given in case.example)
        options["external_data"] = False
    else:
        options["dynamic_axes"] = case.dynamic
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "export.onnx")
        torch.onnx.export(case.make().eval(), inputs, path, verbose=False, **options)
        return onnx.load(path)


def _run(model: onnx.ModelProto, case: Case) -> Iterator[dict[str, Any]]:
    """Yields what onnxruntime does with each set of shapes."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    for shapes in (case.example, *case.tries):
        yield {"inputs": {name: list(shape) for name, shape in shapes.items()}, **_try(session, shapes)}


def _try(session: onnxruntime.InferenceSession, shapes: Shapes) -> dict[str, Any]:
    try:
        session.run(None, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    except Exception as error:  # noqa: BLE001 - the errors of onnxruntime have no public base class
        found = _FAILED.search(str(error))
        operator, node = found.groups() if found else ("", str(error)[:100])
        return {"accepts": False, "operator": operator, "node": node}
    return {"accepts": True}


def _strip(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model whose large constants are inputs, and whose metadata is left out."""
    stripped = onnx.ModelProto()
    stripped.CopyFrom(model)
    graph = stripped.graph
    kept = [tensor for tensor in graph.initializer if np.prod(tensor.dims) <= MAX_ELEMENTS]
    for tensor in graph.initializer:
        if np.prod(tensor.dims) > MAX_ELEMENTS:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    kept = [numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name) for tensor in kept]
    graph.ClearField("initializer")
    graph.initializer.extend(kept)
    graph.ClearField("metadata_props")
    stripped.ClearField("metadata_props")
    for node in graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    return stripped


if __name__ == "__main__":
    main()
