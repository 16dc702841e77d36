"""Exports modules of torch with both exporters, and runs them in onnxruntime with several sizes.

`scripts/verify exports` writes the graphs without weights, as text, and what onnxruntime did with the sizes, into the
folder tests/onnx/exports. The tests compare `check` with them, and need neither torch nor onnxruntime.

The newer exporter of torch 2.13 and 2.14, which is `dynamo` here, refuses two modules: `chunks` and `second_batch`. The
program prints the reasons and continues.
"""

import argparse
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper, parser, printer
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

Shapes = Mapping[str, tuple[int, ...]]


class Case(NamedTuple):
    """One module."""

    make: Callable[[], nn.Module]  # makes the module
    example: Shapes  # the input shapes with which it is exported
    dynamic: Mapping[str, Mapping[int, str]]  # the names of dynamic dims, by input and index
    tries: tuple[Shapes, ...]  # the other input shapes that are tried


class Plain(nn.Module):
    """A module without weights."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Attention(nn.Module):
    """Attention written by hand, with views for the heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-1, -2)).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, 32))


class MultiHead(nn.Module):
    """nn.MultiheadAttention with a dynamic length."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class VitBlock(nn.Module):
    """A patch embedding, a class token and an attention block."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 32, 4, 4), nn.Parameter(torch.zeros(1, 1, 32))
        self.attention, self.norm = Attention(), nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(tokens.shape[0], -1, -1), tokens], 1)
        return tokens + self.attention(self.norm(tokens))


class Cnn(nn.Module):
    """A convolution, a pooling and a view that keeps the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = (
            nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Linear(196, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        return self.fc(x.view(x.shape[0], -1))


class Bidirectional(nn.Module):
    """A bidirectional LSTM whose directions are added by a view."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 32, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.lstm(x)
        return out.reshape(out.shape[0], out.shape[1], 2, 32).sum(2).reshape(-1, 32)


def split_chunks(x: Tensor) -> Tensor:
    """A chunk and a split, of which the parts are reshaped."""
    one, other = x.chunk(2, dim=1)
    first, rest = other.split([2, other.shape[1] - 2], dim=1)
    return torch.cat([one.reshape(x.shape[0], -1), first.reshape(x.shape[0], -1), rest.reshape(x.shape[0], -1)], 1)


def shuffle(x: Tensor) -> Tensor:
    """A pixel shuffle by views."""
    batch, _, height, width = x.shape
    x = x.view(batch, 4, 2, 2, height, width).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(batch, 4, height * 2, width * 2)


