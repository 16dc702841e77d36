"""The figures of attacks, before and after, as they are kept in docs/attacks and as people read them."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attack_runs import Row, find_misses
from attackers.attacks import ATTACKS, Attack
from frame_runs import Frames

FOLDER = Path(__file__).parents[2] / "docs" / "attacks"
BEFORE, AFTER = "before", "after"
_TITLE = "# What attacks do to others"
_INTRODUCTION = """
Attacks come one after the other to a server with default options, which is replaced after one that it did not survive
whole; the event engine reads its connections, as it does where other machines can reach a server. Each goes on for some
seconds beside three polite clients in processes of their own, who call 50 times a second each: one with a bare channel,
one with the SDK, one that asks for health. What each attack does is said below, what others may notice of it in
`tests/support/attackers/attacks.py`. A row in bold does not keep to that.

Measured on 2 noisy cores (the row nobody says how noisy), in milliseconds where nothing else is said: before the
attacks were known (`scripts/attack --into before`) → after what they led to (`--into after`).

- **p50**, **p99**: of calls of the bare channel and the SDK during the attack; **health**: p99 of health checks.
- **refused**: calls of the bare channel + calls with the SDK that ended with a refusal; **lost**: that ended otherwise.
- **MiB**: the most memory that server and workers had together; before an attack, each process has 50 to 60.
- **back**: seconds from the end of the attack until the last slow (100 ms) or failed call was over.
"""
_UNBOUNDED = """
## What is not bounded

- **Headers of who has not acknowledged the server's settings** (early-...-bombs). Until then gRPC's core takes 16 MiB
  of headers a call, half a million of them, each of which may be a byte on the wire; no option says less. The server
  refuses such a call before it is kept, serves others while its headers are read, and has its connection silenced for
  ten seconds, and closed. But up to then the core has read some such calls, each of which takes up to 34 MiB and 0.1 s
  of the interpreter, or 0.6 s where values are no text: one connection takes some 200 MiB; 16 of them take all of the
  processor for the first two seconds, and 1.5 to 3 GiB. Set a limit of memory, and where strangers can reach the port
  have a proxy in front: those that read HTTP/2 bound lists of headers from the first byte on. Behind interceptors,
  where grpcio's own loop receives the calls, nothing of this is bounded.
- **Valid calls, as many as the processor answers** (small-calls-16). Connections take turns, so a call waits for one of
  each other connection, however many those have sent. Who opens many connections has as many turns: nothing tells such
  a caller from a busy one, and a limit of rates belongs to a proxy that knows its callers.
- **Calls that nobody waits for any more** (rapid-resets, random frames). The core does not say that a call was reset,
  or its connection closed, until the call is begun; so it has its turn. Who resets many on one connection is silenced
  for two seconds and closed. 1024 calls are taken up before their turn; when more come, they wait in the core, in the
  order in which they came, and above 8192 it cancels some of all that come (CANCELLED).
- **Control frames** are read by the core's own threads, at the price of reading: they take a processor from others, not
  a place.
"""
_HEADER = "| attack | p50 | p99 | health | refused | lost | MiB | back |"


def read_file(name: str) -> dict[str, Any]:
    """Returns what is kept under `before` or `after`."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {"attacks": {}, "frames": {}}


def keep(name: str, rows: Iterable[Row] = (), frames: Iterable[Frames] = ()) -> None:
    """Keeps figures; those of the same runs are replaced."""
    kept = read_file(name)
    kept["attacks"].update({row.key: row.to_json() for row in rows})
    kept["frames"].update({seen.serving: seen.to_json() for seen in frames})
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")


def write_table() -> None:
    """Writes docs/attacks/README.md."""
    files = [read_file(BEFORE), read_file(AFTER)]
    before, after = ({key: Row(**row) for key, row in file["attacks"].items()} for file in files)
    lines = [_TITLE, _INTRODUCTION.rstrip()]
    for serving, workers in sorted({(row.serving, row.workers) for row in (*before.values(), *after.values())}):
        lines += ["", f"## --serving {serving} --workers {workers}", "", _HEADER, "|---|" + "---:|" * 7]
        for attack in ATTACKS.values():
            key = Row(attack.name, serving, workers).key
            if key in before or key in after:
                lines.append(_build_line(attack, before.get(key), after.get(key)))
    lines += _build_frames([{key: Frames(**seen) for key, seen in file["frames"].items()} for file in files])
    lines += [_UNBOUNDED.rstrip()]
    lines += ["", "## The attacks", "", *(f"- {attack.name}: {attack.sentence}." for attack in ATTACKS.values())]
    (FOLDER / "README.md").write_text("\n".join(lines) + "\n")


def _build_line(attack: Attack, before: Row | None, after: Row | None) -> str:
    last = after or before
    name = f"**{attack.name}**" if last and find_misses(last, attack.bounds) else attack.name
    cells = [_pair(before, after, cell) for cell in _CELLS]
    return f"| {name} | {' | '.join(cells)} |"


def _pair(before: Row | None, after: Row | None, cell: Callable[[Row], str]) -> str:
    return " → ".join("failed" if row.failure else cell(row) for row in (before, after) if row)


_CELLS: tuple[Callable[[Row], str], ...] = (
    lambda row: f"{row.p50_ms:.1f}",
    lambda row: f"{row.p99_ms:.0f}",
    lambda row: f"{row.health_p99_ms:.0f}",
    lambda row: f"{row.refused} + {row.refused_sdk}" if row.refused or row.refused_sdk else "0",
    lambda row: f"{row.lost_calls}",
    lambda row: f"{row.peak_mib}",
    lambda row: "never" if row.recovery_seconds is None else f"{row.recovery_seconds:.1f}",
)


def _build_frames(files: list[dict[str, Frames]]) -> list[str]:
    lines = ["", "## Random frames", ""]
    for name, seen in zip((BEFORE, AFTER), files, strict=True):
        lines += [f"- {name}, --serving {serving}: {frames.describe()}" for serving, frames in sorted(seen.items())]
    return lines if len(lines) > 3 else []
