#!/usr/bin/env python3
"""Reading a large export of nsys: CPU against a plain scan of the same tables by sqlite3, and memory against its size.

    python3 tests/bench/nsys.py EXPORT.sqlite [--times 60] [--load target/release/examples/load] [--rounds 3]

Makes a large export by repeating the rows of a real one, later each time and with correlation ids of their own. Then
it runs, in turn, the sqlite3 command line on `SELECT COUNT(*), SUM(end - start)` of each table that hta reads, and the
example `load`, which reads every rank of the file into columns on one thread. The smallest CPU of the rounds counts.

Needs sqlite3 (Debian: sqlite3) and `cargo build --release --example load`.
"""

import argparse
import os
import resource
import shutil
import sqlite3
import subprocess
import tempfile

TABLES = [
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "NVTX_EVENTS",
]


def repeat(source, target, times):
    """Writes a copy of an export in which each table of events has its rows `times` times; returns the tables."""
    shutil.copy(source, target)
    os.chmod(target, 0o644)
    db = sqlite3.connect(target)
    db.execute("PRAGMA journal_mode = off")
    db.execute("PRAGMA synchronous = off")
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    tables = [t for t in TABLES if t in there]
    columns = {t: [row[1] for row in db.execute(f"PRAGMA table_info({t})")] for t in tables}
    most = lambda column: max(
        db.execute(f"SELECT MAX({column}) FROM {t}").fetchone()[0] or 0 for t in tables if column in columns[t])
    span, calls = most("end") + 1_000_000, most("correlationId") + 1
    for table in tables:
        db.execute(f"CREATE TEMP TABLE once AS SELECT * FROM {table}")
        for i in range(1, times):
            later = {"start": i * span, "end": i * span, "correlationId": i * calls}
            values = ", ".join(f'"{c}" + {later[c]}' if c in later else f'"{c}"' for c in columns[table])
            db.execute(f"INSERT INTO {table} SELECT {values} FROM temp.once")
        db.execute("DROP TABLE temp.once")
        db.commit()
    db.close()
    return tables


def run(command, stdin=None):
    """CPU seconds and peak resident MiB of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.NamedTemporaryFile() as peak:
        # The peak of all children is not that of this one, so that GNU time reports it.
        subprocess.run(["/usr/bin/time", "-f", "%M", "-o", peak.name, *command], input=stdin, text=True, check=True,
                       stdout=subprocess.DEVNULL)
        kib = int(peak.read().split()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, kib / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export")
    parser.add_argument("--times", type=int, default=60)
    parser.add_argument("--load", default="target/release/examples/load")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = os.path.join(folder, "large.sqlite")
        tables = repeat(args.export, large, args.times)
        size = os.path.getsize(large) / 2**20
        scan = "".join(f"SELECT COUNT(*), SUM(end - start) FROM {t};\n" for t in tables)
        scans, loads = [], []
        for _ in range(args.rounds):
            scans.append(run(["sqlite3", large], scan))
            loads.append(run([args.load, large]))
        scanned, loaded = min(scans)[0], min(loads)[0]
        print(f"{size:,.0f} MiB: sqlite3 {scanned:.2f} s, hta {loaded:.2f} s of CPU, {loaded / scanned:.1f} times; "
              f"memory {min(m for _, m in loads):,.0f} MiB, {min(m for _, m in loads) / size:.2f} of the size")


if __name__ == "__main__":
    main()
