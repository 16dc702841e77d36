"""Half an hour in which everything happens at once: polite calls, attacks, rolling restarts and kills.

Three servers of two workers each stand behind one target, and callers of the SDK, with its defaults, check every
answer. One server is restarted by SIGTERM again and again, of another one worker after the other is killed by SIGKILL,
and the third stays: what it takes at rest, before and after, shows what is left of all that. It is called for a while
first, since a process that has never been called takes less than one at rest. Attackers attack them in turn.

It passes where no call was lost, every server that was stopped ended with 0, no bug was logged, and the third server is
back within 64 MiB of what it took before.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from threading import Event, Thread

from attack_processes import run_attacker
from attackers.attacks import ATTACKS
from interruptions import HOST, Figures, keep_calling, kill_worker, let_listen, prepare_server
from meters import read_total_memory
from server_processes import ServerProcess, run_server

_MIB = 1 << 20
_MAX_LEFT_BYTES = 64 * _MIB
_WARM_UP_SECONDS = 30.0
_REST_SECONDS = 10.0
_REPORT_SECONDS = 60.0
_WORKERS = ("--workers", "2")


@dataclass
class Scene:
    """The servers, and what becomes of them.

    Attributes:
        flags: of the servers that follow one which is restarted.
        stack: ends them.
        restarted: the one that is restarted.
        killed: the one whose workers are killed.
        steady: the one that stays.
        finished: set when all is to end.
        restarts: how often there was one.
        kills: likewise.
        attacks: likewise.
        problems: what is not as it must be.
    """

    flags: tuple[str, ...]
    stack: ExitStack
    restarted: ServerProcess
    killed: ServerProcess
    steady: ServerProcess
    finished: Event = field(default_factory=Event)
    restarts: int = 0
    kills: int = 0
    attacks: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def target(self) -> str:
        """All of them, as a client takes them."""
        return "ipv4:" + ",".join(server.address for server in (self.restarted, self.killed, self.steady))

    def restart(self, every_seconds: float) -> None:
        """Restarts one server again and again."""
        while not self.finished.wait(every_seconds):
            following = self.stack.enter_context(prepare_server(self.restarted.address, *self.flags))
            self._note_end(self.restarted, "a server that was restarted")
            let_listen(following)
            self.restarted = following
            self.restarts += 1

    def kill(self, every_seconds: float) -> None:
        """Kills one worker after the other."""
        while not self.finished.wait(every_seconds):
            kill_worker(self.killed, self.kills)
            self.kills += 1

    def attack(self, seconds: float) -> None:
        """Attacks the servers in turn, each in the next of all ways."""
        for attack, address in zip(cycle(ATTACKS.values()), cycle(self.target.removeprefix("ipv4:").split(","))):
            with run_attacker(attack, address):
                if self.finished.wait(seconds):
                    return
            self.attacks += 1

    def stop(self) -> None:
        """Stops the servers, and notes how they ended."""
        for server, name in ((self.restarted, "restarted"), (self.killed, "killed"), (self.steady, "steady")):
            self._note_end(server, f"the {name} server")

    def _note_end(self, server: ServerProcess, name: str) -> None:
        code = server.stop()
        if code != 0:
            self.problems.append(f"{name} ended with {code}")
        bugs = [record for record in server.records if record["message"] == "bug"]
        if bugs:
            self.problems.append(f"{name} logged {len(bugs)} bugs: {bugs[0]}")


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--serving", choices=("inline", "threads"), default="inline")
    parser.add_argument("--restart-seconds", type=float, default=15.0, help="between two restarts")
    parser.add_argument("--kill-seconds", type=float, default=5.0, help="between two kills")
    parser.add_argument("--attack-seconds", type=float, default=5.0, help="how long each attack goes on")
    return parser.parse_args()


def main() -> int:
    """Runs; 1 where something is not as it must be."""
    arguments, figures = parse_arguments(), Figures()
    with _serve(arguments.serving) as scene:
        with keep_calling(scene.target, figures):
            time.sleep(_WARM_UP_SECONDS)
        before = _measure_rest(scene)
        with _disturb(scene, arguments), keep_calling(scene.target, figures):
            _report(scene, figures, time.monotonic() + arguments.minutes * 60)
            scene.finished.set()  # before the callers end: what they see until then is the same for all
        after = _measure_rest(scene)
        scene.stop()
    print(f"memory of the steady server at rest: {before // _MIB} MiB before, {after // _MIB} MiB after")
    for kind, count in sorted(figures.calls.items()):
        print(f"  {count:8} {kind}, slowest {figures.slowest_seconds[kind]:.2f} s")
    problems = [*figures.failures[:20], *scene.problems]
    if after > before + _MAX_LEFT_BYTES:
        problems.append("the steady server has not given its memory back")
    print(f"{len(figures.failures)} calls lost", *(problems or ["passed"]), sep="\n")
    return 1 if problems else 0


@contextmanager
def _serve(serving: str) -> Iterator[Scene]:
    """Runs the servers, each on a port that stays its own."""
    flags = ("--serving", serving, "--engine", "event", *_WORKERS)
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(run_server(*flags, listen=(f"{HOST}:0",))) for _ in range(3))
        yield Scene((*flags, "--drain-seconds", "0.5"), stack, restarted=first, killed=second, steady=third)


@contextmanager
def _disturb(scene: Scene, arguments: argparse.Namespace) -> Iterator[None]:
    """Restarts, kills and attacks until the end of the block."""
    disturbers = [
        Thread(target=work, args=(seconds,))
        for work, seconds in (
            (scene.restart, arguments.restart_seconds),
            (scene.kill, arguments.kill_seconds),
            (scene.attack, arguments.attack_seconds),
        )
    ]
    for disturber in disturbers:
        disturber.start()
    try:
        yield
    finally:
        scene.finished.set()
        for disturber in disturbers:
            disturber.join()


def _report(scene: Scene, figures: Figures, end: float) -> None:
    """Says each minute what has happened, until the end."""
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _REPORT_SECONDS))
        memory = read_total_memory(scene.steady.process.pid) // _MIB
        calls, lost = figures.calls.total(), len(figures.failures)
        events = f"{scene.restarts} restarts, {scene.kills} kills, {scene.attacks} attacks"
        print(f"{calls} calls, {lost} lost; {events}; the steady server takes {memory} MiB", flush=True)


def _measure_rest(scene: Scene) -> int:
    """Returns what the steady server takes when nobody has called for a while, in bytes."""
    time.sleep(_REST_SECONDS)
    return read_total_memory(scene.steady.process.pid)


if __name__ == "__main__":
    sys.exit(main())
