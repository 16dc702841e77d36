"""Writes the parts of the site that are generated from the code.

- The tables and sections of reference pages go to `.reference/`, which is not in git. Pages of `docs/` include them.
  The examples of errors come from real servers, so they are the messages that clients get.
- `docs/conformance.md` and the drawings are in git. With `--check`, the program does not write them. It ends with
  status 1 if a file differs from the generated one.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tensor_reshape.client import Reason
from tensor_reshape.server.telemetry.metrics import GAUGE, PROCESS_FAMILIES, SERVER_FAMILIES
from tensor_reshape.server.telemetry.prometheus import PROCESS_PREFIX
from verification.adapters.libraries import load_libraries
from verification.adapters.pages import build as build_answers
from verification.adapters.results import read_results
from verification.document.commands import build_commands
from verification.document.configuration import build_configuration
from verification.document.drawings import draw_all
from verification.document.explanations import EXPLANATIONS
from verification.document.provocations import provoke
from verification.document.servers import Servers, run_servers
from verification.document.tables import join_cells
from verification.lemmas import LEMMAS

ROOT = Path(__file__).parents[2]
DOCS, REFERENCE = ROOT / "docs", ROOT / ".reference"


def main() -> None:
    """Writes the parts, or checks those that are in git."""
    parser = argparse.ArgumentParser("python -m verification.document", description=__doc__)
    parser.add_argument("--check", action="store_true", help="do not write files in git; status 1 if one would change")
    check: bool = parser.parse_args().check
    REFERENCE.mkdir(exist_ok=True)
    for name, lines in build_parts().items():
        (REFERENCE / f"{name}.md").write_text("\n".join([*lines, ""]))
    pages = {
        DOCS / "conformance.md": build_answers(load_libraries(), read_results()),
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
    """Yields the table of error reasons."""
    yield "| reason | code | rule | retry | when | what to do | example | metadata |"
    yield "|---|---|---|---|---|---|---|---|"
    for reason in Reason:
        rule = "" if reason.rule is None else str(reason.rule)
        retry = "yes" if reason.is_retryable else ""
        example = provoke(reason, servers)
        keys = " ".join(f"`{key}`" for key in example.keys)
        yield join_cells((f"`{reason}`", reason.code_name, rule, retry, *EXPLANATIONS[reason], example.message, keys))


def build_metrics() -> Iterator[str]:
    """Yields the table of metrics."""
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for family in (*PROCESS_FAMILIES, *SERVER_FAMILIES):
        labels = " ".join(f"`{label}`" for label in family.labels)
        yield join_cells((f"`{family.shown_name}`", family.kind, labels, family.help))
    names = f"`{PROCESS_PREFIX}_process_*`"
    yield join_cells((names, GAUGE, "`worker`", "Memory, processor time and file descriptors of each worker."))
    yield join_cells(("`process_*`", GAUGE, "", "The same for the process with the metrics port."))


def build_lemmas() -> Iterator[str]:
    """Yields the table of the lemmas."""
    yield "| lemma | statement | claims | used by |"
    yield "|---|---|---|---|"
    for lemma in LEMMAS:
        claims = "; ".join(name for name, _ in lemma.claim())
        yield join_cells((f"`{lemma.name}`", lemma.statement, claims, ", ".join(f"`{one}`" for one in lemma.used_by)))


if __name__ == "__main__":
    main()
