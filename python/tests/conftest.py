"""What the tests share: samples, and programs that stand in for `hta`.

The tests are of the installed package: `pip install .` first, or put `python/` on PYTHONPATH and name a program in
HTA_PROGRAM.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Callable, Dict

import pytest

import hta_engine
from hta_engine import _program

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "data" / "samples"
#: A recording of these is damaged, so part of it is lost.
ALL_SAMPLES = ("gpu_ddp8", "gpu_single", "gpu_counters", "gloo_ddp4", "cpu_single", "serving")


@pytest.fixture(scope="session")
def ddp8() -> Path:
    """A job of 8 ranks, in which rank 3 is late."""
    return SAMPLES / "gpu_ddp8"


@pytest.fixture(scope="session")
def result(ddp8: Path, tmp_path_factory: pytest.TempPathFactory) -> hta_engine.Result:
    return hta_engine.analyze(ddp8, tmp_path_factory.mktemp("ddp8") / "out")


@pytest.fixture
def real_program() -> str:
    return _program.find()


@pytest.fixture
def instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real_program: str) -> Callable[[str], Path]:
    """Puts a shell script in the place of the program. It has the path of the real one in `$hta`."""

    def put(script: str) -> Path:
        path = tmp_path / "program" / "hta"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f'#!/bin/sh\nhta="{real_program}"\n[ "$1" = --version ] && exec "$hta" --version\n{script}\n',
            encoding="utf-8",
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv(_program.VARIABLE, str(path))
        return path

    return put


def contents(folder: Path) -> Dict[str, bytes]:
    """Every file below a folder with its bytes."""
    files = (Path(base) / name for base, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def differing(one: Path, other: Path) -> list[str]:
    """Names of the files that are not the same in both folders."""
    left, right = contents(one), contents(other)
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
