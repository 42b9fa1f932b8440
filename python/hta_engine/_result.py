"""Results: their tables, findings, report, and SQL over it."""

from __future__ import annotations

import html
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Union

import polars as pl

from . import _program
from ._files import ResultFiles
from ._report import Report
from ._tables import Tables
from ._version import __version__
from .errors import HtaError, ResultsOfAnotherVersion

if TYPE_CHECKING:
    PathText = Union[str, os.PathLike[str]]
else:
    PathText = Union[str, os.PathLike]


class Result:
    """The results of `hta analyze`, in a folder or in an object store.

    Tables and report are read when they are asked for.
    """

    def __init__(self, place: PathText, store: Optional[Mapping[str, object]] = None) -> None:
        self._files = ResultFiles(os.fsdecode(place), store)
        #: What the program said besides the results: files that it could not use, and why.
        self.messages = ""
        self._check()
        #: Tables by name, as Polars frames.
        self.tables = Tables(self._files)

    @property
    def place(self) -> str:
        """The folder or URL of the results."""
        return self._files.place

    @property
    def folder(self) -> Path:
        """The folder of the results.

        Raises:
            HtaError: they are in a store.
        """
        if self._files.is_remote:
            raise HtaError(f"cannot name a folder: the results are at {self.place}", "`place` is their URL")
        return Path(self.place)

    def _check(self) -> None:
        hint = "give a folder that `hta_engine.analyze` or `hta analyze` wrote"
        if not self._files.is_remote and not self.folder.is_dir():
            found = "a file" if self.folder.exists() else "nothing"
            raise HtaError(f"cannot open {self.place}: expected a results folder, found {found}", hint)
        names = self._files.names()
        if "partial.json" in names:
            hint = "`hta merge` makes results of partials"
            raise HtaError(f"cannot open {self.place}: expected a results folder, found a partial", hint)
        has_tables = bool(self._files.names("tables"))
        if not has_tables or "summary.json" not in names:
            missing = "summary.json" if has_tables else "folder `tables`"
            raise HtaError(f"cannot open {self.place}: expected a results folder, found no {missing} in it", hint)
        made_by = self.summary.get("hta_version")
        if made_by != __version__:
            text = f"{self.place} was made by hta {made_by}, this is {__version__}: columns may have other names"
            warnings.warn(text, ResultsOfAnotherVersion, stacklevel=4)

    @property
    def summary(self) -> Dict[str, Any]:
        """Verdict, causes, totals and what was wrong with the input, as in `summary.json`."""
        try:
            summary = json.loads(self._files.path("summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise HtaError(f"cannot read summary.json of {self.place}: {error}") from error
        if not isinstance(summary, dict):
            found = type(summary).__name__
            raise HtaError(f"cannot read summary.json of {self.place}: expected an object, found {found}")
        return summary

    @property
    def trust(self) -> Dict[str, Dict[str, str]]:
        """How far the recording carries what is said, by capability.

        Each has a `grade` (`sure`, `at most` or `withheld`); where that is not `sure` also the `rule`, the `reason` and
        what to record `next`. The table `trust` has the same by rank.
        """
        trust = self.summary.get("trust", {})
        return dict(trust.get("capabilities", {}))

    @property
    def findings(self) -> pl.DataFrame:
        """What costs time, what fixing it saves and what to do about it, the most important first."""
        return self.tables["findings"]

    @property
    def events(self) -> pl.LazyFrame:
        """Every event of every rank with its arguments, as a lazy frame.

        Of results in a store all events are copied to a temporary folder first; `sql` reads there only what it needs.

        Raises:
            HtaError: the results were made without events.
        """
        names = [name for name in self._files.names("events") if name.endswith(".parquet")]
        if not names:
            raise HtaError(f"cannot find events in {self.place}", "make the results without no_events=True")
        files = [self._files.path(f"events/{name}") for name in names]
        # Ranks have columns for the arguments that occur in them.
        return pl.concat([pl.scan_parquet(path) for path in files], how="diagonal")

    def sql(self, query: str, *, limit: Optional[int] = None) -> pl.DataFrame:
        """The answer to a query: a SELECT over the tables, or the name of one of the program's queries.

        Raises:
            HtaError: the statement is wrong; the message says where.
        """
        with tempfile.TemporaryDirectory(prefix="hta-query-") as folder:
            answer = os.path.join(folder, "answer.parquet")
            statement = query
            if len(query.split()) > 1:
                # As a file: a command line is limited.
                statement = os.path.join(folder, "statement.sql")
                Path(statement).write_text(query, encoding="utf-8")
            wanted = {"results": self.place, "format": "parquet", "out": answer, "limit": limit}
            options = _program.arguments_of({**wanted, **self._files.store})
            _program.run(["query", *options, "--", statement])
            return pl.read_parquet(answer)

    def report(self, height: int = 720) -> Report:
        """The report: shown as a page in a notebook, as text in a terminal."""
        return Report(self._files, height)

    @property
    def verdict(self) -> str:
        """What costs most, in a line or two; empty if the analysis `diagnosis` did not run."""
        return "\n".join(_verdict_lines(self.summary))

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def _lines(self) -> List[str]:
        summary = self.summary
        count = summary.get("rank_count", 0)
        head = f"{self.place}: {count} rank{'' if count == 1 else 's'}, {summary.get('event_count', 0):,} events"
        refused = summary.get("refused_count", 0)
        if refused:
            head += f", {refused} file{'' if refused == 1 else 's'} not used"
        return [head, *_verdict_lines(summary)]


def _verdict_lines(summary: Dict[str, Any]) -> List[str]:
    verdict = summary.get("verdict")
    lines = verdict.get("lines") if isinstance(verdict, dict) else None
    return [str(line) for line in lines] if isinstance(lines, list) else []


class ConditionHolds(HtaError):
    """A condition of `fail_if` holds. The results are complete: they are in `result`."""

    result: Optional[Result] = None
