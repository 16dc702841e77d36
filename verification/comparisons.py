"""Compares the recorded answers of `tensor-reshape compare` with those of the installed libraries.

`scripts/verify comparisons` installs the libraries. It fails if an answer differs. With --write, it replaces the
recorded answers. To record another query, add a row without answers to the file, and use --write.
"""

import argparse
import json
import sys
from typing import Any

from tensor_reshape.cli.compare import RECORDED, ask_libraries, list_queries


def record(row: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Returns the row with the answers of all libraries, and adds the versions of the libraries.

    If a library has no answer, for example because this machine is slow, the program ends.
    """
    answers = []
    queries = list_queries(row["data"], row["shape"])
    for query, answer in zip(queries, ask_libraries(queries), strict=True):
        found = answer or {"unusable": "not installed"}
        if missing := found.get("unusable") or found.get("failure"):
            sys.exit(f"nothing was recorded: {query.name}: {missing}")
        versions[query.name] = found.pop("version")
        answers.append(found)
    return {**row, "answers": answers}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the recorded answers")
    write = parser.parse_args().write
    rows = json.loads(RECORDED.read_text())["queries"]
    versions: dict[str, str] = {}
    found = [record(row, versions) for row in rows]
    changed = [json.dumps(new) for old, new in zip(rows, found, strict=True) if old != new]
    print(f"{len(changed)} of {len(rows)} queries have other answers, {versions}", *changed, sep="\n")
    if write:
        lines = ",\n".join(map(json.dumps, found))
        RECORDED.write_text(f'{{"versions": {json.dumps(versions)}, "queries": [\n{lines}\n]}}\n')
    return 1 if changed and not write else 0


if __name__ == "__main__":
    sys.exit(main())
