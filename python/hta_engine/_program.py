"""Finds the `hta` program that belongs to this package, and runs it.

The program of the same wheel is taken, whatever is on the PATH: an environment may hold other distributions with a
program of this name. Whichever is found must say that it is `hta` of this package's version.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import selectors
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import deque
from dataclasses import dataclass
from typing import Callable, Deque, Dict, Iterator, List, Mapping, Optional, Sequence

from ._progress import Progress
from ._version import __version__
from .errors import HtaError, ProgramNotFound, WrongProgram, error_of

#: Environment variable with the program to run instead of the one that was installed with this package.
VARIABLE = "HTA_PROGRAM"

DISTRIBUTION = "hta-engine"
_NAME = "hta.exe" if os.name == "nt" else "hta"

#: How long an interrupted program may take to remove what it has begun, seconds.
_SECONDS_TO_STOP = 10.0


def find() -> str:
    """The path of the program.

    Raises:
        ProgramNotFound: there is none.
        WrongProgram: what there is has another version.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(os.path.expanduser(named))
        if found is None:
            raise ProgramNotFound(f"cannot run {named}, which {VARIABLE} names: no such program")
        _check(found)
        return os.path.abspath(found)
    wrong: Optional[WrongProgram] = None
    for candidate in _candidates():
        try:
            _check(candidate)
            return candidate
        except WrongProgram as error:
            wrong = wrong or error
    if wrong is not None:
        raise wrong
    raise ProgramNotFound(
        "cannot find the program `hta`, which is part of the wheel of hta-engine",
        f"pip install --force-reinstall {DISTRIBUTION}=={__version__}, or name the program in {VARIABLE}",
    )


def _candidates() -> Iterator[str]:
    """Programs to try, the one that was installed with this package first."""
    seen = set()
    for path in (*_installed(), *_beside()):
        if path not in seen and os.access(path, os.X_OK) and os.path.isfile(path) and not _is_script(path):
            seen.add(path)
            yield path


def _installed() -> List[str]:
    """The program among the files that the installer noted for this distribution."""
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [os.path.abspath(str(f.locate())) for f in files if f.name == _NAME and f.parent.name in ("bin", "Scripts")]


def _beside() -> List[str]:
    """Where programs of this interpreter are, then the PATH: for a checkout, and for installers that note no files."""
    schemes = ("posix_user", "nt_user", "osx_framework_user")
    users = [s for s in schemes if s in sysconfig.get_scheme_names()]
    folders = [sysconfig.get_path("scripts"), *(sysconfig.get_path("scripts", scheme=s) for s in users)]
    folders.append(os.path.dirname(sys.executable))
    on_path = shutil.which(_NAME)
    return [os.path.join(f, _NAME) for f in folders if f] + ([os.path.abspath(on_path)] if on_path else [])


