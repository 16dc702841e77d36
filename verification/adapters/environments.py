"""The environments of the libraries. Each library has its own, because their pinned requirements conflict.

- An environment is made again only if its requirements change, or the script that builds more for it.
"""

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADAPTERS = ROOT / "conformance/adapters"
ENVIRONMENTS = ROOT / ".venv-adapters"


class Environment:
    """The environment of a library.

    Attributes:
        name: the name of the adapter's folder.
        folder: the folder of the environment.
        python: the interpreter of the environment.
    """

    def __init__(self, name: str) -> None:
        """Sets the paths, and makes nothing."""
        self.name = name
        self.folder = ENVIRONMENTS / name
        self.python = self.folder / "bin/python"

    def prepare(self) -> None:
        """Makes the environment if it does not exist or is out of date.

        Raises:
            subprocess.CalledProcessError: a requirement cannot be installed or built.
        """
        adapter, mark = ADAPTERS / self.name, self.folder / "prepared"
        sources = [path for path in sorted(adapter.iterdir()) if path.is_file() and path.suffix != ".py"]
        digest = hashlib.sha256(b"".join(map(Path.read_bytes, sources))).hexdigest()
        if mark.exists() and mark.read_text() == digest:
            return
        venv.create(self.folder, clear=True)
        # The pip of this machine runs the installation, because its settings name the package index.
        install = ["install", "--quiet", "--disable-pip-version-check", "-r", str(adapter / "requirements.txt")]
        subprocess.run([find_pip_python(), "-m", "pip", "--python", str(self.python), *install], check=True)
        if (adapter / "build").exists():
            subprocess.run([adapter / "build", self.folder], check=True, cwd=ROOT)
        mark.write_text(digest)


def find_pip_python() -> str:
    """Returns an interpreter that has pip: the one that made this environment, because this one may have no pip."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
