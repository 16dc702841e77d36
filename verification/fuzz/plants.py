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


_FOUND = "return (position, start, fields) if end == len(message) else None"
_CUT = "if field is None or field[2] > len(raw):"

_BUGS: dict[str, dict[str, tuple[str, str]]] = {
    "tensor_reshape.wire.fields": {
        "what follows field 15 is taken for its bytes": (_FOUND, _FOUND.replace("==", "<=")),
        "a field 15 that is cut short is taken": (_FOUND, _FOUND.replace("==", ">=")),
        "of several fields 15 the last one is taken": (
            _FOUND,
            "if end == len(message):\n                return position, start",
        ),
        "field 15 is taken whatever its wire type": (
            "if tag == _TAG:\n            return",
            "if tag >> 3 == 15:\n            return",
        ),
        "tags above 32 bits are taken": ("_MAX_TAG = 1 << 3, 2**32 - 1", "_MAX_TAG = 1 << 3, 2**35 - 1"),
        "four bytes are skipped as eight": ("_FIXED32: 4", "_FIXED32: 8"),
        "lengths of more than two bytes are not read": ("_MAX_NUMBER_BYTES = 5", "_MAX_NUMBER_BYTES = 2"),
        "lengths of several bytes are misread": ("(byte & 0x7F) << (7 * index)", "byte << (7 * index)"),
        "the header within the tensor counts for nothing": (
            "_measure(message, start, after, nested=False) if nested else (0, 0)",
            "(0, 0)",
        ),
        "the largest header is refused": ("if size > MAX_HEADER_BYTES", "if size >= MAX_HEADER_BYTES"),
    },
    "tensor_reshape.wire.reshapes": {
        "the header before the tensor counts alone": ("check_header_size(inner[1])", "check_header_size(outer[1])"),
        "a type is padded": ("+ encode_varint(data_type)", "+ _widen(encode_varint(data_type), 6)"),
        "a length is padded to six bytes": ("_MAX_LENGTH_BYTES = 9, 5", "_MAX_LENGTH_BYTES = 3, 6"),
    },
    "tensor_reshape.wire.streams": {
        "what follows a chunk is taken for its bytes": ("start + length != len(raw)", "start > len(raw)"),
        "an offset takes ten bytes": ("raw[1 : 1 + _MAX", "raw[1 : 2 + _MAX"),
    },
    "tensor_reshape.wire.batches": {"an item that is cut short is taken": (_CUT, "if field is None:")},
    "tensor_reshape.wire.compact_batches": {
        "a dim that is cut short is taken": ("if dim is _MISSING or position > end:", "if dim is _MISSING:"),
        "every item of a batch is of the plain form": ("item[5] > 1 or item[6:7] != _DATA", "item[5] > 1"),
    },
    "tensor_reshape.server.service.header_cache": {
        "a header that is cached answers whatever follows it": (
            "cached if cached is not None and cached.request_bytes == len(request) else None",
            "cached",
        ),
    },
    "tensor_reshape.server.service.methods": {
        "all methods share one cache": (
            "{operation: HeaderCache() for operation in OPERATION_METHODS}",
            "dict.fromkeys(OPERATION_METHODS, HeaderCache())",
        ),
        "a header is cached although elements move": (
            "output.payload is call.data.payload and",
            "len(output.payload) == len(call.data.payload) and",
        ),
        "a header is cached although the bytes do not end the request": (
            " and len(request) - begin == output.payload.nbytes:",
            ":",
        ),
    },
    "tensor_reshape.server.oip.raw_contents": {
        "raw contents are taken whatever their wire type": ("if tag == RAW_TAG:", "if tag >> 3 == 7:"),
        "raw contents that are cut short are taken": (_CUT, "if field is None:"),
        "the first name of a model counts": ("name = raw[start:position]", "name = name or raw[start:position]"),
    },
    "tensor_reshape.server.oip.answer_caches": {
        "what follows elements is not looked at": (
            "return head + request[len(request) - tail :] if tail else head",
            "return head",
        ),
        "an id that is no text is one": ("if is_id and content.isascii()", "if is_id"),
    },
}
"""By the module and the name: what the module says, and what it says with the bug."""

PLANTS = [Plant(name, module, *texts) for module, bugs in _BUGS.items() for name, texts in bugs.items()]


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
