"""Writes the parts of the site that are generated from the code.

- The tables and sections of reference pages go to `.reference/`, which is not in git. Pages of `docs/` include them.
  The examples of errors come from real servers, so they are the messages that clients get.
- `docs/conformance.md` and the drawings are in git. With `--check`, the program does not write them. It ends with
  status 1 if a file differs from the generated one.
"""

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from conformance.adapters.libraries import Deviation, Difference, Implementation, Library, Matter
from tensor_reshape.cli.__main__ import COMMANDS, commands
from tensor_reshape.cli.lazy_commands import load_all
from tensor_reshape.cli.options import connection_options
from tensor_reshape.client import Reason
from tensor_reshape.conformance.cases import RULES, SuiteSize
from tensor_reshape.conformance.results import Results, describe_answer, describe_query
from tensor_reshape.conformance.verdicts import CaseVerdict
from tensor_reshape.drawings.svg import draw_answer, draw_rejection
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.notation import parse_shape
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeRequest
from tensor_reshape.rules.sizes import format_size
from tensor_reshape.server.config import SETTINGS, Config, Setting, list_settings
from tensor_reshape.server.options import SettingOption
from tensor_reshape.server.telemetry.metrics import GAUGE, PROCESS_FAMILIES, SERVER_FAMILIES
from tensor_reshape.server.telemetry.prometheus import PROCESS_PREFIX
from verification.adapters import explain, list_differences, list_reports, load_libraries, read_results, read_title
from verification.explanations import EXPLANATIONS
from verification.lemmas import LEMMAS
from verification.provocations import Servers, provoke, run_servers

_INTRODUCTION = """\
# Conformance of libraries

<!-- Written by scripts/site from conformance/results, which scripts/verify adapters writes. -->

Look up how your library deviates from the specifications of the operations. This table shows the most serious
deviation of each library:
"""

_METHOD = """\

To get these results, the [conformance suite](how-to/conformance.md) was run with each library in its own environment.
No library supports all three operations (StaticReshape, DynamicReshape and Reshape-1). Queries that a library does not
support are not counted. The section of each library has the tested versions and the date. To test a library again, run
`scripts/verify adapters NAME` (`conformance/adapters/README.md`). To test your own code, see
[Test your own implementation](how-to/conformance.md).

## How to read the tables

- The column **correct answers** shows the number of correct answers and the number of supported queries. Both numbers
  are sums over all tested interfaces of the library.
- The column **matters** shows the worst effect of a deviation. Ordered from the most serious to the least serious, the
  effects are: wrong memory (the library reads or writes bytes outside the tensor), a crash, a wrong shape, a missing
  error, a needless rejection, and a weaker answer (correct, but wider than necessary).
- A deviation with the effect **another definition** is not a defect. The library documents different behaviour, or no
  specification decides which behaviour is right.
- The column **example** shows the smallest query with the deviation. In a query, `?` is an unknown dimension, `2..4` is
  a dimension from 2 to 4, and `[...]` is a shape of unknown rank. The list after each table names the case of the suite
  that has this query, and the rule that decides the correct answer.
"""

_MATRIX = """\
## Correct answers for each rule

Each cell of this table shows the number of correct answers and the number of queries that the library supports. If the
library supports no query of a rule, the cell shows a `-`. No library infers conditions, so for the rule `conditions`,
only the shapes are compared. Do not compare rows in which the column `sizes` differs, because `core` has a few cases
for each limit of a rule, and the other sizes have many similar cases. The page
[Test your own implementation](how-to/conformance.md) explains the rules.
"""

_VERDICTS = """\

## Number of answers for each verdict

A **weaker** answer is correct but wider than necessary. A **tighter** answer is narrower than the suite's answer, and
no values of the unknown dimensions contradict it.
"""

_REPORTS = """\

## Reports

Each defect has a report for the developers of the library. A report describes what happens. It contains the smallest
program that shows the defect, and the sentence of the documentation that requires a different result. Each program was
run, and printed exactly the output that the report shows. Before you publish a report about wrong memory, send it
privately to the contact that the library's security policy names.
"""

