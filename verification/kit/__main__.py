"""Writes the files of the conformance kit, and checks that they are right and that the core is worth having.

Each file is as it is made. No answer contradicts a plain reading of the rules, or an instance. Each wrong program fails
a case of the core that is its own, and no case of the core can be dropped.
"""

import argparse
import sys
from collections.abc import Iterable

from tensor_reshape.rules.records import Json
from verification.kit.boundaries import find_needless
from verification.kit.checks import WIDER, check_cases
from verification.kit.files import CORE_CASES, list_files, list_sizes
from verification.kit.mistakes import find_caught, find_matching


def main() -> int:
    """Runs; 1 where something of this is not so."""
    parser = argparse.ArgumentParser("scripts/verify kit", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files of cases")
    parser.add_argument("--core", action="store_true", help="check the answers of the core alone")
    arguments = parser.parse_args()
    files = list_files()
    if arguments.write:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    stale = [path.name for path, text in files.items() if not path.exists() or path.read_text() != text]
    print(f"{len(files)} files, {len(stale)} stale: {', '.join(stale) or 'none'}")
    sizes = ["core"] if arguments.core else list(list_sizes())
    wrong = [name for size in sizes for name in _report_answers(size)]
    return 1 if stale or wrong or not _is_core_worthy([case for cases in CORE_CASES.values() for case in cases]) else 0


def _report_answers(size: str) -> Iterable[str]:
    """Prints what was found of the answers of a size; returns those that are wrong, or wider than is known."""
    cases = [case for part in list_sizes()[size].values() for case in part]
    findings = check_cases(cases)
    print(f"{size}: {len(cases)} cases, {sum(len(case['operations']) for case in cases)} questions", end="; ")
    print(f"{findings.checked} checked, {len(findings.wrong)} wrong, {len(findings.loose)} with an end not shown")
    for name, why in {**findings.wrong, **findings.loose}.items():
        print(f"  {name}: {why}; {WIDER.get(name.partition('@')[0], 'nobody knows why')}")
    return [*findings.wrong, *(name for name in findings.loose if name.partition("@")[0] not in WIDER)]


def _is_core_worthy(core: list[Json]) -> bool:
    """Prints which case of the core is whose; returns whether each mistake has one, and none could be dropped."""
    caught = find_caught(core)
    matching, needless = find_matching(caught), find_needless(core, caught)
    for name in sorted(caught):
        print(f"  {name}: fails {len(caught[name])} cases, its own is {matching.get(name, 'none')}")
    print(f"{len(matching)} of {len(caught)} wrong implementations caught, each by a case of its own")
    print(f"{len(core)} cases of the core, {len(needless)} needless: {', '.join(needless) or 'none'}")
    return len(matching) == len(caught) and not needless


if __name__ == "__main__":
    sys.exit(main())