def unshuffle(x: Tensor) -> Tensor:
    """A pixel unshuffle by views, which needs an even height and width."""
    batch, channels, height, width = x.shape
    x = x.view(batch, channels, height // 2, 2, width // 2, 2).permute(0, 1, 3, 5, 2, 4)
    return x.reshape(batch, channels * 4, height // 2, width // 2)


def partition(x: Tensor) -> Tensor:
    """A partition into windows of 4 x 4, after padding."""
    batch, height, width, channels = x.shape
    x = pad(x, (0, 0, 0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4))
    rows, columns = x.shape[1] // 4, x.shape[2] // 4
    x = x.view(batch, rows, 4, columns, 4, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, channels)


class Unet(nn.Module):
    """A U-Net with one skip, and a view of its pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.ConvTranspose2d(8, 8, 2, 2)
        self.last = nn.Conv2d(11, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.last(torch.cat([self.up(self.down(x)), x], 1))
        return y.flatten(2).transpose(1, 2).reshape(-1, 2)


def normalize(x: Tensor) -> Tensor:
    """A group norm by reshape."""
    y = x.reshape(x.shape[0], 4, -1)
    y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True) + 1e-5).sqrt()
    return y.reshape(x.shape)


def split_heads(x: Tensor) -> Tensor:
    """Heads of a width that does not fit each width of the input."""
    return x.reshape(x.shape[0], x.shape[1], -1, 8).transpose(1, 2)


def freeze_first(x: Tensor) -> Tensor:
    """A batch that is written into the first place of a view."""
    return x.reshape(2, -1)


def freeze_second(x: Tensor) -> Tensor:
    """A batch that is written into the second place of a view."""
    return x.transpose(0, 1).reshape(x.shape[1], 2, 24)


class Frozen(nn.Module):
    """A height and width that are written into a view."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2)), nn.Linear(49, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.body(x).reshape(-1, 4, 49))


class Language(nn.Module):
    """A block of a language model with a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Tensor, past_key: Tensor, past_value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, 4, 8).transpose(1, 2) for part in self.qkv(x).split(32, 2))
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return self.out(y.transpose(1, 2).reshape(batch, length, 32)), k, v


_IMAGE = {"x": {0: "batch", 2: "height", 3: "width"}}
_TEXT = {"x": {0: "batch", 1: "length"}}


def _images(channels: int, *sizes: tuple[int, int, int]) -> tuple[Shapes, ...]:
    return tuple({"x": (batch, channels, height, width)} for batch, height, width in sizes)


def _texts(width: int, *sizes: tuple[int, int]) -> tuple[Shapes, ...]:
    return tuple({"x": (batch, length, width)} for batch, length in sizes)


def _cache(batch: int, length: int, past: int) -> Shapes:
    state = (batch, 4, past, 8)
    return {"x": (batch, length, 32), "past_key": state, "past_value": state, "mask": (batch, past + length)}


CASES: Mapping[str, Case] = {
    "attention": Case(Attention, {"x": (2, 5, 32)}, _TEXT, _texts(32, (1, 1), (3, 9), (5, 16))),
    "multihead": Case(MultiHead, {"x": (2, 5, 32)}, _TEXT, _texts(32, (1, 3), (3, 9), (4, 5))),
    "vit": Case(VitBlock, {"x": (2, 3, 16, 16)}, _IMAGE, _images(3, (1, 16, 16), (3, 8, 20), (2, 19, 33))),
    "cnn": Case(Cnn, {"x": (2, 3, 14, 14)}, _IMAGE, _images(3, (1, 14, 14), (5, 14, 14), (2, 15, 15), (2, 16, 16))),
    "bidirectional": Case(Bidirectional, {"x": (2, 5, 16)}, _TEXT, _texts(16, (1, 1), (3, 9), (4, 7))),
    "chunks": Case(partial(Plain, split_chunks), {"x": (2, 8, 6)}, _TEXT, _texts(6, (1, 8), (3, 12), (2, 10))),
    "shuffle": Case(
        partial(Plain, shuffle), {"x": (2, 16, 4, 6)}, _IMAGE, _images(16, (1, 3, 5), (3, 8, 8), (2, 1, 7))
    ),
    "unshuffle": Case(
        partial(Plain, unshuffle), {"x": (2, 3, 4, 6)}, _IMAGE, _images(3, (1, 8, 8), (3, 2, 10), (2, 5, 6), (2, 6, 7))
    ),
    "windows": Case(
        partial(Plain, partition),
        {"x": (2, 9, 10, 8)},
        {"x": {0: "batch", 1: "height", 2: "width"}},
        tuple({"x": shape} for shape in ((1, 8, 8, 8), (3, 5, 13, 8), (2, 12, 7, 8))),
    ),
    "unet": Case(Unet, {"x": (2, 3, 8, 12)}, _IMAGE, _images(3, (1, 4, 4), (3, 16, 8), (2, 7, 8))),
    "group_norm": Case(
        partial(Plain, normalize), {"x": (2, 8, 4, 6)}, _IMAGE, _images(8, (1, 3, 3), (3, 5, 7), (2, 1, 2))
    ),
    "heads": Case(
        partial(Plain, split_heads),
        {"x": (2, 5, 32)},
        {"x": {0: "batch", 1: "length", 2: "channels"}},
        tuple({"x": shape} for shape in ((1, 3, 8), (3, 9, 64), (2, 5, 36), (2, 8, 4))),
    ),
    "first_batch": Case(
        partial(Plain, freeze_first),
        {"x": (2, 6, 4)},
        _TEXT,
        tuple({"x": shape} for shape in ((1, 6, 4), (3, 5, 4), (4, 6, 4))),
    ),
    "second_batch": Case(
        partial(Plain, freeze_second),
        {"x": (2, 6, 24)},
        _TEXT,
        tuple({"x": shape} for shape in ((2, 3, 24), (3, 6, 24), (1, 6, 24))),
    ),
    "frozen": Case(
        Frozen, {"x": (2, 3, 14, 14)}, _IMAGE, _images(3, (1, 14, 14), (3, 15, 14), (2, 16, 16), (2, 28, 28))
    ),
    "language": Case(
        Language,
        _cache(2, 3, 5),
        {
            "x": {0: "batch", 1: "length"},
            "past_key": {0: "batch", 2: "past"},
            "past_value": {0: "batch", 2: "past"},
            "mask": {0: "batch", 1: "total"},
        },
        (_cache(1, 1, 7), _cache(3, 4, 1), _cache(2, 2, 16)),
    ),
}


FOLDER = Path(__file__).parents[1] / "tests/onnx/exports"
MAX_ELEMENTS = 64
"""Larger constants become inputs with a fixed shape, because weights do not matter for shapes."""

_FAILED = re.compile(r"while running (\w+) node\. Name:'([^']*)'")


def main() -> None:
    """Writes all exports, and prints one line for each."""
    argparse.ArgumentParser("scripts/verify exports", description=__doc__).parse_args()
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
