"""Clients in other languages and on other libraries, each in its own environment.

A program is a folder of `tests/clients/programs`:

- `about.json`: `title`, whether `.ci/run` tests it (`tested`), the protocols whose tables it supports (`tables`), the
  flags of the server that it calls (`server`), whether it calls the HTTP port (`http`), `page`, and `exceptions`: the
  rows in which this client must get a different result. Each exception has `why`, the `code` that ends its calls, and
  the `reason` in the details, if any.
- `install`: makes the environment. It runs in the environment's folder, which has a copy of the program's folder and of
  `tests/clients/shared`, and the folder of `page` as `example`. PROTOS is the folder of the protobuf definition,
  GOOGLEAPIS is one with `google/rpc`, and PYTHON is an interpreter that has uv. The script writes the file `versions`.
  It ends with 77, and a message on stderr, if the machine lacks something and cannot download it.
- `debian-packages`: the Debian packages that the client needs, if any. `.ci/run` installs those of the
  programs that it tests.
- `run`: makes calls. The first line on stdin is JSON with the server's `address`, the folders `protos` and
  `googleapis`, and `descriptors` (a FileDescriptorSet in base64). Each further line is a call as `ForeignCall.to_json`
  writes it. The program prints a line for each call: `{responses}`, or `{code, message, reason, metadata}` if the call
  fails. The client decodes `reason` and `metadata` from the details of the status.
- `page`: makes the shortest call to an address. The file of this call is in `examples/clients`, and `about.json` names
  it `page`. A page of docs/how-to shows it, with its output as comments.

Environments are kept in `.venv-clients`. An environment is made again if one of the files above changes.
"""

import base64
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2

from foreign_calls import ForeignCall
from http_calls import find_http
from server_processes import ServerProcess
from tensor_reshape.server.oip.messages import SERVICE as INFERENCE_SERVICE
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from verification.clients.answers import Answer

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests/clients/programs"
SHARED = ROOT / "tests/clients/shared"
PROTOS = ROOT / "protos"
ENVIRONMENTS = ROOT / ".venv-clients"
GOOGLEAPIS = Path(status_pb2.__file__).parents[2]
_INSTALL_SECONDS, _RUN_SECONDS = 900, 400
_OPTIONAL: Mapping[str, Any] = {"tested": False, "server": (), "http": False, "page": "", "exceptions": {}}
"""Defaults for `about.json`, in the order of the attributes of `Program`."""
_PRINTED = re.compile(r"^.*(?:\b(?:log|print|[Pp]rintln|cout)\b|InferShape).* (?://|#) (.*)$", re.MULTILINE)
"""The comment of a line that prints: its output."""
_LACKING = 77
"""The exit code of `install` if the machine lacks something. automake uses the same code."""


class LackingError(Exception):
    """The machine lacks what a program needs."""


