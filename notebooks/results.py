"""The results that a notebook reads: `hta_engine.Result`, with DuckDB and the rows that a report shows means of.

Nothing is analysed here. Results of a sample that are not there yet are made by the `hta` program.
"""

import os
import sys
from pathlib import Path

import duckdb
import polars as pl

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "data" / "samples"

# the package and, if there is one, the program of this checkout
sys.path.insert(0, str(HERE.parent / "python"))
BUILT = HERE.parent / "target" / "release" / "hta"
if BUILT.is_file():
    os.environ.setdefault("HTA_PROGRAM", str(BUILT))

import hta_engine  # noqa: E402


def make(sample: str) -> Path:
    """The results of a sample; they are made if they are missing."""
    folder = Path(os.environ.get("HTA_NOTEBOOK_OUT", HERE / "out")) / sample
    if not (folder / "tables").is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        hta_engine.analyze(SAMPLES / sample, folder, progress=False)
    return folder


class Results(hta_engine.Result):
    """A folder that `hta analyze` left."""

    def duckdb(self) -> duckdb.DuckDBPyConnection:
        """A connection in which every table is a view of its name; `events` too."""
        db = duckdb.connect()
        for name in self.tables:
            db.execute(f"CREATE VIEW {name} AS FROM read_parquet({quoted(self.tables.path(name))})")
        if (self.folder / "events").is_dir():
            pattern = self.folder / "events" / "*.parquet"
            db.execute(f"CREATE VIEW events AS FROM read_parquet({quoted(pattern)}, union_by_name = true)")
        return db

    def windows(self, table: str) -> pl.DataFrame:
        """The rows that a report shows means of: full steps; all steps if none is full; the span without steps."""
        rows = self.tables[table]
        steps = rows.filter(pl.col("scope") == "step")
        full = steps.filter(~pl.col("is_partial"))
        return next((r for r in (full, steps) if not r.is_empty()), rows.filter(pl.col("scope") == "span"))


def quoted(path: Path) -> str:
    """A path as SQL text."""
    return "'" + str(path).replace("'", "''") + "'"


def open_results(folder: str = "", sample: str = "gpu_ddp8") -> Results:
    """The results in `folder`, else in the folder that HTA_RESULTS names, else those of the sample."""
    chosen = folder or os.environ.get("HTA_RESULTS", "")
    return Results(Path(chosen).expanduser() if chosen else make(sample))
