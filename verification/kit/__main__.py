"""Writes the files of the kit, or checks them."""

import argparse
import sys

from verification.kit.files import list_files


def main() -> int:
    """Runs; 1 where a file is not as it is made."""
    parser = argparse.ArgumentParser("scripts/kit", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files of cases")
    arguments = parser.parse_args()
    if arguments.write:
        for path, text in list_files().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    stale = [path for path, text in list_files().items() if not path.exists() or path.read_text() != text]
    print(*stale, sep="\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