_UNEXPLAINED = "Not explained"
_SHOWN_BY = {
    Matter.CRASH: CaseVerdict.CRASH,
    Matter.WRONG_SHAPE: CaseVerdict.WRONG_SHAPE,
    Matter.MISSING_ERROR: CaseVerdict.MISSING_ERROR,
    Matter.NEEDLESS_REJECTION: CaseVerdict.SPURIOUS_ERROR,
    Matter.WEAKER_ANSWER: CaseVerdict.WEAKER,
}
_SHOWN = [*(verdict for verdict in CaseVerdict if verdict.is_difference), CaseVerdict.TIGHTER, CaseVerdict.AGREES]


class LibraryResults(NamedTuple):
    """An implementation and its results."""

    library: Library
    implementation: Implementation
    results: Results


def build_conformance(libraries: Sequence[Library], results: Mapping[str, Results]) -> str:
    asked = [
        LibraryResults(library, implementation, results[implementation.name])
        for library in libraries
        for implementation in library.implementations
        if implementation.name in results
    ]
    shown = [library for library in libraries if any(one.library is library for one in asked)]
    lines = [
        _INTRODUCTION,
        *_build_summary(shown, asked),
        _METHOD,
        *(line for library in shown for line in _build_section(library, asked)),
        _MATRIX,
        *_build_matrix(asked),
        _VERDICTS,
        *_build_verdicts(asked),
        _REPORTS,
        *_build_reports(shown),
    ]
    return "\n".join(lines) + "\n"


def _build_summary(libraries: Sequence[Library], asked: Sequence[LibraryResults]) -> Iterator[str]:
    """Yields a row for each library, with its most serious deviation."""
    yield "| library | correct answers | most serious deviation | matters |"
    yield "|---|---:|---|---|"
    for library in libraries:
        results = [one.results for one in asked if one.library is library]
        found = explain(library, (one for each in results for one in list_differences(each)))
        worst = next(filter(None, found), None)
        cells = (worst.title, str(worst.matter)) if worst else ("none", "")
        yield join_cells((f"[{library.title}](#{library.title.lower()})", _sum_share(results), *cells))


def _sum_share(results: Sequence[Results]) -> str:
    """Returns the number of correct answers and of supported queries, over all implementations of a library."""
    right = sum(one.count(verdict) for one in results for verdict in (CaseVerdict.AGREES, CaseVerdict.TIGHTER))
    supported = right + sum(one.count(verdict) for one in results for verdict in CaseVerdict if verdict.is_difference)
    return f"{right}/{supported}"


def _build_matrix(asked: Sequence[LibraryResults]) -> Iterator[str]:
    yield join_cells(("implementation", "sizes", *(f"`{rule}`" for rule in RULES)))
    yield f"|---|---|{'---:|' * len(RULES)}"
    for one in asked:
        shares = [_format_share(one.results.counts.get(rule, {})) for rule in RULES]
        yield join_cells((f"`{one.implementation.name}`", _format_sizes(one.results), *shares))


def _format_sizes(results: Results) -> str:
    return "all" if len(results.sizes) == len(SuiteSize) else ", ".join(f"`{size}`" for size in results.sizes)


def _format_share(verdicts: Mapping[str, int]) -> str:
    offered = sum(verdicts.values()) - verdicts.get(CaseVerdict.UNSUPPORTED, 0)
    right = verdicts.get(CaseVerdict.AGREES, 0) + verdicts.get(CaseVerdict.TIGHTER, 0)
    return f"{right}/{offered}" if offered else "-"


def _build_verdicts(asked: Sequence[LibraryResults]) -> Iterator[str]:
    yield join_cells(("implementation", *(str(verdict).replace("_", " ") for verdict in _SHOWN), "not supported"))
    yield f"|---|{'---:|' * (len(_SHOWN) + 1)}"
    for one in asked:
        counts = [one.results.count(verdict) for verdict in (*_SHOWN, CaseVerdict.UNSUPPORTED)]
        yield join_cells((f"`{one.implementation.name}`", *(str(count) if count else "" for count in counts)))


def _build_section(library: Library, asked: Sequence[LibraryResults]) -> Iterator[str]:
    of_library = [one for one in asked if one.library is library]
    yield from (f"## {library.title}", "")
    for one in of_library:
        results, asked_for = one.results, one.implementation.asked
        versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
        sizes = ", ".join(f"`{size}`" for size in results.sizes)
        tested = f"The test on {results.date} used {versions} and the suite's cases of the sizes {sizes}."
        yield f"- `{results.implementation}`: {asked_for} {tested}"
    yield from ("", library.lacks, "")
    differences = [difference for one in of_library for difference in list_differences(one.results)]
    if not differences:
        yield from ("Every answer is correct.", "")
        return
    explained = explain(library, differences)
    yield "| deviation | matters | rules | implementations | example | answer of the library | correct answer |"
    yield "|---|---|---|---|---|---|---|"
    for deviation, found in explained.items():
        yield _build_row(deviation, found)
    yield ""
    yield from (_build_reason(deviation, found) for deviation, found in explained.items())
    yield ""


