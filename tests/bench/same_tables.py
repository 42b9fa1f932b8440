#!/usr/bin/env python3
"""Holds the results of two builds of hta against each other, table by table and value by value.

    python3 tests/bench/same_tables.py --old PATH --new PATH [--jobs N] [--allow TABLE...] INPUT...

Each INPUT is a trace or a folder of traces; both programs run `hta analyze INPUT` with events. For every Parquet file
of both results folders, the schema (names, types, units and, unless --ignore-descriptions, descriptions), the number of
rows and every value in its row must agree; a table without rows may also have no file. The sizes of all Parquet files
of both, and the text reports, are compared as well: a different report is shown but is no error, since words may change. Exits 1 on any difference outside the tables
named by --allow. Needs the Python package pyarrow.
"""

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq


def analyzed(program: str, source: Path, out: Path) -> int:
    """Exit status of `hta analyze` into a folder."""
    command = [program, "analyze", str(source), "--out", str(out)]
    return subprocess.run(command, capture_output=True).returncode


def notes(field_or_schema, described: bool) -> dict:
    """Metadata that describes a table or column, without what a writer adds of its own."""
    found = field_or_schema.metadata or {}
    own = {k: v for k, v in found.items() if not k.startswith((b"ARROW:", b"PARQUET:"))}
    return {k: v for k, v in own.items() if described or k != b"description"}


def differences(old: Path, new: Path, described: bool) -> list[str]:
    """What differs between two Parquet files."""
    a, b = pq.read_table(old), pq.read_table(new)
    found = []
    if a.schema.names != b.schema.names:
        return [f"columns: {a.schema.names} and {b.schema.names}"]
    if notes(a.schema, described) != notes(b.schema, described):
        found.append("description of the table")
    for name in a.schema.names:
        x, y = a.schema.field(name), b.schema.field(name)
        if (x.type, x.nullable) != (y.type, y.nullable):
            found.append(f"type of {name}: {x} and {y}")
        if notes(x, described) != notes(y, described):
            found.append(f"description of {name}")
    if a.num_rows != b.num_rows:
        return found + [f"rows: {a.num_rows} and {b.num_rows}"]
    for name in a.schema.names:
        x, y = (t.column(name).combine_chunks() for t in (a, b))
        if str(x.type).startswith("dictionary"):
            x, y = (pc.cast(c, c.type.value_type) for c in (x, y))
        if x.equals(y):
            continue
        row = next(i for i in range(len(x)) if x[i].as_py() != y[i].as_py() and x[i].as_py() == x[i].as_py())
        found.append(f"{name} in row {row}: {x[row].as_py()!r} and {y[row].as_py()!r}")
    return found


def compare(args, source: Path) -> tuple[list[str], list[str], int, int, int]:
    """Differences, remarks, tables compared, and bytes of Parquet of both."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / which for which in ("old", "new")]
        codes = [analyzed(p, source, f) for p, f in zip((args.old, args.new), folders)]
        found = [] if codes[0] == codes[1] else [f"exit status {codes[0]} and {codes[1]}"]
        files = [{f.relative_to(d): f for d in [folder] for f in d.rglob("*.parquet")} for folder in folders]
        for name in sorted(set(files[0]) ^ set(files[1])):
            # a table without rows needs no file
            file = next(of[name] for of in files if name in of)
            if name.stem not in args.allow and pq.read_metadata(file).num_rows > 0:
                found.append(f"{name}: only in the {'old' if name in files[0] else 'new'} results")
        both, described = sorted(set(files[0]) & set(files[1])), not args.ignore_descriptions
        for name in both:
            if name.stem not in args.allow:
                found += [f"{name}: {d}" for d in differences(files[0][name], files[1][name], described)]
        sizes = [sum(f.stat().st_size for f in of.values()) for of in files]
        texts = [f / "report.txt" for f in folders]
        is_same = all(t.exists() for t in texts) and texts[0].read_bytes() == texts[1].read_bytes()
        remarks = [] if is_same or not both else ["report.txt differs"]
        return found, remarks, len(both), *sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--allow", nargs="*", default=[])
    parser.add_argument("inputs", nargs="+", type=Path)
    parser.add_argument("--ignore-descriptions", action="store_true", help="texts that describe tables and columns")
    args = parser.parse_args()
    failed, tables, total = 0, 0, [0, 0]
    with ThreadPoolExecutor(args.jobs) as pool:
        for source, answer in zip(args.inputs, pool.map(lambda i: compare(args, i), args.inputs)):
            found, remarks, count, old, new = answer
            failed += bool(found)
            tables += count
            total = [total[0] + old, total[1] + new]
            ratio = f"{new / old:.3f}" if old else "-"
            print(f"{source}: {count} tables, {'DIFFERENT' if found else 'same'}, size {ratio}", *remarks, sep="; ")
            for line in found[:20]:
                print(f"    {line}")
    ratio = f", size {total[1] / total[0]:.3f} of the old" if total[0] else ""
    print(f"{len(args.inputs)} inputs, {tables} tables, {failed} inputs different{ratio}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