@dataclass(frozen=True)
class Program:
    """A client, and the program that makes its calls.

    Attributes:
        name: the name of its folder.
        title: the name that the tables show.
        tables: the protocols that the client supports.
        is_tested: whether `.ci/run` tests it; `scripts/verify clients` runs every client.
        server: additional flags of its server.
        is_http: whether it calls the HTTP port of its server.
        page: the file in the repository that a page of docs/how-to shows; empty if there is none.
        exceptions: the different results that this client must get, by row.
    """

    name: str
    title: str
    tables: Sequence[str]
    is_tested: bool
    server: Sequence[str]
    is_http: bool
    page: str
    exceptions: Mapping[str, Mapping[str, object]]

    @property
    def source(self) -> Path:
        """The folder of the program in the repository."""
        return PROGRAMS / self.name

    @property
    def environment(self) -> Path:
        """The folder in which it runs."""
        return ENVIRONMENTS / self.name

    def find_address(self, server: ServerProcess) -> str:
        """Returns the address of a server that the client calls."""
        return find_http(server) if self.is_http else server.address

    def install(self) -> str:
        """Makes the environment if none is up to date, and returns the versions in it.

        Raises:
            LackingError: the machine lacks what the program needs.
        """
        stamp, digest = self.environment / "installed", self._compute_digest()
        with _lock(self.name):
            if not stamp.exists() or stamp.read_text() != digest:
                self._make_environment()
                stamp.write_text(digest)
        return ", ".join((self.environment / "versions").read_text().splitlines())

    def _make_environment(self) -> None:
        shutil.rmtree(self.environment, ignore_errors=True)
        shutil.copytree(SHARED, self.environment)
        shutil.copytree(self.source, self.environment, dirs_exist_ok=True)
        if self.page:
            shutil.copytree((ROOT / self.page).parent, self.environment / "example")
        done = self._call("install", "", _INSTALL_SECONDS)
        if done.returncode == _LACKING:
            raise LackingError(done.stderr.strip())
        if done.returncode:
            message = f"{self.name} cannot be installed: {done.stderr[-2000:]}"
            raise RuntimeError(message)

    def ask(self, address: str, calls: Sequence[ForeignCall], **options: str) -> list[Answer]:
        """Makes calls, and returns their results; `options` are sent to the program together with the address."""
        known = {"protos": str(PROTOS), "googleapis": str(GOOGLEAPIS), "descriptors": encode_descriptors()}
        lines = [{"address": address, **known, **options}, *[call.to_json() for call in calls]]
        done = self._call("run", "".join(f"{json.dumps(line)}\n" for line in lines), _RUN_SECONDS)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or len(answers) != len(calls):
            message = f"{self.name} ended with {done.returncode} after {len(answers)} answers: {done.stderr[-2000:]}"
            raise RuntimeError(message)
        return answers

    def find_page_difference(self, address: str) -> str:
        """Returns the output of the shortest call if it is not in the file's comments, or if no page shows the file."""
        text = (ROOT / self.page).read_text()
        pages = "".join(page.read_text() for page in (ROOT / "docs/how-to").glob("*.md"))
        if f"\n{text}```\n" not in pages:
            return f"no page of docs/how-to shows {self.page}"
        done = self._call("page", "", _RUN_SECONDS, address)
        printed = done.stdout + done.stderr
        return printed if printed.split() != " ".join(_PRINTED.findall(text)).split() else ""

    def _call(self, script: str, text: str, seconds: float, *arguments: str) -> subprocess.CompletedProcess[str]:
        folders = {"PROTOS": str(PROTOS), "GOOGLEAPIS": str(GOOGLEAPIS)}
        return subprocess.run(
            [self.environment / script, *arguments],
            cwd=self.environment,
            env={**os.environ, **folders, "PYTHON": sys.executable},
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def _compute_digest(self) -> str:
        digest = hashlib.sha256(sys.version.encode())
        # The installation does not read the protobuf definition if its script does not name it.
        named = [PROTOS] if "$PROTOS" in (self.source / "install").read_text() else []
        example = [(ROOT / self.page).parent] if self.page else []
        for folder in (self.source, SHARED, *example, *named):
            for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"):
                digest.update(f"{file.relative_to(ROOT)}\n".encode())
                digest.update(file.read_bytes())
        return digest.hexdigest()


def encode_descriptors() -> str:
    """Returns the descriptors of all called services and of the error details, as compilers write them."""
    files = FileDescriptorSet()
    contract = (tensor_pb2.DESCRIPTOR, reshape_pb2.DESCRIPTOR, health_pb2.DESCRIPTOR, INFERENCE_SERVICE.file)
    details = (any_pb2.DESCRIPTOR, duration_pb2.DESCRIPTOR, status_pb2.DESCRIPTOR, error_details_pb2.DESCRIPTOR)
    for descriptor in (*contract, *details):
        descriptor.CopyToProto(files.file.add())
        for message in files.file[-1].message_type:
            _name_fields(message)
    return base64.b64encode(files.SerializeToString()).decode()


def _name_fields(message: DescriptorProto) -> None:
    """Adds the names in JSON, which compilers write into descriptors, but Python does not."""
    for nested in message.nested_type:
        _name_fields(nested)
    for field in message.field:
        first, *words = field.name.split("_")
        field.json_name = first + "".join(map(str.capitalize, words))


@contextmanager
def _lock(name: str) -> Iterator[None]:
    # Tests in several processes may need the same environment at the same time.
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_programs() -> list[Program]:
    """Returns all programs, in the order of their names."""
    return [_read_program(folder) for folder in sorted(PROGRAMS.iterdir()) if (folder / "about.json").exists()]


def _read_program(folder: Path) -> Program:
    about = json.loads((folder / "about.json").read_text())
    given = [about.get(name, default) for name, default in _OPTIONAL.items()]
    return Program(folder.name, about["title"], about["tables"], *given)
