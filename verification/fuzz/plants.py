"""Bugs put into the reader on purpose, each of which the comparison must find. `fuzz --plant` runs this module.

A bug is a change of one place in one module, which is made before anything imports that module. So this one imports
none of them by itself.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import NamedTuple


class Plant(NamedTuple):
    """One bug: what `module` says in exactly one place, and what it says instead."""

    name: str
    module: str
    right: str
    wrong: str


_PAYLOADS, _CODEC = "tensor_reshape.wire.fields", "tensor_reshape.wire.reshapes"
_MESSAGES, _STREAMS = "tensor_reshape.wire.fields", "tensor_reshape.wire.streams"
_BATCHES, _SHAPES = "tensor_reshape.wire.batches", "tensor_reshape.wire.compact_batches"
_HEADS, _SERVICE = "tensor_reshape.server.service.header_cache", "tensor_reshape.server.service.methods"
_RAW, _ANSWERS = "tensor_reshape.server.oip.raw_contents", "tensor_reshape.server.oip.answer_caches"
_FOUND = "return (position, start, fields) if end == len(message) else None"

PLANTS = (
    Plant("what follows field 15 is taken for its bytes", _PAYLOADS, _FOUND, _FOUND.replace("==", "<=")),
    Plant("a field 15 that is cut short is taken", _PAYLOADS, _FOUND, _FOUND.replace("==", ">=")),
    Plant(
        "of several fields 15 the last one is taken",
        _PAYLOADS,
        _FOUND,
        "if end == len(message):\n                return position, start",
    ),
    Plant(
        "field 15 is taken whatever its wire type",
        _PAYLOADS,
        "if tag == _TAG:\n            return",
        "if tag >> 3 == 15:\n            return",
    ),
    Plant("tags above 32 bits are taken", _PAYLOADS, "_MAX_TAG = 1 << 3, 2**32 - 1", "_MAX_TAG = 1 << 3, 2**35 - 1"),
    Plant("four bytes are skipped as eight", _PAYLOADS, "_FIXED32: 4", "_FIXED32: 8"),
    Plant("lengths of more than two bytes are not read", _PAYLOADS, "_MAX_NUMBER_BYTES = 5", "_MAX_NUMBER_BYTES = 2"),
    Plant("lengths of several bytes are misread", _PAYLOADS, "(byte & 0x7F) << (7 * index)", "byte << (7 * index)"),
    Plant(
        "the header within the tensor counts for nothing",
        _PAYLOADS,
        "_measure(message, start, after, nested=False) if nested else (0, 0)",
        "(0, 0)",
    ),
    Plant(
        "the header before the tensor counts alone",
        _CODEC,
        "check_header_size(inner[1])",
        "check_header_size(outer[1])",
    ),
    Plant("a type is padded", _CODEC, "+ encode_varint(data_type)", "+ _widen(encode_varint(data_type), 6)"),
    Plant("a length is padded to six bytes", _CODEC, "_MAX_LENGTH_BYTES = 9, 5", "_MAX_LENGTH_BYTES = 3, 6"),
    Plant("the largest header is refused", _MESSAGES, "if size > MAX_HEADER_BYTES", "if size >= MAX_HEADER_BYTES"),
    Plant("what follows a chunk is taken for its bytes", _STREAMS, "start + length != len(raw)", "start > len(raw)"),
    Plant("an offset takes ten bytes", _STREAMS, "raw[1 : 1 + _MAX", "raw[1 : 2 + _MAX"),
    Plant(
        "an item that is cut short is taken",
        _BATCHES,
        "if field is None or field[2] > len(raw):",
        "if field is None:",
    ),
    Plant("a dim that is cut short is taken", _SHAPES, "if dim is _MISSING or position > end:", "if dim is _MISSING:"),
    Plant("every item of a batch is of the plain form", _SHAPES, "item[5] > 1 or item[6:7] != _DATA", "item[5] > 1"),
    Plant(
        "a header that is cached answers whatever follows it",
        _HEADS,
        "cached if cached is not None and cached.request_bytes == len(request) else None",
        "cached",
    ),
    Plant(
        "all methods share one cache",
        _SERVICE,
        "{operation: HeaderCache() for operation in OPERATION_METHODS}",
        "dict.fromkeys(OPERATION_METHODS, HeaderCache())",
    ),
    Plant(
        "a header is cached although elements move",
        _SERVICE,
        "output.payload is call.data.payload and",
        "len(output.payload) == len(call.data.payload) and",
    ),
    Plant(
        "a header is cached although the bytes do not end the request",
        _SERVICE,
        " and len(request) - begin == output.payload.nbytes:",
        ":",
    ),
    Plant("raw contents are taken whatever their wire type", _RAW, "if tag == RAW_TAG:", "if tag >> 3 == 7:"),
    Plant(
        "raw contents that are cut short are taken",
        _RAW,
        "if field is None or field[2] > len(raw):",
        "if field is None:",
    ),
    Plant(
        "what follows elements is not looked at",
        _ANSWERS,
        "return head + request[len(request) - tail :] if tail else head",
        "return head",
    ),
    Plant("an id that is no text is one", _ANSWERS, "if is_id and content.isascii()", "if is_id"),
    Plant("the first name of a model counts", _RAW, "name = raw[start:position]", "name = name or raw[start:position]"),
)


def build_source(plant: Plant) -> str:
    """Returns the module with the bug.

    Raises:
        ValueError: the place is not there, or not there alone.
    """
    spec = importlib.util.find_spec(plant.module)
    source = Path(spec.origin).read_text() if spec and spec.origin else ""
    if source.count(plant.right) != 1:
        message = (
            f"{plant.module} says {plant.right!r} {source.count(plant.right)} times: mend the plant {plant.name!r}"
        )
        raise ValueError(message)
    return source.replace(plant.right, plant.wrong)


def put_in_place(plant: Plant) -> None:
    """Has whoever imports the module get the one with the bug."""
    source, spec = build_source(plant), importlib.util.find_spec(plant.module)
    if spec is None or plant.module in sys.modules:
        message = f"{plant.module} is in use already"
        raise RuntimeError(message)
    # Under the name of the right one, and as the attribute of its package: `from package import module` reads that.
    module = importlib.util.module_from_spec(spec)
    exec(compile(source, f"{plant.module} with {plant.name}", "exec"), module.__dict__)
    sys.modules[plant.module] = module
    parent, _, name = plant.module.rpartition(".")
    setattr(sys.modules[parent], name, module)


def main() -> int:
    """Says after how many inputs the bug of the number on the command line is found; 1 where it is not."""
    index, seed, limit = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    put_in_place(PLANTS[index])
    comparison = importlib.import_module("verification.fuzz.comparisons").Comparison()
    for mismatch in comparison.run(seed, limit):
        print(f"found after {mismatch.number + 1} inputs: {mismatch.what}, {mismatch.input.kind}")
        return 0
    print(f"NOT FOUND in {limit} inputs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
