"""Compares the recorded answers of `tensor-reshape compare` with those of the installed libraries.

`scripts/verify comparisons` installs the libraries. It fails if an answer differs. With --write, it replaces the
recorded answers. To record another query, add a row without answers to the file, and use --write.
"""

import argparse
import json
import sys
from typing import Any

from tensor_reshape.cli.compare import RECORDED, ask_library, list_queries


def record(row: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Returns the row with the answers of all libraries, and adds the versions of the libraries."""
    answers = [ask_library(query) for query in list_queries(row["data"], row["shape"])]
    missing = [one["unusable"] for one in answers if "unusable" in one]
    if missing:
        sys.exit(f"nothing was recorded: {missing[0]}")
    versions |= {one["name"]: one.pop("version") for one in answers if "version" in one}
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
