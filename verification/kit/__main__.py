"""Writes the files of the conformance kit, and checks that it is worth having.

Each file is as it is made, each wrong implementation fails a case of the core that is its own, and no case of the core
can be dropped: another one would be on its boundary, or a wrong implementation would have no case of its own.
"""

import argparse
import sys

from verification.kit.core_cases import CORE_CASES
from verification.kit.files import list_files
from verification.kit.mistakes import find_caught, find_matching
from verification.kit.needs import find_needless


def main() -> int:
    """Runs; 1 where something of this is not so."""
    parser = argparse.ArgumentParser("scripts/kit", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files of cases")
    arguments = parser.parse_args()
    files = list_files()
    if arguments.write:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    stale = [path.name for path, text in files.items() if not path.exists() or path.read_text() != text]
    core = [case for cases in CORE_CASES.values() for case in cases]
    caught = find_caught(core)
    matching = find_matching(caught)
    for name in sorted(caught):
        print(f"{name}: fails {len(caught[name])} cases, its own is {matching.get(name, 'none')}")
    needless = find_needless(core, caught)
    print(f"{len(core)} cases of the core, {len(needless)} needless: {', '.join(needless) or 'none'}")
    print(f"{len(matching)} of {len(caught)} wrong implementations caught, each by a case of its own")
    print(f"{len(files)} files, {len(stale)} stale: {', '.join(stale) or 'none'}")
    return 1 if stale or needless or len(matching) < len(caught) else 0


if __name__ == "__main__":
    sys.exit(main())
