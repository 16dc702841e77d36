"""Proves every lemma of the solver, and prints a table of the proved, refuted and open claims.

The run passes if no claim is refuted, and every open claim is covered in another way.
"""

import argparse
import sys
import time

from verification.lemmas import LEMMAS
from verification.lemmas.claims import SECONDS, Finding, Verdict, prove


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/verify lemmas", description=__doc__)
    parser.add_argument("names", nargs="*", help="lemmas to prove; default: all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit of the prover for one claim")
    return parser.parse_args()


def main() -> int:
    """Runs the prover. The status is 1 if a lemma is refuted, or open and not covered."""
    arguments = parse_arguments()
    chosen = [lemma for lemma in LEMMAS if not arguments.names or lemma.name in arguments.names]
    begin, findings = time.monotonic(), list[Finding]()
    for lemma in chosen:
        print(f"{lemma.name}: {lemma.statement} [{', '.join(lemma.used_by)}]", flush=True)
        for finding in prove(lemma, arguments.seconds):
            findings.append(finding)
            print(f"  {_describe(finding)}", flush=True)
    counts = ", ".join(f"{sum(one.verdict is verdict for one in findings)} {verdict.value}" for verdict in Verdict)
    print(f"{len(chosen)} lemmas, {len(findings)} claims: {counts}; {time.monotonic() - begin:.0f} s")
    return 0 if chosen and all(map(_is_fine, findings)) else 1


def _is_fine(finding: Finding) -> bool:
    is_covered = finding.verdict is Verdict.OPEN and bool(finding.lemma.covered_by)
    return finding.verdict is Verdict.PROVED or is_covered


def _describe(finding: Finding) -> str:
    line = f"{finding.verdict.value:8} {finding.claim}"
    if finding.verdict is Verdict.REFUTED:
        return f"{line}: {finding.counterexample}"
    if finding.verdict is Verdict.OPEN:
        return f"{line}: covered by {finding.lemma.covered_by or 'nothing'}"
    return line


if __name__ == "__main__":
    sys.exit(main())
