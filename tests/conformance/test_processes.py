"""Child processes: how an exchange with one ends, and that no process remains."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from conformance_runs import write_program
from tensor_reshape.conformance import processes
from tensor_reshape.conformance.processes import End, Outcome, Timeouts, exchange_lines

TIMEOUTS = Timeouts(60, 60)
LINES = [b"1", b"2", b"3"]


def run(code: str, timeouts: Timeouts = TIMEOUTS) -> tuple[Outcome, list[bytes]]:
    """Runs a program whose answers begin with "a". Returns all of its lines as well."""
    received = list[bytes]()

    def receive(line: bytes) -> bool:
        received.append(line)
        return line.startswith(b"a")

    return asyncio.run(exchange_lines(write_program(code), LINES, receive, timeouts)), received


def test_conformance_program_receives_all_lines_and_end_of_file():
    outcome, received = run("for line in sys.stdin.read().split(): print('a' + line)")
    assert (outcome.end, received) == (End.ANSWERED, [b"a1", b"a2", b"a3"])
    outcome, received = run("sys.stdout.write('a1\\na2\\na3')")  # the last line needs no end
    assert (outcome.end, received[-1]) == (End.ANSWERED, b"a3")


def test_program_outcome_has_exit_code_and_last_standard_error_bytes():
    assert run("print('a'); sys.exit('so it is')")[0] == Outcome(End.EXITED, 1, "so it is")
    assert run("os.kill(os.getpid(), signal.SIGSEGV)")[0].code == -signal.SIGSEGV
    outcome, _ = run("sys.stderr.write('x' * 1000000 + 'end')")
    assert outcome.tail.endswith("xend")
    assert len(outcome.tail) <= processes._TAIL_BYTES


def test_conformance_program_without_output_is_stopped():
    assert run("time.sleep(1000)", Timeouts(0.2, 60))[0].end is End.SILENT
    assert run("print('a', flush=True); time.sleep(1000)", Timeouts(60, 0.2))[0].end is End.SILENT
    # Lines that are not answers count as silence.
    outcome, received = run("while True: print('b', flush=True); time.sleep(0.01)", Timeouts(0.5, 60))
    assert (outcome.end, set(received)) == (End.SILENT, {b"b"})


@pytest.mark.parametrize("written", ["'b' * 65536", "'b' * 65535 + '\\n'", "'\\n' * 1000"])
def test_conformance_program_with_excessive_output_is_stopped(written: str):
    outcome, received = run(f"while True: sys.stdout.write({written})")
    assert outcome.end is End.FLOODED
    assert sum(map(len, received)) <= processes.MAX_STRAY_BYTES + processes._READ_BYTES


def test_conformance_program_that_only_closes_its_output_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "_EXIT_SECONDS", 0.2)
    assert run("os.close(1); os.close(2); sys.stdin.close(); time.sleep(1000)")[0] == Outcome(End.EXITED, None, "")


def test_child_processes_of_a_conformance_program_are_killed(tmp_path: Path):
    path = tmp_path / "child"
    run(f"""
        import subprocess
        child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(1000)'])
        open({str(path)!r}, 'w').write(str(child.pid)); print('a\\na\\na', flush=True); time.sleep(1000)
    """)
    child = int(path.read_text())
    with suppress(ProcessLookupError):  # the process that adopted it has reaped it
        deadline = time.monotonic() + 60
        while Path(f"/proc/{child}/stat").read_text().split()[2] != "Z" and time.monotonic() < deadline:
            os.kill(child, 0)
    assert not Path(f"/proc/{child}").exists() or Path(f"/proc/{child}/stat").read_text().split()[2] == "Z"


async def test_conformance_program_is_killed_on_cancellation(tmp_path: Path):
    path, received = tmp_path / "child", asyncio.Event()

    def receive(_line: bytes) -> bool:
        received.set()
        return False

    code = f"open({str(path)!r}, 'w').write(str(os.getpid())); print('b', flush=True); time.sleep(1000)"
    exchange = asyncio.create_task(exchange_lines(write_program(code), LINES, receive, TIMEOUTS))
    await received.wait()
    exchange.cancel()
    with pytest.raises(asyncio.CancelledError):
        await exchange
    assert not Path(f"/proc/{path.read_text()}").exists()
