"""Writes what of the pages follows from the code: docs/reference/errors.md, and tables in docs/deployment.

The reasons are provoked from real servers, so that the page shows what a caller gets. `--check` writes nothing, and
ends with status 1 where a page is not what would be written.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from tensor_reshape.client import Reason
from tensor_reshape.server.__main__ import SettingOption, serve
from tensor_reshape.server.metrics.expositions import PROCESS_PREFIX
from tensor_reshape.server.metrics.families import GAUGE, PROCESS_FAMILIES, SERVER_FAMILIES
from verification.document.provocations import PROVOCATIONS, provoke
from verification.document.servers import Servers, run_servers

DOCS = Path(__file__).parents[2] / "docs"
ERRORS, SERVER, METRICS = DOCS / "reference/errors.md", DOCS / "deployment/server.md", DOCS / "deployment/metrics.md"
BEGIN, END = "<!-- Written by scripts/document. -->", "<!-- End of what scripts/document writes. -->"

_INTRODUCTION = """\
# Errors

<!-- Written by scripts/document from the reasons in the code: change it there. -->

Every refusal has a permanent **reason**, a sentence, the field to blame where there is one, and the index and the
values as metadata. In Python it is an exception: INVALID_ARGUMENT is `InvalidRequestError`, RESOURCE_EXHAUSTED is
`LimitError`, UNAUTHENTICATED and PERMISSION_DENIED have classes of these names ([The Python
client](../how-to/python-client.md#exceptions)). In other languages it is a `google.rpc.Status` in the trailing metadata
([Clients](../how-to/clients.md#errors)). A field is a path from the request: `shape[1]` is an item of the target,
`data.dims[0]` a dim of the data.

**Rule** is the number of the broken rule in [What the operations do](../concepts/operations.md#the-five-rules).
**Again** says whether the same call may be accepted later: those refusals carry `RetryInfo`, and the SDK follows it by
itself. The examples are what real servers answered.

| reason | code | rule | again | the request is refused where | example |
|---|---|---|---|---|---|"""

_END = """\

## Other ends of a call

| code | in Python | meaning |
|---|---|---|
| UNAVAILABLE | `UnavailableError` | no server took the call, also after the SDK's retries |
| DEADLINE_EXCEEDED | `CallTimeoutError` | the deadline passed |
| INTERNAL | `InternalServerError` | a bug of the server, whose log has the traceback; the text is "internal error" |
| CANCELLED | `ServiceError` | the caller gave up; or the server did, where its answers were not read or, with \
`--serving threads`, the message of a unary call had not arrived |
"""


def main() -> None:
    """Writes the pages, or checks them."""
    parser = argparse.ArgumentParser("scripts/document", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where a page would change")
    check: bool = parser.parse_args().check
    with run_servers() as servers:
        pages = {
            ERRORS: build_errors(servers),
            SERVER: insert(SERVER.read_text(), build_options()),
            METRICS: insert(METRICS.read_text(), build_metrics()),
        }
    stale = [page for page, text in pages.items() if not page.exists() or page.read_text() != text]
    for page in stale:
        if not check:
            page.write_text(pages[page])
        print(f"{page.relative_to(DOCS.parent)} {'is not what follows from the code' if check else 'is written'}")
    sys.exit(bool(check and stale))


def build_errors(servers: Servers) -> str:
    """Returns the page of the reasons."""
    return "\n".join([_INTRODUCTION, *(_build_reason(reason, servers) for reason in Reason), _END])


def insert(page: str, table: Iterable[str]) -> str:
    """Returns a page with the table as it is."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *table, "", END + after])


def build_options() -> Iterator[str]:
    """Yields the table of the options of `serve`."""
    yield "| flag | environment | default | meaning |"
    yield "|---|---|---|---|"
    context = click.Context(serve, info_name="serve")
    for option in serve.params:
        if isinstance(option, SettingOption):
            flags = " ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
            default = option.show_default if isinstance(option.show_default, str) else _format_default(option, context)
            variable = f"TENSOR_RESHAPE_{str(option.name).upper()}"
            yield _join((flags, f"`{variable}`", default, option.help or ""))


def build_metrics() -> Iterator[str]:
    """Yields the table of what a server shows to Prometheus."""
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for family in (*PROCESS_FAMILIES, *SERVER_FAMILIES):
        labels = " ".join(f"`{label}`" for label in family.labels)
        yield _join((f"`{family.shown_name}`", family.kind, labels, family.help))
    names = f"`{PROCESS_PREFIX}_process_*`"
    yield _join((names, GAUGE, "`worker`", "What the system says of each worker: memory, processor time, descriptors."))
    yield _join(("`process_*`", GAUGE, "", "The same of the process that has the port."))


def _build_reason(reason: Reason, servers: Servers) -> str:
    """Returns a row.

    Raises:
        LookupError: the refusal has another code, or is explained by another rule, than the reason says.
    """
    provocation, refusal = PROVOCATIONS[reason], provoke(reason, servers)
    if refusal is not None and refusal.code_name != reason.code_name:
        message = f"{reason} comes with {refusal.code_name}, not {reason.code_name}"
        raise LookupError(message)
    example = provocation.example or (refusal.message if refusal is not None else "")
    rule = "" if reason.rule is None else str(reason.rule)
    if refusal is not None and refusal.metadata.get("rule", rule) != rule:
        message = f"{reason} is explained with rule {refusal.metadata['rule']}, not {rule}"
        raise LookupError(message)
    again = "yes" if reason.is_retryable else ""
    return _join((f"`{reason}`", reason.code_name, rule, again, provocation.when, example))


def _format_default(option: click.Option, context: click.Context) -> str:
    default = option.get_default(context)
    values = default if isinstance(default, list | tuple) else [default]
    return " ".join(f"`{value}`" for value in values if isinstance(value, str | int | float))


def _join(cells: Iterable[str]) -> str:
    padded = (f" {cell.replace('|', '&#124;')} " if cell else " " for cell in cells)
    return f"|{'|'.join(padded)}|"


if __name__ == "__main__":
    main()
