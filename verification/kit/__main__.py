"""Checks that the cases of the conformance suite are right.

Each answer must be that of the rules, and must not contradict a plain reading of the rules or an instance.
"""

import argparse
import sys
from collections.abc import Iterable

from verification.kit.checks import WIDER, check_cases
from verification.kit.files import SIZES, is_stale, list_files, read_cases, read_size, renew


def main() -> int:
    """Runs the checks. The status is 1 if a check fails."""
    parser = argparse.ArgumentParser("scripts/verify kit", description=__doc__)
    parser.add_argument(
        "--write",
        action="store_true",
        help="replace the answers of full and hostile by the current answers of the rules",
    )
    parser.add_argument("--core", action="store_true", help="check only the core")
    arguments = parser.parse_args()
    for path in [*list_files("full"), *list_files("hostile")] if arguments.write else []:
        path.write_text(renew(read_cases(path)))
    wrong = [name for size in (SIZES[:1] if arguments.core else SIZES) for name in _report_answers(size)]
    return 1 if wrong else 0


def _report_answers(size: str) -> Iterable[str]:
    """Prints the findings of a size; returns the answers that are wrong, or wider than the known exceptions."""
    cases = read_size(size)
    findings, stale = check_cases(cases), [case["id"] for case in cases if is_stale(case)]
    print(f"{size}: {len(cases)} cases, {sum(len(case['operations']) for case in cases)} questions", end="; ")
    print(f"{findings.checked} checked, {len(findings.wrong)} wrong, {len(findings.loose)} with an end not shown")
    for name, why in {**findings.wrong, **findings.loose}.items():
        print(f"  {name}: {why}; {WIDER.get(name.partition('@')[0], 'not explained')}")
    for name in stale:
        print(f"  {name}: the rules answer otherwise")
    return [*stale, *findings.wrong, *(name for name in findings.loose if name.partition("@")[0] not in WIDER)]


if __name__ == "__main__":
    sys.exit(main())