def _build_row(deviation: Deviation | None, found: Sequence[Difference]) -> str:
    smallest, rules = find_example(deviation, found), {difference.rule for difference in found}
    return join_cells(
        (
            deviation.title if deviation else _UNEXPLAINED,
            str(deviation.matter) if deviation else "",
            ", ".join(f"`{rule}`" for rule in RULES if rule in rules),
            ", ".join(f"`{name}`" for name in dict.fromkeys(difference.implementation for difference in found)),
            _quote(describe_query(dict(smallest.asked))),
            _quote(describe_answer(dict(smallest.answer))) if smallest.answer else smallest.verdict,
            _quote(describe_answer(dict(smallest.right))),
        )
    )


def _quote(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _build_reason(deviation: Deviation | None, found: Sequence[Difference]) -> str:
    smallest = find_example(deviation, found)
    report = f" [Report](conformance/reports/{deviation.report}.md)." if deviation and deviation.report else ""
    why = f"{deviation.title}.** {deviation.why}" if deviation else f"{_UNEXPLAINED}.**"
    return f"- **{why}{report} The case `{smallest.case}` tests this rule: {smallest.because}"


def find_example(deviation: Deviation | None, found: Sequence[Difference]) -> Difference:
    """Returns the shortest difference that shows the effect of a deviation, or the shortest of all if none shows it."""
    verdict = _SHOWN_BY.get(deviation.matter) if deviation else None
    shown = [difference for difference in found if difference.verdict == verdict]
    return min(shown or found, key=lambda difference: (len(describe_query(dict(difference.asked))), difference.case))


def _build_reports(libraries: Sequence[Library]) -> Iterator[str]:
    for library in libraries:
        for report in list_reports(library):
            yield f"- [{read_title(report)}](conformance/reports/{report}.md)"


_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([\\*<\[\]])")


def join_cells(cells: Iterable[str]) -> str:
    padded = (f" {cell.replace('|', '&#124;')} " if cell else " " for cell in cells)
    return f"|{'|'.join(padded)}|"


def escape(text: str) -> str:
    """Returns the text as Markdown that shows it unchanged; code in backticks stays code."""
    pieces = _CODE.split(text)
    return "".join(piece if piece.startswith("`") else _SPECIAL.sub(r"\\\1", piece) for piece in pieces)


def collapse_lines(text: str) -> str:
    return " ".join(text.split())


def _ask(
    data: str, shape: str, operation: Operation = STATIC_RESHAPE, *, special_zero: bool = False, expected: str = ""
) -> AnyQuestion:
    dims = parse_shape(expected, "expected_shape") if expected else None
    return Question(operation, parse_shape(data, "data"), parse_shape(shape, "shape"), special_zero, None, dims)


DRAWINGS: Mapping[str, AnyQuestion] = {
    # index.md
    "too-many-elements": _ask("2,3", "0,5", RESHAPE, special_zero=True),
    # reshape.md
    "merge": _ask("2,3,4", "6,4"),
    "infer": _ask("2,3,4", "2,-1"),
    "copy-and-infer": _ask("2,3,4", "0,-1", special_zero=True),
    "not-divisible": _ask("2,3,4", "5,-1"),
    # rules-in-examples.md
    "copied-size": _ask("4,5,6", "-1,0", special_zero=True),
    "second-minus-one": _ask("2,3,4", "-1,3,-1"),
    "volume": _ask("2,3", "4,2"),
    "copied-zero-of-graph": _ask("4,0,2", "-1,0", special_zero=True),
    "copied-zero-of-reshape": _ask("4,0,2", "-1,0", RESHAPE, special_zero=True),
    # partial-shapes.md
    "interval": _ask("2..8,4,3", "-1,3"),
    "unknown-rank": _ask("...", "3,-1,0", RESHAPE, special_zero=True),
    "expected": _ask("2..8,?", "-1,4", expected="6,?"),
    # sound-and-tight.md
    "tight": _ask("2..4,6", "-1,4"),
    "wide": _ask("N*M:4..7,N:3..5", "-1"),
    "no-instance": _ask("5..7,12", "40,-1"),
    # symbols.md
    "heads": _ask("N,S,768", "0,0,12,64", special_zero=True),
    "joined-names": _ask("N,S,768", "-1,768"),
    "equal-names": _ask("N,4", "M,2"),
    # differences.md
    "volume-beside-a-copy": _ask("2,3", "0,2", special_zero=True),
    "literal-zero": _ask("0,3", "0,-1"),
    "contradiction": _ask("16,4,?,8", "32,4"),
}


def draw_all() -> dict[str, str]:
    return {name: draw_question(asked) for name, asked in DRAWINGS.items()}


def draw_question(question: AnyQuestion) -> str:
    try:
        answer = answer_question(ShapeRequest(question, explain=True))
    except ReshapeError as error:
        return draw_rejection(question, error, is_standalone=True)
    return draw_answer(question, answer, is_standalone=True)


# A dataclass takes the fields of its bases in the reverse order: this is the order of `--help`.
GROUPS = Config.__bases__[::-1]


def build_configuration() -> Iterator[str]:
    for group in GROUPS:
        summary, _, details = (group.__doc__ or "").partition("\n\n")
        yield from (f"### {collapse_lines(summary).rstrip('.')}", "")
        if details:
            yield from (collapse_lines(details), "")
        yield from ("| flag | values | default | meaning |", "|---|---|---|---|")
        yield from (_build_setting(setting) for setting in list_settings(group))
        yield ""


def _build_setting(setting: Setting) -> str:
    flags = f"`{setting.flag}`"
    if setting.type is bool:
        flags += f" `--no-{setting.flag.removeprefix('--')}`"
    return join_cells((flags, describe_values(setting), describe_default(setting), setting.help))


def describe_values(setting: Setting) -> str:
    if not setting.is_size:
        return " ".join(f"`{choice}`" for choice in setting.choices) or setting.bounds
    ends = [format_size(int(end)) for end in (setting.least, setting.most) if end is not None]
    return f"at least {ends[0]}" if len(ends) == 1 else " to ".join(ends)


def describe_default(setting: Setting) -> str:
    """Returns the default as text, or in words if it depends on the system."""
    if setting.system_default:
        return setting.system_default
    default = setting.default
    if setting.type is bool:
        return "on" if default else "off"
    values = default if setting.is_repeatable else (default,)
    return " ".join(f"`{format_size(value) if setting.is_size else value}`" for value in values if value is not None)


PROGRAM = "tensor-reshape"


@click.command
@connection_options
def _connect() -> None:
    """Declares only the connection options, which most commands share."""


CONNECTION = frozenset(str(option.name) for option in _connect.params)


def build_commands() -> Iterator[str]:
    """Yields the table of connection options, and a section for each command."""
    parent = click.Context(commands, info_name=PROGRAM)
    yield from ("## Connection options", "", *_build_connection_options(click.Context(_connect, parent=parent)), "")
    for name, command in sorted(load_all(COMMANDS).items()):
        yield from _build_command(name, command, parent)


def _build_connection_options(context: click.Context) -> Iterator[str]:
    """Yields the table of the connection options, with their environment variables."""
    yield from ("You can use these options with every command that calls a server. A flag overrides its variable.", "")
    yield from ("| option | variable | default | meaning |", "|---|---|---|---|")
    for option in _connect.params:
        if isinstance(option, click.Option):
            yield join_cells(_list_cells(option, context, _list_variables(option)))


def _list_variables(option: click.Option) -> str:
    """Returns the environment variables of an option. click has one name or a list of names."""
    names = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
    return " ".join(f"`{name}`" for name in names)


def _build_command(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    """Yields the section of a command and of its subcommands."""
    context = click.Context(command, info_name=name, parent=parent)
    path = context.command_path.removeprefix(f"{PROGRAM} ")
    yield from (f"## {path}", "", "```text", f"{PROGRAM} {path} {' '.join(command.collect_usage_pieces(context))}")
    yield from ("```", "", *_build_paragraphs(command.help), *_build_options(command, context))
    yield from _build_paragraphs(command.epilog)
    for inner, following in sorted(command.commands.items()) if isinstance(command, click.Group) else ():
        yield from _build_command(inner, following, context)


def _build_paragraphs(text: str | None) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith("\b\n"):  # click's mark of lines that stay as they are
            yield from ("```text", *paragraph.splitlines()[1:], "```", "")
        elif paragraph:
            yield from (escape(collapse_lines(paragraph)), "")


def _build_options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yields the table of a command's options, without the settings of the server and the connection options."""
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    own = [option for option in options if not (isinstance(option, SettingOption) or option.name in CONNECTION)]
    if own:
        rows = (join_cells(_list_cells(option, context)) for option in own)
        yield from ("| option | default | meaning |", "|---|---|---|", *rows, "")
    settings = {option.name for option in options if isinstance(option, SettingOption)}
    if settings:
        others = ", ".join(f"`{setting.flag}`" for setting in SETTINGS if setting.name not in settings)
        text = "You can also pass every setting of [the configuration](configuration.md) as a flag"
        yield from (f"{text}, except {others}." if others else f"{text}.", "")
    if {option.name for option in options} >= CONNECTION:
        yield from ("You can also pass the [connection options](#connection-options).", "")


def _list_cells(option: click.Option, context: click.Context, *more: str) -> tuple[str, ...]:
    """Returns the cells of an option: its flags, further cells, its default, and its help."""
    flags = " ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
    default = "required" if option.required else _describe_default(option, context)
    return flags + value, *more, default, escape(collapse_lines(option.help or ""))


def _describe_default(option: click.Option, context: click.Context) -> str:
    extra = option.get_help_extra(context)
    return f"`{extra['default']}`" if "default" in extra else ""


ROOT = Path(__file__).parents[1]
DOCS, REFERENCE = ROOT / "docs", ROOT / ".reference"


def main() -> None:
    parser = argparse.ArgumentParser("python -m verification.document", description=__doc__)
    parser.add_argument("--check", action="store_true", help="do not write files in git; status 1 if one would change")
    check: bool = parser.parse_args().check
    REFERENCE.mkdir(exist_ok=True)
    for name, lines in build_parts().items():
        (REFERENCE / f"{name}.md").write_text("\n".join([*lines, ""]))
    pages = {
        DOCS / "conformance.md": build_conformance(load_libraries(), read_results()),
        **{DOCS / f"concepts/drawings/{name}.svg": text for name, text in draw_all().items()},
    }
    stale = [page for page, text in pages.items() if not page.exists() or page.read_text() != text]
    for page in stale:
        if not check:
            page.write_text(pages[page])
        print(f"{page.relative_to(ROOT)} {'differs from the generated file' if check else 'is written'}")
    sys.exit(bool(check and stale))


def build_parts() -> dict[str, Iterable[str]]:
    """Returns the lines of each file that a page includes."""
    with run_servers() as servers:
        errors = list(build_errors(servers))
    return {
        "errors": errors,
        "configuration": build_configuration(),
        "metrics": build_metrics(),
        "commands": build_commands(),
        "lemmas": build_lemmas(),
    }


def build_errors(servers: Servers) -> Iterator[str]:
    yield "| reason | code | rule | retry | when | what to do | example | metadata |"
    yield "|---|---|---|---|---|---|---|---|"
    for reason in Reason:
        rule = "" if reason.rule is None else str(reason.rule)
        retry = "yes" if reason.is_retryable else ""
        example = provoke(reason, servers)
        keys = " ".join(f"`{key}`" for key in sorted(example.keys))
        yield join_cells((f"`{reason}`", reason.code_name, rule, retry, *EXPLANATIONS[reason], example.message, keys))


def build_metrics() -> Iterator[str]:
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for family in (*PROCESS_FAMILIES, *SERVER_FAMILIES):
        labels = " ".join(f"`{label}`" for label in family.labels)
        yield join_cells((f"`{family.shown_name}`", family.kind, labels, family.help))
    names = f"`{PROCESS_PREFIX}_process_*`"
    yield join_cells((names, GAUGE, "`worker`", "Memory, processor time and file descriptors of each worker."))
    yield join_cells(("`process_*`", GAUGE, "", "The same for the process with the metrics port."))


def build_lemmas() -> Iterator[str]:
    yield "| lemma | statement | claims | used by |"
    yield "|---|---|---|---|"
    for lemma in LEMMAS:
        claims = "; ".join(name for name, _ in lemma.claim())
        yield join_cells((f"`{lemma.name}`", lemma.statement, claims, ", ".join(f"`{one}`" for one in lemma.used_by)))


if __name__ == "__main__":
    main()
