#!/usr/bin/env python3
"""`hta query` against DuckDB on the same Parquet files: fifteen statements over the events of a results folder.

    hta analyze FOLDER --out RESULTS
    VENV/bin/python tests/bench/sql.py RESULTS [--hta target/release/hta] [--rounds 5] [--threads 2]

DuckDB keeps its connection and is warm: each statement runs once before it is timed. `hta query` is a process of its
own each time, so that its start and the opening of the files are part of its time; the files are in the page cache of
the operating system for both. Both have the same number of threads. The median of the rounds is compared. Both must
give the same rows, otherwise the statement fails. Exits 1 when the median of the ratios is above the limit.

Needs duckdb (python3 -m venv VENV && VENV/bin/pip install duckdb).
"""

import argparse
import csv
import io
import os
import statistics
import subprocess
import sys
import time

import duckdb

LIMIT = 2.0

STATEMENTS = [
    "SELECT COUNT(*) AS n FROM events",
    "SELECT category, COUNT(*) AS n, SUM(dur_ns) AS ns FROM events GROUP BY category ORDER BY n DESC, category",
    "SELECT name, SUM(dur_ns) AS ns FROM events WHERE class = 'kernel' GROUP BY name ORDER BY ns DESC, name LIMIT 10",
    "SELECT rank, SUM(dur_ns) AS ns FROM events WHERE class = 'kernel' GROUP BY rank ORDER BY rank",
    "SELECT rank, stream, COUNT(*) AS n FROM events WHERE stream IS NOT NULL GROUP BY rank, stream ORDER BY rank, stream",
    "SELECT MIN(ts_ns) AS first, MAX(ts_ns + dur_ns) AS last FROM events",
    "SELECT COUNT(DISTINCT name) AS names FROM events",
    "SELECT rank, event_id, name, dur_ns FROM events ORDER BY dur_ns DESC, rank, event_id LIMIT 20",
    "SELECT COUNT(*) AS n FROM events WHERE name LIKE '%gemm%'",
    "SELECT depth, COUNT(*) AS n, SUM(self_ns) AS ns FROM events WHERE depth IS NOT NULL GROUP BY depth ORDER BY depth",
    "SELECT class, MIN(dur_ns) AS least, MAX(dur_ns) AS most FROM events GROUP BY class ORDER BY class",
    "SELECT step, COUNT(*) AS n FROM events WHERE rank = 7 GROUP BY step ORDER BY step NULLS LAST",
    "SELECT COUNT(*) AS n FROM events WHERE dur_ns > 1000000 AND class = 'operator'",
    "SELECT k.rank AS rank, COUNT(*) AS n, SUM(k.ts_ns - l.ts_ns) AS delay FROM events AS k JOIN events AS l "
    "ON k.rank = l.rank AND k.launch_event_id = l.event_id WHERE k.class = 'kernel' GROUP BY k.rank ORDER BY rank",
    "SELECT op, SUM(ns) AS ns FROM (SELECT o.name AS op, k.dur_ns AS ns FROM events AS k JOIN events AS o "
    "ON k.rank = o.rank AND k.op_event_id = o.event_id) AS pairs GROUP BY op ORDER BY ns DESC, op LIMIT 10",
]


def rows_of(text):
    return [tuple(row) for row in csv.reader(io.StringIO(text))][1:]


def shown(value):
    return "" if value is None else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("--hta", default="target/release/hta")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    base = duckdb.connect(config={"threads": args.threads})
    files = os.path.join(args.results, "events", "*.parquet").replace("'", "''")
    base.execute(f"CREATE VIEW events AS SELECT * FROM '{files}'")
    count = base.execute("SELECT COUNT(*) FROM events").fetchone()[0]
    print(f"{count:,} events, {args.threads} threads, median of {args.rounds} rounds, ms")
    print(f"{'duckdb':>8} {'hta':>8} {'ratio':>6}  statement")
    ratios, differ = [], 0
    for statement in STATEMENTS:
        command = [args.hta, "query", statement, args.results, "--format", "csv", "--threads", str(args.threads)]
        expected = [tuple(map(shown, row)) for row in base.execute(statement).fetchall()]
        found = rows_of(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        times = ([], [])
        for _ in range(args.rounds):
            start = time.perf_counter()
            base.execute(statement).fetchall()
            times[0].append(time.perf_counter() - start)
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times[1].append(time.perf_counter() - start)
        duck, own = (1e3 * statistics.median(t) for t in times)
        ratios.append(own / duck)
        same = found == expected
        differ += not same
        print(f"{duck:8.0f} {own:8.0f} {own / duck:6.2f}  {statement[:80]}{'' if same else '  OTHER ROWS'}", flush=True)
    middle = statistics.median(ratios)
    print(f"median ratio {middle:.2f} (at most {LIMIT}), largest {max(ratios):.2f}")
    return int(differ > 0 or middle > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
