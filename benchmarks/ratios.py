"""Ratios: of two entries, round by round, so that what disturbed the machine disturbed both."""

import statistics
from dataclasses import dataclass

from benchmarks.results import OK, Entry


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the rounds' ratios and their spread."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        """Returns "2.61 (2.50-2.83)"."""
        return f"{_format(self.median)} ({_format(self.least)}-{_format(self.greatest)})"


def compare(over: Entry | None, under: Entry | None) -> Ratio | None:
    """Returns how many times as many calls a second `over` makes as `under`, None where one was not measured."""
    if over is None or under is None or over.status != OK or under.status != OK:
        return None
    rates = {one.round: one.rate for one in under.rounds}
    ratios = [one.rate / rates[one.round] for one in over.rounds if one.round in rates]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


def _format(number: float) -> str:
    if number < 0.1:
        return f"{number:.2g}"
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    return f"{number:.{digits}f}"
