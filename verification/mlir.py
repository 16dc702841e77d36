"""Compares the dimension groups of static reshapes with the reassociation that MLIR computes.

IREE's compiler writes a reshape as `tensor.collapse_shape` or `tensor.expand_shape`, or as the first followed by the
second. Each of them lists the groups of dims that it joins or splits. The compiler does not look for the smallest
groups if it needs both, so each group of this project must then be a part of one group of MLIR. If it needs only one,
the groups must be the same. Dims of 1 are ignored, because each may belong to either neighbour.
"""

import argparse
import json
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from random import Random
from typing import NamedTuple

from tensor_reshape.rules.explanations import find_dim_groups

_MAX_RANK = 6
_DIMS = (1, 1, 2, 2, 3, 4, 5, 6, 8, 12)
_BATCH = 1000  # functions of one module
_STEP = re.compile(r"tensor\.(collapse|expand)_shape %\S+ (\[.*?\]|\[\]) (?:output_shape .*)?: ")
_FUNCTION = re.compile(r"func public @r(\d+)\(")

Shape = tuple[int, ...]
Groups = list[tuple[list[int], list[int]]]
"""The indices of data dims and of output dims of each group."""


class Reassociation(NamedTuple):
    """The groups of a reshape by MLIR, and the number of operations that it needs."""

    groups: Groups
    steps: int


def main() -> int:
    """Compares random reshapes. The status is 1 if groups differ, or if MLIR's answer cannot be read."""
    parser = argparse.ArgumentParser(prog="scripts/verify mlir", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=10_000, help="number of reshapes (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random reshapes (default: 0)")
    options = parser.parse_args()
    random = Random(options.seed)
    pairs = [draw_reshape(random) for _ in range(options.count)]
    differences = steps = 0
    for begin in range(0, len(pairs), _BATCH):
        batch = pairs[begin : begin + _BATCH]
        for (data, output), theirs in zip(batch, reassociate(batch), strict=True):
            ours = [(list(group.data), list(group.output)) for group in find_dim_groups(data, output, ())]
            steps += theirs.steps == 1
            if not are_consistent(data, output, ours, theirs):
                differences += 1
                print(f"{data} to {output}: the groups are {ours}; MLIR has {theirs.groups}")
    print(f"{len(pairs)} reshapes, {steps} with one operation of MLIR: {differences} differences")
    return 1 if differences else 0


def draw_reshape(random: Random) -> tuple[Shape, Shape]:
    """Returns two shapes with equal volumes. Half of the pairs differ only by joined or split neighbours."""
    data = tuple(random.choices(_DIMS, k=random.randint(1, _MAX_RANK)))
    output = list(data)
    for _ in range(random.randint(1, 4)):
        index = random.randrange(len(output))
        if random.random() < 0.5 and index + 1 < len(output):
            output[index : index + 2] = [output[index] * output[index + 1]]
        else:
            factor = random.choice([step for step in range(1, output[index] + 1) if output[index] % step == 0])
            output[index : index + 1] = [factor, output[index] // factor]
    if random.random() < 0.5:
        random.shuffle(output)
    return data, tuple(output)


def reassociate(pairs: Sequence[tuple[Shape, Shape]]) -> Iterator[Reassociation]:
    """Yields the groups of each reshape by MLIR.

    Raises:
        ValueError: the output of the compiler has another form.
    """
    program = Path(sysconfig.get_path("scripts"), "iree-compile")
    arguments = [
        "--compile-to=input",
        "--iree-input-type=stablehlo",
        "--iree-hal-target-backends=llvm-cpu",
        "-",
        "-o=-",
    ]
    source = "\n".join(_write_function(index, *pair) for index, pair in enumerate(pairs))
    done = subprocess.run([program, *arguments], input=source, text=True, stdout=subprocess.PIPE, check=True)
    parts = _FUNCTION.split(done.stdout)[1:]
    bodies = dict(zip(map(int, parts[::2]), parts[1::2], strict=True))
    for index, (data, output) in enumerate(pairs):
        yield _read_groups(bodies[index], data, output)


def _write_function(index: int, data: Shape, output: Shape) -> str:
    types = ["x".join([*map(str, shape), "f32"]) for shape in (data, output)]
    have, want = (f"tensor<{own}>" for own in types)
    reshape = f"%0 = stablehlo.reshape %a : ({have}) -> {want}"
    return f"func.func @r{index}(%a: {have}) -> {want} {{ {reshape} return %0 : {want} }}"


def _read_groups(body: str, data: Shape, output: Shape) -> Reassociation:
    steps = {kind: json.loads(groups) for kind, groups in _STEP.findall(body)}
    if not steps and data != output:
        message = f"MLIR's reshape of {data} to {output} has another form: {body}"
        raise ValueError(message)
    collapse, expand = steps.get("collapse"), steps.get("expand")
    rank = len(collapse or expand or data)
    before, after = ([[index] for index in range(rank)] if own is None else own for own in (collapse, expand))
    return Reassociation([*zip(before, after, strict=True)], len(steps))


def are_consistent(data: Shape, output: Shape, ours: Groups, theirs: Reassociation) -> bool:
    """Whether the groups of this project are right, and the same as those of MLIR or finer."""
    sizes = [(prod(data[index] for index in left), prod(output[index] for index in right)) for left, right in ours]
    mine, other = (list(_drop_ones(data, output, groups)) for groups in (ours, theirs.groups))
    if any(left != right for left, right in sizes):
        return False
    if theirs.steps < 2:
        return mine == other
    return all(any(_is_part(group, whole) for whole in other) for group in mine)


def _is_part(group: tuple[set[int], set[int]], whole: tuple[set[int], set[int]]) -> bool:
    return group[0] <= whole[0] and group[1] <= whole[1]


def _drop_ones(data: Shape, output: Shape, groups: Groups) -> Iterator[tuple[set[int], set[int]]]:
    for left, right in groups:
        kept = {index for index in left if data[index] != 1}, {index for index in right if output[index] != 1}
        if any(kept):
            yield kept


if __name__ == "__main__":
    sys.exit(main())
