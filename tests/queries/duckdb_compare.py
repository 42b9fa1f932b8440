"""Holds the answers of `hta query` against those of DuckDB over the same Parquet.

    python3 tests/queries/duckdb_compare.py [--hta target/release/hta] RESULTS_DIR...

Each RESULTS_DIR is what `hta analyze` left, with events. Every file of queries/ runs unchanged in both engines, on
every folder. Column names, their order, the number and order of rows and every value must agree: integers, texts and
missing values exactly, floats to 1e-9 of their size. Exits 1 on any difference, on a query that fails in one engine,
and on one that has no rows on any of the folders unless --may-be-empty names it. Needs the Python package duckdb.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-9
# events alone are several files
EVENTS = "events"


def connected(hta: str, results: Path, made: Path) -> duckdb.DuckDBPyConnection:
    """A database with a view for each table of a results folder. Those without rows have no file: it is made."""
    connection = duckdb.connect()
    sources = {f.stem: str(f) for f in sorted((results / "tables").glob("*.parquet"))}
    for name in json.loads((results / "summary.json").read_text(encoding="utf-8"))["empty_tables"]:
        sources[name] = str(made / f"{name}.parquet")
        subprocess.run([hta, "files", str(results), f"tables/{name}.parquet", "--out", sources[name]], check=True)
    if any((results / EVENTS).glob("*.parquet")):
        sources[EVENTS] = str(results / EVENTS / "*.parquet")
    for name, source in sources.items():
        quoted = source.replace("'", "''")
        connection.execute(f"CREATE VIEW \"{name}\" AS SELECT * FROM read_parquet('{quoted}')")
    return connection


def by_hta(hta: str, query: Path, results: Path) -> tuple[list[str], list[tuple]]:
    """The answer of hta: names from CSV, which has them without rows too, and values from JSON, which has types."""
    command = [hta, "query", query.stem, "--results", str(results), "--format"]
    run = lambda form: subprocess.run([*command, form], check=True, capture_output=True, text=True).stdout
    names = run("csv").split("\n", 1)[0].split(",")
    rows = json.loads(run("json"))
    for row in rows:
        if list(row) != names:
            raise ValueError(f"JSON has the columns {list(row)}, CSV {names}")
    return names, [tuple(row.values()) for row in rows]


def by_duckdb(connection: duckdb.DuckDBPyConnection, query: Path) -> tuple[list[str], list[tuple]]:
    found = connection.execute(query.read_text(encoding="utf-8"))
    return [column[0] for column in found.description], found.fetchall()


def agree(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, (float, int)) and not isinstance(theirs, bool):
        return math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=0.0) or ours == theirs
    # True is not 1 here, and 1 is not 1.0
    return type(ours) is type(theirs) and ours == theirs


def difference(ours: tuple[list[str], list[tuple]], theirs: tuple[list[str], list[tuple]]) -> str | None:
    """The first difference between two answers, in words."""
    if ours[0] != theirs[0]:
        return f"columns: hta {ours[0]}, duckdb {theirs[0]}"
    if len(ours[1]) != len(theirs[1]):
        return f"rows: hta {len(ours[1])}, duckdb {len(theirs[1])}"
    for number, (own, other) in enumerate(zip(ours[1], theirs[1])):
        for name, a, b in zip(ours[0], own, other):
            if not agree(a, b):
                return f"row {number}, {name}: hta {a!r}, duckdb {b!r}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path, help="folders that `hta analyze` left")
    parser.add_argument("--hta", default=str(ROOT / "target/release/hta"), help="the program [target/release/hta]")
    parser.add_argument("--may-be-empty", default="", help="queries that need no rows, joined by commas")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each query and folder")
    arguments = parser.parse_args()

    queries = sorted((ROOT / "queries").glob("*.sql"))
    rows = {query.stem: 0 for query in queries}
    values, failures = 0, []
    scratch = tempfile.TemporaryDirectory(prefix="hta-empty-tables-")
    for number, results in enumerate(arguments.results):
        made = Path(scratch.name) / str(number)
        made.mkdir()
        connection = connected(arguments.hta, results, made)
        for query in queries:
            try:
                ours = by_hta(arguments.hta, query, results)
                theirs = by_duckdb(connection, query)
                found = difference(ours, theirs)
            except subprocess.CalledProcessError as error:
                found = f"hta: {error.stderr.strip()}"
            except (duckdb.Error, ValueError) as error:
                found = f"duckdb: {error}"
            if found:
                failures.append(f"{query.stem} on {results.name}: {found}")
                continue
            rows[query.stem] += len(ours[1])
            values += len(ours[0]) * len(ours[1])
            if arguments.verbose:
                print(f"{query.stem} on {results.name}: {len(ours[1])} rows agree")

    excused = {name for name in arguments.may_be_empty.split(",") if name}
    empty = [name for name, count in rows.items() if count == 0]
    failures += [f"{name}: no rows on any folder" for name in empty if name not in excused]
    print(f"{len(queries)} queries on {len(arguments.results)} results: {values} values agree with DuckDB "
          f"{duckdb.__version__}; {len(queries) - len(empty)} queries have rows somewhere")
    if empty:
        print(f"no rows: {', '.join(empty)}")
    for failure in failures:
        print(f"differs: {failure}")
    return 1 if failures or not queries else 0


if __name__ == "__main__":
    sys.exit(main())
