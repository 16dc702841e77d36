"""Writes what of docs follows from the code: the errors, what libraries answer, parts of other pages, the drawings.

The reasons are provoked from real servers, so that the page shows what a caller gets. `--check` writes nothing, and
ends with status 1 where a page is not what would be written.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tensor_reshape.client import Reason
from tensor_reshape.server.metrics.expositions import PROCESS_PREFIX
from tensor_reshape.server.metrics.families import GAUGE, PROCESS_FAMILIES, SERVER_FAMILIES
from verification.adapters.libraries import load_libraries
from verification.adapters.pages import build as build_answers
from verification.adapters.results import read_results
from verification.document.commands import build_commands
from verification.document.configuration import build_configuration
from verification.document.contract import build_contract, read_sources
from verification.document.drawings import draw_all
from verification.document.provocations import PROVOCATIONS, provoke
from verification.document.servers import Servers, run_servers
from verification.document.tables import join_cells
from verification.lemmas import LEMMAS

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE, DRAWINGS = DOCS / "reference", DOCS / "concepts/drawings"
ERRORS = REFERENCE / "errors.md"
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
            DOCS / "conformance.md": build_answers(load_libraries(), read_results()),
            **{page: insert(page.read_text(), lines) for page, lines in build_tables().items()},
            **{DRAWINGS / f"{name}.svg": text for name, text in draw_all().items()},
        }
    stale = [page for page, text in pages.items() if not page.exists() or page.read_text() != text]
    for page in stale:
        if not check:
            page.write_text(pages[page])
        print(f"{page.relative_to(DOCS.parent)} {'is not what follows from the code' if check else 'is written'}")
    sys.exit(bool(check and stale))


def build_tables() -> dict[Path, Iterable[str]]:
    """Returns what is inserted into each page that people write besides."""
    sources = read_sources()
    return {
        REFERENCE / "configuration.md": build_configuration(),
        REFERENCE / "metrics.md": build_metrics(),
        REFERENCE / "commands.md": build_commands(),
        REFERENCE / "contract.md": (
            line
            for name in ("reshape", "tensor")
            for line in build_contract(sources[f"tensor_reshape/v1/{name}.proto"])
        ),
        REFERENCE / "inference-protocol.md": build_contract(sources["inference/open_inference.proto"]),
        DOCS / "architecture/lemmas.md": build_lemmas(),
    }


def build_errors(servers: Servers) -> str:
    """Returns the page of the reasons."""
    return "\n".join([_INTRODUCTION, *(_build_reason(reason, servers) for reason in Reason), _END])


def insert(page: str, table: Iterable[str]) -> str:
    """Returns a page with what is between the marks as it is to be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *table, "", END + after])


def build_metrics() -> Iterator[str]:
    """Yields the table of what a server shows to Prometheus."""
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for family in (*PROCESS_FAMILIES, *SERVER_FAMILIES):
        labels = " ".join(f"`{label}`" for label in family.labels)
        yield join_cells((f"`{family.shown_name}`", family.kind, labels, family.help))
    names = f"`{PROCESS_PREFIX}_process_*`"
    yield join_cells(
        (names, GAUGE, "`worker`", "What the system says of each worker: memory, processor time, descriptors.")
    )
    yield join_cells(("`process_*`", GAUGE, "", "The same of the process that has the port."))


def build_lemmas() -> Iterator[str]:
    """Yields the table of the lemmas."""
    yield "| lemma | statement | claims | used by |"
    yield "|---|---|---|---|"
    for lemma in LEMMAS:
        claims = "; ".join(name for name, _ in lemma.claim())
        yield join_cells((f"`{lemma.name}`", lemma.statement, claims, ", ".join(f"`{one}`" for one in lemma.used_by)))


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
    return join_cells((f"`{reason}`", reason.code_name, rule, again, provocation.when, example))


if __name__ == "__main__":
    main()