def _is_script(path: str) -> bool:
    """Whether this is an entry point of some other distribution, which must not be run to see what it is."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def _check(path: str) -> None:
    """Checks once that a file is the program of this version."""
    stat = os.stat(path)
    said = _version_of(path, stat.st_mtime_ns, stat.st_size)
    expected = f"hta {__version__}"
    if said != expected:
        raise WrongProgram(
            f"cannot use {path}: expected `{expected}` as the version of this package, found `{said[:80]}`",
            f"pip install --force-reinstall {DISTRIBUTION}=={__version__}, "
            f"or name the right program in {VARIABLE}",
        )


@functools.lru_cache(maxsize=64)
def _version_of(path: str, _mtime_ns: int, _size: int) -> str:
    """What a program says of its version. Time and size are there to notice that it was replaced."""
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"no answer ({error})"
    return done.stdout.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"


@dataclass(frozen=True)
class Finished:
    """How a run of the program ended."""

    exit_code: int
    #: Lines of standard error, without progress.
    lines: List[str]
    #: Standard output, if it was asked for.
    output: bytes = b""

    @property
    def messages(self) -> str:
        return "\n".join(self.lines)


class _Messages:
    """Lines of standard error: the first and the last ones, so that no flood of them fills the memory."""

    MOST_LINES = 400
    LONGEST = 4000

    def __init__(self) -> None:
        self._first: List[str] = []
        self._last: Deque[str] = deque(maxlen=self.MOST_LINES)
        self._count = 0

    def add(self, line: str) -> None:
        if len(line) > self.LONGEST:
            line = line[: self.LONGEST] + "..."
        self._count += 1
        (self._first if len(self._first) < self.MOST_LINES else self._last).append(line)

    def lines(self) -> List[str]:
        left_out = self._count - len(self._first) - len(self._last)
        middle = [f"... {left_out} lines are left out"] if left_out else []
        return [*self._first, *middle, *self._last]


def run(
    arguments: Sequence[str],
    *,
    allowed: Sequence[int] = (0,),
    cwd: Optional[str] = None,
    on_progress: Optional[Callable[[Progress], None]] = None,
    wants_output: bool = False,
    temporary_folder: Optional[str] = None,
    before_start: Optional[Callable[[], None]] = None,
) -> Finished:
    """Runs the program with these arguments.

    `temporary_folder` is for its temporary files instead of the machine's. `before_start` is called in the new process.

    Raises:
        HtaError: the exit code is not one of `allowed`.
        KeyboardInterrupt: the program is ended first, and removes what it has begun.
    """
    environment: Dict[str, str] = {**os.environ, "NO_COLOR": "1", "HTA_PROGRESS": "json" if on_progress else ""}
    if temporary_folder is not None:
        environment["TMPDIR"] = temporary_folder
    command = [find(), *arguments]
    # A file, because a pipe that nobody reads would stop the program when it is full.
    printed = tempfile.TemporaryFile() if wants_output else None
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if printed is None else printed,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            preexec_fn=before_start,
        )
    except OSError as error:
        raise HtaError(f"cannot run {command[0]}: {error}") from error
    with process:
        try:
            messages = _read(process, on_progress)
            exit_code = process.wait()
        except BaseException:
            _stop(process)
            raise
    output = b""
    if printed is not None:
        with printed:
            printed.seek(0)
            output = printed.read()
    finished = Finished(exit_code, messages.lines(), output)
    if exit_code in allowed:
        return finished
    raise error_of(finished.lines, exit_code)


def _read(process: subprocess.Popen[bytes], on_progress: Optional[Callable[[Progress], None]]) -> _Messages:
    """Reads standard error to its end."""
    messages = _Messages()
    assert process.stderr is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while True:
            # An interrupt ends this wait, but would not end a read: Polars lets reads go on after one.
            selector.select()
            # What there is, so that progress is shown when it is told.
            block = os.read(process.stderr.fileno(), 1 << 16)
            *lines, rest = (rest + block).split(b"\n")
            if not block and rest:
                lines, rest = [rest], b""
            # A line without an end must not fill the memory.
            rest = rest[: _Messages.LONGEST * 4]
            for raw in lines:
                line = raw.decode("utf-8", "replace").rstrip("\r")
                progress = _progress(line)
                if progress is None:
                    messages.add(line)
                elif on_progress is not None:
                    on_progress(progress)
            if not block:
                break
    return messages


def _progress(line: str) -> Optional[Progress]:
    if not line.startswith('{"progress":'):
        return None
    try:
        told: Mapping[str, int] = json.loads(line)["progress"]
        return Progress(told["ranks"], told["ranks_done"], told["bytes"], told["bytes_done"])
    except (ValueError, KeyError, TypeError):
        return None


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the program: it removes what it has begun when it is asked to end."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_SECONDS_TO_STOP)
    except BaseException:
        process.kill()
        process.wait()


def arguments_of(options: Mapping[str, object]) -> List[str]:
    """Options of Python as options of the program, by rule: `step_window="device"` is `--step-window device`.

    `True` is a flag, `False` and `None` are left out. A list of texts repeats the option, a list of numbers is joined
    by commas. Which options there are is for the program to say.
    """
    arguments: List[str] = []
    for name, value in options.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
        elif isinstance(value, (str, bytes, os.PathLike)):
            arguments.append(f"{option}={os.fsdecode(value)}")
        elif isinstance(value, (list, tuple, set, frozenset, range)):
            items = sorted(value) if isinstance(value, (set, frozenset)) else list(value)
            if items and all(isinstance(item, int) for item in items):
                arguments.append(f"{option}={','.join(str(item) for item in items)}")
            else:
                arguments.extend(f"{option}={os.fsdecode(item) if isinstance(item, (str, bytes, os.PathLike)) else item}"
                                 for item in items)
        else:
            arguments.append(f"{option}={value}")
    return arguments


def main() -> None:
    """`python -m hta_engine`: the program, with the arguments of the command line."""
    try:
        program = find()
    except HtaError as error:
        print(f"hta: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if os.name == "nt":
        raise SystemExit(subprocess.call([program, *sys.argv[1:]]))
    os.execv(program, [program, *sys.argv[1:]])
