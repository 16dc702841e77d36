"""The environments of the libraries: one each, as their pins contradict each other.

- An environment is made again where its requirements, or the script that builds more, have changed, and not otherwise.
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
    """Where a library is installed.

    Attributes:
        name: of the adapter's folder.
        folder: of the environment.
        python: its interpreter.
    """

    def __init__(self, name: str) -> None:
        """Names it; nothing is made."""
        self.name = name
        self.folder = ENVIRONMENTS / name
        self.python = self.folder / "bin/python"

    def prepare(self) -> None:
        """Makes it, where it is not there as it is to be.

        Raises:
            subprocess.CalledProcessError: something cannot be installed, or built.
        """
        adapter, mark = ADAPTERS / self.name, self.folder / "prepared"
        sources = [path for path in sorted(adapter.iterdir()) if path.is_file() and path.suffix != ".py"]
        digest = hashlib.sha256(b"".join(map(Path.read_bytes, sources))).hexdigest()
        if mark.exists() and mark.read_text() == digest:
            return
        venv.create(self.folder, clear=True)
        # By the pip of this machine, whose settings tell where packages come from.
        install = ["install", "--quiet", "--disable-pip-version-check", "-r", str(adapter / "requirements.txt")]
        subprocess.run([find_pip_python(), "-m", "pip", "--python", str(self.python), *install], check=True)
        if (adapter / "build").exists():
            subprocess.run([adapter / "build", self.folder], check=True, cwd=ROOT)
        mark.write_text(digest)


def find_pip_python() -> str:
    """Returns an interpreter with a pip: that which made this environment, as this one may have none."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
