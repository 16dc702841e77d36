"""Runs a Python function as an implementation: `python -m tensor_reshape.conformance.functions MODULE:FUNCTION`.

The function takes a query as a dict, and returns an answer as a dict without `id`. If the function raises ValueError,
the answer is a rejection. If it raises NotImplementedError, the answer is `unsupported`. Any other exception ends the
program, and the conformance runner reports a crash.

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
    """Imports and returns the function with the name `MODULE:FUNCTION`.

    `FUNCTION` may be a method such as `Class.method`.
    """
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    function: _Function = found
    return function


def answer(function: _Function, query: Json) -> Json:
    """Calls the function with a query and returns the answer, which may be a rejection."""
    try:
        return function(query)
    except NotImplementedError as error:
        return {"unsupported": str(error) or "not implemented"}
    except ValueError as error:
        return {"rejection": {"message": str(error)}}


def main() -> None:
    """Answers the queries that arrive on standard input, one per line."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        # The file descriptor of standard output is redirected to standard error, because C libraries print directly to
        # it.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        sys.path.insert(0, "")  # the function's module may be in the working directory, as with `python -m`
        function = load_function(sys.argv[1])
        for line in sys.stdin:
            query = json.loads(line)
            print(json.dumps({"id": query["id"], **answer(function, dict(query))}), file=answers, flush=True)


if __name__ == "__main__":
    main()
