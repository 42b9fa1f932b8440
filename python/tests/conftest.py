"""What the tests share: samples, programs that stand in for `hta`, and an object store.

The tests are of the installed package: `pip install .` first, or put `python/` on PYTHONPATH and name a program in
HTA_PROGRAM. The store is moto: its server is on the PATH or named in HTA_MOTO, otherwise tests of stores are skipped.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

import pytest

import hta_engine
from hta_engine import _program

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ray"))

from same_bytes import Store  # noqa: E402

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


@pytest.fixture(scope="session")
def _server() -> Iterator[Any]:
    moto = os.environ.get("HTA_MOTO") or shutil.which("moto_server")
    if moto is None:
        pytest.skip("there is no moto_server (HTA_MOTO): pip install 'moto[server]'")
    server = Store(moto)
    yield server
    server.close()


@pytest.fixture
def store(_server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty store with the bucket `traces`, to which the environment leads."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", _server.endpoint)
    _server.empty()
    return _server


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
