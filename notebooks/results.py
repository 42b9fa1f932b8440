"""The results that a notebook reads: the Parquet tables of `hta analyze`.

Nothing is analysed here. Results of a sample that are not there yet are made by the `hta` program itself.
"""

import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import polars as pl

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "data" / "samples"

TABLES_HINT = "make it with: hta analyze TRACES --out FOLDER"


class NoResults(Exception):
    """There is nothing to read; the text says what to do."""

    def _render_traceback_(self):
        # notebooks show the sentence, not the stack
        return [f"{type(self).__name__}: {self}"]


def program() -> str:
    """The `hta` to call: the environment variable HTA, else the one on the PATH, else the one built here."""
    named = os.environ.get("HTA")
    if named:
        found = shutil.which(named)
        if not found:
            raise NoResults(f"cannot run {named}, which the environment variable HTA names: no such program")
        return str(Path(found).resolve())
    built = HERE.parent / "target" / "release" / "hta"
    found = shutil.which("hta") or shutil.which(str(built))
    if not found:
        raise NoResults(
            "cannot find the program `hta`: it is not on the PATH and not built in target/release.\n"
            "hint: `pip install .` or `cargo build --release` at the top of the repository, "
            "or name it in the environment variable HTA"
        )
    return found


def make(sample: str) -> Path:
    """The results of a sample; `hta analyze` makes them if they are missing."""
    folder = Path(os.environ.get("HTA_NOTEBOOK_OUT", HERE / "out")) / sample
    if not (folder / "tables").is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        command = [program(), "analyze", f"data/samples/{sample}", "--out", str(folder.resolve())]
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):  # 1: a part of the input could not be used, the rest was
            raise NoResults(f"cannot analyse the sample {sample}: hta ended with {done.returncode}\n{done.stderr}")
    return folder


class Results:
    """A folder that `hta analyze` left."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        if not (self.folder / "tables").is_dir():
            raise NoResults(f"cannot read {folder}: expected a folder with `tables/`, as `hta analyze` leaves it\n"
                            f"hint: {TABLES_HINT}")

    def path(self, table: str) -> Path:
        """The file of a table."""
        path = self.folder / "tables" / f"{table}.parquet"
        if not path.is_file():
            raise NoResults(f"cannot read the table `{table}`: {path} is missing\n"
                            "hint: was it made by `hta analyze` of this version, without --compat?")
        return path

    def table(self, table: str) -> pl.DataFrame:
        """A table for Polars."""
        return pl.read_parquet(self.path(table))

    def events(self) -> Path | None:
        """The folder of all events; none if they were left out (--no-events)."""
        folder = self.folder / "events"
        return folder if folder.is_dir() else None

    def duckdb(self) -> duckdb.DuckDBPyConnection:
        """A connection in which every table is a view of its name; `events` too."""
        db = duckdb.connect()
        for path in sorted((self.folder / "tables").glob("*.parquet")):
            db.execute(f"CREATE VIEW {path.stem} AS FROM read_parquet({quoted(path)})")
        if self.events():
            pattern = self.events() / "*.parquet"
            db.execute(f"CREATE VIEW events AS FROM read_parquet({quoted(pattern)}, union_by_name = true)")
        return db

    def windows(self, table: str) -> pl.DataFrame:
        """The rows that a report shows means of: full steps; all steps if none is full; the span without steps."""
        rows = self.table(table)
        steps = rows.filter(pl.col("scope") == "step")
        full = steps.filter(~pl.col("is_partial"))
        return next((r for r in (full, steps) if not r.is_empty()), rows.filter(pl.col("scope") == "span"))

    def __repr__(self) -> str:
        ranks = self.table("ranks")
        devices = ranks["device_name"].drop_nulls().unique().sort().to_list()
        return (f"{self.folder.name}: {ranks.height} rank{'s' * (ranks.height != 1)}, "
                f"{ranks['event_count'].sum():,} events, {', '.join(devices) or 'no GPU named'}")


def quoted(path: Path) -> str:
    """A path as SQL text."""
    return "'" + str(path).replace("'", "''") + "'"


def open_results(folder: str = "", sample: str = "gpu_ddp8") -> Results:
    """The results in `folder`, else in the folder that HTA_RESULTS names, else those of the sample."""
    chosen = folder or os.environ.get("HTA_RESULTS", "")
    return Results(Path(chosen).expanduser() if chosen else make(sample))
