"""The program that a Python function is: `python -m tensor_reshape.conformance.functions MODULE:FUNCTION`.

The function takes a question, a dict, and returns the answer, a dict without `id`. A ValueError is a rejection, a
NotImplementedError says that this is not offered, and any other exception ends the program: to whoever asks that is a
crash.

Law: nothing but answers reaches standard output, whatever the function prints.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from tensor_reshape.rules.json_format import Json

_Function: TypeAlias = Callable[[Json], Json]


def find_function(name: str) -> _Function:
    """Returns what `MODULE:FUNCTION` names; the function may be that of a class, as in `module:Class.method`."""
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    function: _Function = found
    return function


def answer(function: _Function, question: Json) -> Json:
    """Returns what a function answers."""
    try:
        return function(question)
    except NotImplementedError as error:
        return {"unsupported": str(error) or "not implemented"}
    except ValueError as error:
        return {"error": {"message": str(error)}}


def main() -> None:
    """Answers standard input."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries in C print there as well
        sys.path.insert(0, "")  # as `python -m` has it: also where this is started by its path
        function = find_function(sys.argv[1])
        for line in sys.stdin:
            question = json.loads(line)
            print(json.dumps({"id": question["id"], **answer(function, dict(question))}), file=answers, flush=True)


if __name__ == "__main__":
    main()
