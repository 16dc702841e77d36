"""Makes a module proxy from Debian's Go packages, for programs that are modules.

Debian has the sources, but no modules. The result is a folder for `GOPROXY=file://...` with the layout in `go help
goproxy`. The modules have no requirements, because Go finds the imported modules by name.
"""

import sys
from pathlib import Path
from zipfile import ZipFile

SOURCES = Path("/usr/share/gocode/src")
SUFFIXES = {".go", ".s", ".h"}
MODULES = {
    "google.golang.org/grpc": "v1.33.3",
    "google.golang.org/protobuf": "v1.28.1",
    # No module requires a version of another one.
    "github.com/golang/protobuf": "v0.1.0",
    "golang.org/x/net": "v0.1.0",
    "golang.org/x/sys": "v0.1.0",
    "golang.org/x/text": "v0.1.0",
    "google.golang.org/genproto": "v0.1.0",
}


def make_module(folder: Path, module: str, version: str) -> None:
    """Writes one version of a module below `folder`."""
    folder.mkdir(parents=True)
    declared = f"module {module}\n\ngo 1.19\n"
    (folder / "list").write_text(f"{version}\n")
    (folder / f"{version}.info").write_text(f'{{"Version": "{version}"}}')
    (folder / f"{version}.mod").write_text(declared)
    with ZipFile(folder / f"{version}.zip", "w") as archive:
        archive.writestr(f"{module}@{version}/go.mod", declared)
        for file in (SOURCES / module).rglob("*"):
            if file.suffix in SUFFIXES and not file.name.endswith("_test.go"):  # tests import packages that are missing
                archive.write(file, f"{module}@{version}/{file.relative_to(SOURCES / module)}")


if __name__ == "__main__":
    for name, release in MODULES.items():
        make_module(Path(sys.argv[1]) / name / "@v", name, release)
