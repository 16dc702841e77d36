"""The report as one HTML page, which needs nothing but itself: it is opened from a file, or kept by a CI service.

Laws:

- Nothing of an implementation is more than text on it, and its scripts and styles are those that are here: the page
  itself forbids any other.
- However much differs, the page has a bounded size: the smallest differences of each kind, and how many there are.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import urlencode

from tensor_reshape.conformance.cases import RULES
from tensor_reshape.conformance.matrices import find_worst, write_cell
from tensor_reshape.conformance.results import Difference, Results, measure_question
from tensor_reshape.conformance.sentences import escape_unprintable, write_answer, write_question
from tensor_reshape.conformance.verdicts import Verdict

MAX_SHOWN = 40
"""How many differences of a verdict, a rule and an implementation are on the page."""

_FOLDER = Path(__file__).parent / "page"
_STYLES = {Verdict.AGREES: "good", Verdict.TIGHTER: "good", Verdict.WEAKER: "warn", Verdict.UNSUPPORTED: "none"}


def build_page(results: Sequence[Results]) -> bytes:
    """Returns the page about one implementation, or about several beside one another."""
    style, script = (_read(name) for name in ("page.css", "page.js"))
    page = Template(_read("page.html")).substitute(
        title=_escape(f"Conformance of {results[0].implementation}" if len(results) == 1 else "Conformance"),
        facts="\n".join(f"<p>{_escape(_write_facts(one))}</p>" for one in results),
        matrix=_build_verdicts(results[0]) if len(results) == 1 else _build_implementations(results),
        several=" hidden" if len(results) == 1 else "",
        implementations=_build_options(one.implementation for one in results),
        rules=_build_options(_list_rules(results)),
        verdicts=_build_options(verdict for verdict in Verdict if any(one.count(verdict) for one in results)),
        differences="\n".join(text for one in results for text in _build_differences(one)),
        notes=_build_notes(results),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return page.encode()


def _escape(text: str) -> str:
    # Not markup alone: what turns the direction of text would have a page show an answer as another one.
    return escape(escape_unprintable(text))


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _write_facts(results: Results) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    told = f" ({versions})" if versions else ""
    sizes = ", ".join(results.sizes)
    return (
        f"{results.implementation}{told}, {results.date}: {results.total} questions of the conformance kit "
        f"{results.kit}, {sizes}"
    )


def _list_rules(results: Sequence[Results]) -> list[str]:
    return [rule for rule in RULES if any(rule in one.counts for one in results)]


def _build_options(values: Iterable[str]) -> str:
    return "".join(f'<option value="{_escape(value)}">{_escape(value)}</option>' for value in values)


def _build_verdicts(results: Results) -> str:
    """Returns the matrix of one implementation: how many questions of each rule have each verdict."""
    verdicts = [verdict for verdict in reversed(Verdict) if verdict is Verdict.AGREES or results.count(verdict)]
    rows = [
        (rule or "all", [_build_count(results, rule, verdict) for verdict in verdicts])
        for rule in [*results.list_rules(), None]
    ]
    return _build_table(list(verdicts), rows)


def _build_count(results: Results, rule: str | None, verdict: Verdict) -> str:
    count = results.count(verdict, rule)
    if not count:
        return "<td>·</td>"
    is_listed = verdict not in {Verdict.AGREES, Verdict.UNSUPPORTED}
    return _build_cell(str(count), verdict, {"rule": rule, "verdict": str(verdict)} if is_listed else {})


def _build_implementations(results: Sequence[Results]) -> str:
    """Returns the matrix of several: what each does about each rule."""
    rows = [
        (
            rule or "all",
            [
                _build_cell(
                    write_cell(one, rule), find_worst(one, rule), {"implementation": one.implementation, "rule": rule}
                )
                for one in results
            ],
        )
        for rule in [*_list_rules(results), None]
    ]
    return _build_table([one.implementation for one in results], rows)


def _build_cell(text: str, verdict: Verdict, chosen: dict[str, str | None]) -> str:
    query = urlencode({key: value for key, value in chosen.items() if value is not None})
    is_link = bool(query) and verdict not in {Verdict.AGREES, Verdict.UNSUPPORTED}
    inner = f'<a href="#{_escape(query)}">{_escape(text)}</a>' if is_link else _escape(text)
    return f'<td class="{_STYLES.get(verdict, "bad")}">{inner}</td>'


def _build_table(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    head = "".join(f'<th scope="col">{_escape(column)}</th>' for column in ("rule", *columns))
    body = "\n".join(f'<tr><th scope="row">{_escape(name)}</th>{"".join(cells)}</tr>' for name, cells in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _build_differences(results: Results) -> Iterator[str]:
    for verdict in Verdict:
        for rule in results.list_rules():
            found = [one for one in results.differences if (one.rule, one.verdict) == (rule, verdict)]
            for place, one in enumerate(sorted(found, key=measure_question)[:MAX_SHOWN]):
                # Counted, not listed: whoever keeps results may have thinned their differences.
                yield _build_difference(results, one, results.count(verdict, rule) if place == 0 else 0)


def _build_difference(results: Results, difference: Difference, count: int) -> str:
    """Returns one difference; `count`: the smallest one says how many of its kind there are."""
    asked = _escape(write_question(difference.question))
    facts = [
        ("question", f"<code>{_escape(difference.id)}</code>"),
        ("asked", f"<code>{asked}</code>"),
        ("right", f"<code>{_escape(write_answer(difference.right))}</code>"),
        ("answer", f"<code>{_escape(write_answer(difference.answer))}</code>"),
        *([("that is", _escape(difference.why))] if difference.why else []),
        ("because", _escape(difference.because)),
        ("as JSON", f"<pre>{_escape(json.dumps({'id': difference.id, **difference.question}))}</pre>"),
    ]
    data = f' data-rule="{difference.rule}" data-verdict="{difference.verdict}"'
    name = f' data-implementation="{_escape(results.implementation)}"'
    of = f' <span class="of">the smallest of {count}</span>' if count > 1 else ""
    subject = f"{_escape(results.implementation)}, {difference.rule}: <code>{asked}</code>{of}"
    items = "".join(f"<dt>{key}</dt><dd>{text}</dd>" for key, text in facts)
    return (
        f"<details{data}{name}{' data-smallest' if count else ''}>"
        f'<summary><span class="verdict {_STYLES.get(difference.verdict, "bad")}">{difference.verdict}</span> '
        f"{subject}</summary>\n<dl>{items}</dl></details>"
    )


def _build_notes(results: Sequence[Results]) -> str:
    lines = [
        f"{one.implementation}: {told}, {count} questions"
        for one in results
        for told, count in [
            *((f"not offered: {why}", count) for why, count in one.unsupported.items()),
            *((f"refused for another reason, {why}", count) for why, count in one.other_reasons.items()),
        ]
    ]
    if not lines:
        return ""
    items = "".join(f"<li>{_escape(line)}</li>" for line in lines)
    return (
        '<section aria-labelledby="notes-title"><h2 id="notes-title">Not counted</h2>'
        '<p class="note">What is not offered is not wrong, and a refusal is right for whichever reason.</p>'
        f"<ul>{items}</ul></section>"
    )
