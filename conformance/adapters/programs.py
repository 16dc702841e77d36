"""The program that every adapter is: a question a line on standard input, an answer a line on standard output.

- It begins by saying which implementation it is, of which versions.
- Each answer is written out before the next question is read, so that whoever asks knows which one ended the program.
- Only an answer reaches standard output: what a library prints goes to standard error.
- A crash of the library is a crash of the program, and so is an exception that the adapter does not expect: whoever
  asks tells of it, and starts the program again.
"""

import json
import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

from conformance.adapters.questions import Json, Question, read_question

_NO_FORM = "It has no form for a message that is not valid."

Answer: TypeAlias = Callable[[Question], Json]
"""Returns the answer to a question, but for its id.

Raises:
    Rejected: the library rejects.
    Unsupported: the library has nothing to ask.
"""


class Rejected(Exception):  # noqa: N818 - an answer, no fault
    """The library rejects; the text is what it says."""


class Unsupported(Exception):  # noqa: N818 - an answer, no fault
    """The library offers nothing of the kind; the text is a short reason, the same for all questions of that kind."""


def run(implementations: Mapping[str, Answer]) -> None:
    """Answers standard input as one of the implementations of a library: as the argument says, or the first."""
    name = sys.argv[1] if len(sys.argv) > 1 else next(iter(implementations))
    answer = implementations[name]
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries in C print there as well
        print(json.dumps({"implementation": {"name": name, "versions": _find_versions()}}), file=answers, flush=True)
        for line in sys.stdin:
            question = json.loads(line)
            print(json.dumps({"id": question["id"], **_answer(answer, question)}), file=answers, flush=True)


def _find_versions() -> dict[str, str]:
    """Returns the versions of the distributions that `NAME.toml` beside the folder of the running program names."""
    library = Path(str(sys.modules["__main__"].__file__)).parent.with_suffix(".toml")
    return {name: version(name) for name in tomllib.loads(library.read_text(encoding="utf-8"))["distributions"]}


def _answer(answer: Answer, question: Json) -> Json:
    try:
        asked = read_question(question)
        return {"unsupported": _NO_FORM} if asked.is_malformed else answer(asked)
    except Rejected as rejection:
        return {"rejection": {"message": str(rejection)}}
    except Unsupported as reason:
        return {"unsupported": str(reason)}
