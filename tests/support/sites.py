"""The site of the pages, as `scripts/check` makes it."""

import os
import subprocess
import sys
from pathlib import Path

from documents import ROOT

DOCS, SITE = ROOT / "docs", ROOT / ".site"
PAGES = sorted(page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md"))


def make_site() -> Path:
    """Makes the parts of the site that changed, and returns its folder.

    Raises:
        AssertionError: Sphinx gives a warning.
        subprocess.CalledProcessError: A file in git is not what follows from the code.
    """
    env = {**os.environ, "PYTHONPATH": "tests/support"}
    subprocess.run([sys.executable, "-m", "verification.document", "--check"], cwd=ROOT, env=env, check=True)
    command = [sys.executable, "-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning", "--keep-going"]
    done = subprocess.run([*command, DOCS, SITE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return SITE
