"""Holistic trace analysis of distributed PyTorch jobs, from Python.

    import hta_engine

    r = hta_engine.analyze("traces")
    r.findings                # what costs most, as a Polars frame
    r.tables["stragglers"]
    r.sql("SELECT name, sum(dur_ns) AS ns FROM kernels GROUP BY name ORDER BY ns DESC LIMIT 5")
    r.report()                # a page in a notebook, text in a terminal

The program `hta`, which is part of the same wheel, does the work; this package runs it and reads the Parquet files
that it leaves. `hta_engine.ray` spreads the ranks of a large job over a Ray cluster.
"""

from __future__ import annotations

from ._analyze import Traces, analyze, open_results
from ._progress import Progress
from ._report import Report
from ._result import ConditionHolds, Result
from ._tables import Tables
from ._version import __version__
from .errors import (
    HtaError,
    NoSuchTable,
    PartialResults,
    ProgramNotFound,
    ResultsOfAnotherVersion,
    WrongProgram,
)

__all__ = [
    "ConditionHolds",
    "HtaError",
    "NoSuchTable",
    "PartialResults",
    "Progress",
    "ProgramNotFound",
    "Report",
    "Result",
    "ResultsOfAnotherVersion",
    "Tables",
    "Traces",
    "WrongProgram",
    "__version__",
    "analyze",
    "open_results",
]


def __getattr__(name: str) -> object:
    # Ray is loaded only where it is used.
    if name == "ray":
        import importlib

        return importlib.import_module("hta_engine.ray")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
