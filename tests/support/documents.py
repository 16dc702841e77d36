"""The pages for readers, the code blocks in them, and their site, as `scripts/check` makes it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DESCRIPTION = ROOT / "DESCRIPTION.md"  # what a package index shows
PAGES = [
    README,
    DESCRIPTION,
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
ADDRESS = "localhost:50051"  # the server of all pages
_SAVED = re.compile(r"^Save this as `([\w.]+)`.*?^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""A file that a page shows and its commands use."""
_BLOCK = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    language: str  # the language in the first line of the block
    text: str  # the code
    name: str  # the page and the line of the block


def find_blocks(language: str) -> list[Block]:
    return [block for page in PAGES for block in read_blocks(page) if block.language == language]


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(match[1], match[2], f"{page.name}:{text.count(chr(10), 0, match.start()) + 1}")
        for match in _BLOCK.finditer(text)
    ]


def run_console(page: Path, folder: Path, env: dict[str, str]) -> tuple[str, str]:
    """Runs the commands of a page one after the other in a folder; returns the output that it shows, and theirs.

    The folder gets the files that the page shows. ADDRESS in a command becomes TENSOR_RESHAPE_SERVER of `env`.
    """
    for name, text in _SAVED.findall(page.read_text()):
        (folder / name).write_text(text)
    shown = "".join(block.text for block in read_blocks(page) if block.language == "console")
    printed = ""
    for command in re.findall(r"^\$ (.*)$", shown, re.MULTILINE):
        merged: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        given = command.replace(ADDRESS, env["TENSOR_RESHAPE_SERVER"])
        done = subprocess.run(given, shell=True, cwd=folder, env=env, check=False, **merged)
        printed += f"$ {command}\n{done.stdout}"
    return shown, printed


def read_prose(page: Path) -> str:
    return _BLOCK.sub("", page.read_text())


_PRINTED = re.compile(r"^.*(?:print|cout).*(?:#|//) (.*)$", re.MULTILINE)


def read_printed(program: Path) -> list[str]:
    """Returns the words of the comments that follow its print statements."""
    return " ".join(_PRINTED.findall(program.read_text())).split()


DOCS, SITE = ROOT / "docs", ROOT / ".site"
SITE_PAGES = sorted(page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md"))


def make_site() -> Path:
    """Makes the parts of the site that changed, and returns its folder."""
    env = {**os.environ, "PYTHONPATH": "tests/support"}
    subprocess.run([sys.executable, "-m", "verification.document", "--check"], cwd=ROOT, env=env, check=True)
    command = [sys.executable, "-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning", "--keep-going"]
    done = subprocess.run([*command, DOCS, SITE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return SITE
