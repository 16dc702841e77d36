"""The shares of answers that are the hull, as text and as the table of their page."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from verification.tightness.hulls import Verdict
from verification.tightness.runs import REFUSED, Tally

PAGE = Path(__file__).parents[2] / "docs/architecture/tightness.md"
_BEGIN, _END = "<!-- Written by scripts/tightness --write. -->", "<!-- End of what scripts/tightness writes. -->"


def describe(tally: Tally) -> str:
    """Returns a tally as a line."""
    counts = ", ".join(f"{number} {name}" for name, number in sorted(tally.verdicts.items()))
    return f"{'hostile' if tally.is_hostile else 'models'}, {tally.kind}: {counts}; {tally.least_share:.2%} tight"


def join_models(tallies: Sequence[Tally]) -> Tally:
    """Returns the tallies of all questions of models as one."""
    joined = Tally("all", is_hostile=False)
    for tally in tallies:
        if not tally.is_hostile:
            joined.verdicts += tally.verdicts
            joined.near += tally.near
    return joined


def write_page(tallies: Sequence[Tally]) -> None:
    """Writes the table into its page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    table = "\n".join(_build_table(tallies))
    PAGE.write_text(f"{before}{_BEGIN}\n\n{table}\n\n{_END}{after}", encoding="utf-8")


def _build_table(tallies: Sequence[Tally]) -> Iterator[str]:
    yield "| questions | refused | answers | tight | wide | undecided | tight for sure | or within 0.1 % |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    models = [tally for tally in tallies if not tally.is_hostile]
    for tally in (*models, join_models(tallies), *[tally for tally in tallies if tally.is_hostile]):
        counts = [tally.verdicts[REFUSED], tally.answers, *(tally.verdicts[verdict.value] for verdict in Verdict)]
        cells = " | ".join(f"{count:,}" for count in counts)
        name = f"{'hostile' if tally.is_hostile else 'of models'}: {tally.kind}"
        yield f"| {name} | {cells} | {tally.least_share:.1%} | {tally.near / max(tally.answers, 1):.1%} |"
