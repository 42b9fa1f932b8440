#!/usr/bin/env python3
"""`hta query` against DuckDB on the same Parquet files: fifteen statements over the events of a results folder.

    hta analyze FOLDER --out RESULTS
    VENV/bin/python tests/bench/sql.py RESULTS [--hta target/release/hta] [--rounds 5] [--threads 2]

DuckDB keeps its connection and is warm: each statement runs once before it is timed. `hta query` is a process of its
own each time, so that its start and the opening of the files are part of its time; the files are in the page cache of
the operating system for both. Both have the same number of threads. The median of the rounds is compared. Both must
give the same rows, otherwise the statement fails. Elapsed time depends on what else the machine does, so CPU (user and
system, of all threads) is measured too and is what counts. Exits 1 when the median of its ratios is above the limit, or
one of them is above the limit for one statement.

Needs duckdb (python3 -m venv VENV && VENV/bin/pip install duckdb).
"""

import argparse
import csv
import io
import os
import resource
import statistics
import subprocess
import sys
import time

import duckdb

LIMIT = 1.5
LIMIT_OF_ONE = 4.0

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


def cpu(whose):
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def measured(run, whose):
    """CPU and elapsed time of `run`, ms."""
    start = (cpu(whose), time.perf_counter())
    run()
    return 1e3 * (cpu(whose) - start[0]), 1e3 * (time.perf_counter() - start[1])


def medians(times):
    return [statistics.median(column) for column in zip(*times)]


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
    print(f"{'CPU':>24} {'elapsed':>24}")
    print(f"{'duckdb':>8} {'hta':>8} {'ratio':>6} {'duckdb':>8} {'hta':>8} {'ratio':>6}  statement")
    ratios, differ = [], 0
    for statement in STATEMENTS:
        command = [args.hta, "query", statement, args.results, "--format", "csv", "--threads", str(args.threads)]
        expected = [tuple(map(shown, row)) for row in base.execute(statement).fetchall()]
        found = rows_of(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        by_duckdb, by_hta = [], []
        for _ in range(args.rounds):
            by_duckdb.append(measured(lambda: base.execute(statement).fetchall(), resource.RUSAGE_SELF))
            run = lambda: subprocess.run(command, check=True, capture_output=True)
            by_hta.append(measured(run, resource.RUSAGE_CHILDREN))
        duck, own = medians(by_duckdb), medians(by_hta)
        ratios.append(own[0] / duck[0])
        same = found == expected
        differ += not same
        pairs = " ".join(f"{d:8.0f} {h:8.0f} {h / d:6.2f}" for d, h in zip(duck, own))
        print(f"{pairs}  {statement[:80]}{'' if same else '  OTHER ROWS'}", flush=True)
    middle = statistics.median(ratios)
    print(f"CPU: median ratio {middle:.2f} (at most {LIMIT}), largest {max(ratios):.2f} (at most {LIMIT_OF_ONE})")
    return int(differ > 0 or middle > LIMIT or max(ratios) > LIMIT_OF_ONE)


if __name__ == "__main__":
    sys.exit(main())
