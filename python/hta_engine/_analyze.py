"""Running an analysis, and opening what an earlier one left."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from typing import Iterable, List, Mapping, Optional, Sequence, Union

from . import _program
from ._files import store_options
from ._progress import ProgressOption, Shown
from ._result import ConditionHolds, PathText, Result
from .errors import CONDITION, DONE, PARTLY, HtaError, PartialResults, error_of

#: A file, folder, pattern or URL, or several of them.
Traces = Union[PathText, Iterable[PathText]]

#: Most lines of a warning.
MOST_LINES = 20


def analyze(
    traces: Traces,
    output: Optional[PathText] = None,
    *,
    only: Optional[Sequence[str]] = None,
    force: bool = False,
    progress: ProgressOption = None,
    **options: object,
) -> Result:
    """Analyses traces of the ranks of a job, as `hta analyze` does.

    Args:
        traces: files, folders, patterns or URLs.
        output: folder or URL for the results. Without one they are in a temporary folder, which is removed with the
            result.
        only: names of analyses to run; all by default.
        force: write to `output` even if it holds other files.
        progress: `False` shows none; a function is called with it.
        options: any option of `hta analyze`, with `_` for `-`: `ranks="0-7"`, `no_events=True`.

    Raises:
        HtaError: nothing could be analysed; the text is the program's message.
        ConditionHolds: a condition of `fail_if` holds.

    Warns:
        PartialResults: something in the input could not be used.
    """
    if options.get("partial") or options.get("share"):
        raise HtaError("cannot open a partial as results", "use hta_engine.ray, or run `hta analyze --partial`")
    with Place(output, options) as place:
        arguments = ["analyze", *_program.arguments_of({"out": place.folder, "only": only, "force": force, **options})]
        with Shown(progress) as shown:
            finished = _program.run(
                [*arguments, "--", *trace_arguments(traces)],
                allowed=(DONE, PARTLY, CONDITION),
                on_progress=shown.update,
            )
        return place.result(finished)


def open_results(
    place: PathText, *, endpoint: Optional[str] = None, store_timeout: Optional[int] = None
) -> Result:
    """Opens results of `analyze`, `hta analyze` or `hta merge`.

    Args:
        place: their folder, or their URL in an object store.
        endpoint: server of the store, instead of the cloud's own.
        store_timeout: seconds after which a store that sends nothing is asked again.

    Raises:
        HtaError: there are no such results.
    """
    return Result(place, store_options({"endpoint": endpoint, "store_timeout": store_timeout}))


def trace_arguments(traces: Traces) -> List[str]:
    """Traces as arguments of the program; URLs stay as they are."""
    if isinstance(traces, (str, bytes, os.PathLike)):
        return [os.fsdecode(traces)]
    arguments = [os.fsdecode(trace) for trace in traces]
    if not arguments:
        raise HtaError("cannot analyse anything: no traces are given")
    return arguments


class Place:
    """Where results go: the folder or URL of the caller, or a temporary folder, which is removed with the result."""

    def __init__(self, output: Optional[PathText], options: Mapping[str, object]) -> None:
        self._store = store_options(options)
        self._temporary = tempfile.mkdtemp(prefix="hta-results-") if output is None else None
        #: The folder or URL.
        self.folder = os.path.join(self._temporary, "results") if self._temporary else os.fsdecode(output or "")

    def __enter__(self) -> Place:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def result(self, finished: _program.Finished, level: int = 3) -> Result:
        """The results that a run has left; warns if it could not use all of the input.

        The warning names the line of the caller `level` calls above.
        """
        result = Result(self.folder, self._store)
        if self._temporary is not None:
            weakref.finalize(result, shutil.rmtree, self._temporary, ignore_errors=True)
            self._temporary = None
        result.messages = finished.messages
        if finished.exit_code == CONDITION:
            error = error_of(finished.lines, CONDITION)
            condition = ConditionHolds(error.message, error.hint, CONDITION)
            condition.result = result
            raise condition
        if finished.exit_code == PARTLY:
            warnings.warn(_what_is_lost(result, finished), PartialResults, stacklevel=level)
        return result


def _what_is_lost(result: Result, finished: _program.Finished) -> str:
    """What the health of the input says, and what the program said of files that it could not use."""
    lost = [h for h in result.summary.get("health", []) if h.get("severity") in ("lost", "fatal")]
    lines = [f"{h['counter']}: {h['count']} in {h['rank_count']} ranks, first in {h['first_file']}" for h in lost]
    lines += finished.lines
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"... {len(lines) - MOST_LINES} lines are left out"]
    return "\n".join(["part of the input could not be used", *lines, 'see tables["health"]'])
