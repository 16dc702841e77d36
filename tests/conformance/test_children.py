"""A program as a child: how a conversation with it ends, and that nothing of it stays."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from conformance_runs import write_program
from tensor_reshape.conformance import children
from tensor_reshape.conformance.children import Ending, Limits, Outcome, converse

LIMITS = Limits(60, 60)
LINES = [b"1", b"2", b"3"]


def run(code: str, limits: Limits = LIMITS) -> tuple[Outcome, list[bytes]]:
    """Runs a program that each of its lines answers; returns these as well."""
    heard = list[bytes]()

    def hear(line: bytes) -> bool:
        heard.append(line)
        return line.startswith(b"a")

    return asyncio.run(converse(write_program(code), LINES, hear, limits)), heard


def test_program_reads_the_lines_and_then_its_end():
    outcome, heard = run("for line in sys.stdin.read().split(): print('a' + line)")
    assert (outcome.ending, heard) == (Ending.DONE, [b"a1", b"a2", b"a3"])
    outcome, heard = run("sys.stdout.write('a1\\na2\\na3')")  # the last line needs no end
    assert (outcome.ending, heard[-1]) == (Ending.DONE, b"a3")


def test_end_has_its_code_and_the_last_words():
    assert run("print('a'); sys.exit('so it is')")[0] == Outcome(Ending.EXITED, 1, "so it is")
    assert run("os.kill(os.getpid(), signal.SIGSEGV)")[0].code == -signal.SIGSEGV
    outcome, _ = run("sys.stderr.write('x' * 1000000 + 'end')")
    assert outcome.tail.endswith("xend")
    assert len(outcome.tail) <= children._TAIL_BYTES


def test_silence_ends_the_program():
    assert run("time.sleep(1000)", Limits(0.2, 60))[0].ending is Ending.SILENT
    assert run("print('a', flush=True); time.sleep(1000)", Limits(60, 0.2))[0].ending is Ending.SILENT
    # Lines that are no answers are silence.
    outcome, heard = run("while True: print('b', flush=True); time.sleep(0.01)", Limits(0.5, 60))
    assert (outcome.ending, set(heard)) == (Ending.SILENT, {b"b"})


@pytest.mark.parametrize("written", ["'b' * 65536", "'b' * 65535 + '\\n'", "'\\n' * 1000"])
def test_flood_ends_the_program(written: str):
    outcome, heard = run(f"while True: sys.stdout.write({written})")
    assert outcome.ending is Ending.FLOODED
    assert sum(map(len, heard)) <= children.MAX_STRAY_BYTES + children._READ_BYTES


def test_program_that_closes_its_output_and_goes_on_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(children, "_EXIT_SECONDS", 0.2)
    assert run("os.close(1); os.close(2); sys.stdin.close(); time.sleep(1000)")[0] == Outcome(Ending.EXITED, None, "")


def test_processes_of_the_program_are_killed_with_it(tmp_path: Path):
    path = tmp_path / "child"
    run(f"""
        import subprocess
        child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(1000)'])
        open({str(path)!r}, 'w').write(str(child.pid)); print('a\\na\\na', flush=True); time.sleep(1000)
    """)
    child = int(path.read_text())
    with suppress(ProcessLookupError):  # whoever adopts it has buried it already
        deadline = time.monotonic() + 60
        while Path(f"/proc/{child}/stat").read_text().split()[2] != "Z" and time.monotonic() < deadline:
            os.kill(child, 0)
    assert not Path(f"/proc/{child}").exists() or Path(f"/proc/{child}/stat").read_text().split()[2] == "Z"


async def test_program_is_killed_when_the_conversation_is_cancelled(tmp_path: Path):
    path, heard = tmp_path / "child", asyncio.Event()

    def hear(_line: bytes) -> bool:
        heard.set()
        return False

    code = f"open({str(path)!r}, 'w').write(str(os.getpid())); print('b', flush=True); time.sleep(1000)"
    conversation = asyncio.create_task(converse(write_program(code), LINES, hear, LIMITS))
    await heard.wait()
    conversation.cancel()
    with pytest.raises(asyncio.CancelledError):
        await conversation
    assert not Path(f"/proc/{path.read_text()}").exists()
