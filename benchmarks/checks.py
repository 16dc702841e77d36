"""Compares the time of `tensor-reshape check` with the time in which onnx loads the same model and infers its shapes.

Run `python -m benchmarks.checks`. Each row is the median of interleaved runs. The model is a chain of attention blocks
of 20 nodes, without weights, whose targets are computed from Shape nodes, as exporters write them.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import onnx
from onnx import parser
from onnx.shape_inference import infer_shapes

from tensor_reshape.onnx import check_model, check_profile

_HEAD = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch,length,768] x0, float[768,768] w) => (float[] {last})
<int64 i0 = {{0}}, int64 i1 = {{1}}, int64[1] axis = {{0}}, int64[1] heads = {{12}}, int64[1] size = {{64}},
 int64[1] width = {{768}}> {{
"""
_BLOCK = """
q{n} = MatMul(x{n}, w) a{n} = Sigmoid(q{n}) s{n} = Shape(a{n}) b{n} = Gather(s{n}, i0) r{n} = Shape(a{n})
l{n} = Gather(r{n}, i1) u{n} = Unsqueeze(b{n}, axis) v{n} = Unsqueeze(l{n}, axis)
t{n} = Concat<axis=0>(u{n}, v{n}, heads, size) h{n} = Reshape(a{n}, t{n}) p{n} = Transpose<perm=[0,2,1,3]>(h{n})
m{n} = Softmax(p{n}) o{n} = Transpose<perm=[0,2,1,3]>(m{n}) k{n} = Concat<axis=0>(u{n}, v{n}, width)
j{n} = Reshape(o{n}, k{n}) e{n} = Erf(j{n}) f{n} = Mul(e{n}, j{n}) g{n} = Add(f{n}, x{n}) y{n} = Relu(g{n})
x{next} = Tanh(y{n})
"""
_NODES_OF_A_BLOCK = 20


def build_model(nodes: int) -> onnx.ModelProto:
    """Returns a model with a number of nodes."""
    count = nodes // _NODES_OF_A_BLOCK
    blocks = "".join(_BLOCK.format(n=number, next=number + 1) for number in range(count))
    return parser.parse_model(f"{_HEAD.format(last=f'x{count}')}{blocks}}}")


def main() -> None:
    """Prints a table with the seconds of each contestant and its ratio to onnx."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    options.add_argument("--rounds", type=int, default=3)
    arguments = options.parse_args()
    print("| nodes | contestant | seconds | times onnx |\n|---:|---|---:|---:|")
    for nodes in arguments.nodes:
        raw = build_model(nodes).SerializeToString()
        contestants: dict[str, Callable[[bytes], object]] = {
            "onnx: load and infer": lambda raw: infer_shapes(onnx.load_model_from_string(raw), data_prop=True),
            "check without probes": lambda raw: check_model(raw, probe_seconds=0),
            "check": check_model,
            "check of a profile": lambda raw: check_profile(raw, {"x0": (2, 9, 768)}),
        }
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(arguments.rounds):
            for name, run in contestants.items():
                begin = time.perf_counter()
                run(raw)
                times[name].append(time.perf_counter() - begin)
        base, *_ = (statistics.median(one) for one in times.values())
        for name, measured in times.items():
            median = statistics.median(measured)
            print(f"| {nodes} | {name} | {median:.3f} | {median / base:.1f} |")


if __name__ == "__main__":
    main()
