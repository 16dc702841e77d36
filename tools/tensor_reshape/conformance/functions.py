"""Runs a Python function as a program: `python -m tensor_reshape.conformance.functions MODULE:FUNCTION`.

The function takes a query as a dict, and returns an answer as a dict without `id`. If the function raises ValueError,
the answer is a rejection. If it raises NotImplementedError, the answer is `unsupported`. Any other exception ends the
program, which the runner reports as a crash.

Invariant: the program writes only answers to standard output. All other output of the function goes to standard error.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from tensor_reshape.wire.json_messages import Json

_Function: TypeAlias = Callable[[Json], Json]


def load_function(name: str) -> _Function:
    """Returns the function with the name `MODULE:FUNCTION`, which may belong to a class: `module:Class.method`."""
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    function: _Function = found
    return function


def answer(function: _Function, query: Json) -> Json:
    """Calls the function with a query and returns its answer."""
    try:
        return function(query)
    except NotImplementedError as error:
        return {"unsupported": str(error) or "not implemented"}
    except ValueError as error:
        return {"rejection": {"message": str(error)}}


def main() -> None:
    """Answers the queries that arrive on standard input."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        # Standard output is redirected to standard error, because C libraries print directly to the file descriptor.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        sys.path.insert(0, "")  # modules can be imported from the working directory, as with `python -m`
        function = load_function(sys.argv[1])
        for line in sys.stdin:
            query = json.loads(line)
            print(json.dumps({"id": query["id"], **answer(function, dict(query))}), file=answers, flush=True)


if __name__ == "__main__":
    main()
