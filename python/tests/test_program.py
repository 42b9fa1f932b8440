"""Finding and running the program: which one is taken, interrupts, floods of messages."""

from __future__ import annotations

import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable

import pytest

import hta_engine
from hta_engine import HtaError, ProgramNotFound, WrongProgram, _program


def test_the_program_of_the_wheel_is_of_the_version_of_the_package(real_program: str) -> None:
    said = subprocess.run([real_program, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"hta {hta_engine.__version__}\n"


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = executable(tmp_path / "hta", 'echo "hta 99.0.0"')
    monkeypatch.setenv(_program.VARIABLE, str(other))
    with pytest.raises(WrongProgram, match="expected `hta .*`.*found `hta 99.0.0`"):
        hta_engine.analyze("x")
    executable(tmp_path / "hta", "exit 3")
    with pytest.raises(WrongProgram, match="exit code 3"):
        hta_engine.analyze("x")
    monkeypatch.setenv(_program.VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(ProgramNotFound, match="which HTA_PROGRAM names"):
        hta_engine.analyze("x")


def test_without_a_program_the_hint_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_program.VARIABLE, raising=False)
    monkeypatch.setattr(_program, "_installed", lambda: [])
    monkeypatch.setattr(_program, "_beside", lambda: [])
    with pytest.raises(ProgramNotFound, match="hint: pip install --force-reinstall hta-engine=="):
        hta_engine.analyze("x")


def test_a_script_of_another_distribution_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real_program: str
) -> None:
    touched = tmp_path / "was run"
    script = executable(tmp_path / "bin" / "hta", f'touch "{touched}"; echo "hta {hta_engine.__version__}"')
    monkeypatch.delenv(_program.VARIABLE, raising=False)
    monkeypatch.setattr(_program, "_installed", lambda: [])
    monkeypatch.setattr(_program, "_beside", lambda: [str(script), real_program])
    assert _program.find() == real_program
    assert not touched.exists()


def test_the_installed_program_goes_before_that_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real_program: str
) -> None:
    monkeypatch.delenv(_program.VARIABLE, raising=False)
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "hta"
    link.symlink_to(real_program)
    monkeypatch.setenv("PATH", f"{link.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(_program, "_installed", lambda: [real_program])
    assert _program.find() == real_program
    assert str(link) in _program._beside()


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_options_become_arguments() -> None:
    given = {
        "step_window": "device", "force": True, "strict": False, "limit": None, "top": 3, "ranks": range(3),
        "only": ["a", "b"], "rules": Path("x y"), "straggler_min_pct": 0.5,
    }  # fmt: skip
    assert _program.arguments_of(given) == [
        "--step-window=device", "--force", "--top=3", "--ranks=0,1,2", "--only=a", "--only=b", "--rules=x y",
        "--straggler-min-pct=0.5",
    ]  # fmt: skip


def test_an_interrupt_ends_the_program_and_leaves_nothing(
    ddp8: Path, tmp_path: Path, instead: Callable[[str], Path]
) -> None:
    # The program stops before it has written all, and says that it was asked to end.
    instead(f'trap "rm -r {tmp_path}/begun; exit 130" TERM; mkdir "{tmp_path}/begun"; sleep 60 & wait')
    begun, main = tmp_path / "begun", threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hta_engine.analyze(ddp8, tmp_path / "out")
    assert time.monotonic() - started < 30
    assert not begun.exists() and not (tmp_path / "out").exists()


def test_an_interrupted_run_of_the_real_program_leaves_nothing(ddp8: Path, tmp_path: Path) -> None:
    script = (
        "import hta_engine, os, signal\n"
        "def stop(progress):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        f"hta_engine.analyze([{str(ddp8)!r}], {str(tmp_path / 'out')!r}, progress=stop)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in run.stderr, run.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_flood_of_messages_is_bounded_and_ends(ddp8: Path, instead: Callable[[str], Path]) -> None:
    instead(
        'i=0; while [ $i -lt 3000 ]; do echo "hta: note $i"; i=$((i+1)); done >&2\n'
        "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2\n"
        'echo "last words" >&2; exit 2'
    )
    with pytest.raises(HtaError) as caught:
        hta_engine.analyze(ddp8)
    lines = caught.value.message.splitlines()
    assert lines[0] == "note 0" and lines[-1] == "last words"
    assert any("lines are left out" in line for line in lines)
    assert len(lines) < 1000 and len(caught.value.message) < 1_000_000


def test_bytes_that_are_no_text_are_shown_all_the_same(ddp8: Path, instead: Callable[[str], Path]) -> None:
    instead("printf 'hta: cannot read \\377\\376x\\nhint: rename it\\n  or not' >&2; exit 2")
    with pytest.raises(HtaError) as caught:
        hta_engine.analyze(ddp8)
    assert caught.value.message == "cannot read \ufffd\ufffdx"
    assert caught.value.hint == "rename it\n  or not"


def test_a_program_that_is_killed_is_told_by_its_signal(ddp8: Path, instead: Callable[[str], Path]) -> None:
    instead("kill -9 $$")
    with pytest.raises(HtaError, match="ended by signal 9.*\nhint: .*memory_limit"):
        hta_engine.analyze(ddp8)


def test_errors_travel_between_processes() -> None:
    error = HtaError("cannot do it", "do something else", 2)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.hint, copy.exit_code) == (str(error), "do something else", 2)


def test_the_module_is_the_program(real_program: str) -> None:
    run = subprocess.run([sys.executable, "-m", "hta_engine", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"hta {hta_engine.__version__}\n"
    failed = subprocess.run([sys.executable, "-m", "hta_engine", "idle", "nope"], capture_output=True, check=False)
    assert failed.returncode == 2
