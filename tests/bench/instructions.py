#!/usr/bin/env python3
"""Counts the instructions that `hta` executes, and holds them against a committed table (tests/bench/instructions.tsv).

    cargo build --release --bin hta --example load
    python3 tests/bench/instructions.py [--write] [--only TEXT]

Times on shared machines differ by a third from hour to hour; instructions do not. They are counted by callgrind
(valgrind), on one thread, for each input in four stages:

    load         target/release/examples/load: unpack, scan, columns; no analysis
    breakdown    hta breakdown: one analysis
    everything   hta analyze --no-events --no-html: every analysis, and all tables but the events
    full         hta analyze: the same, every event as Parquet, and the page

A count may exceed that of the table by 5 %. A change that costs more says in its message why, and moves the table by
--write. Inputs below `../shared` are left out, and named, where that folder is missing. Exits 1 when a count is too high
or a stage fails. Needs valgrind.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = os.path.join(ROOT, "tests", "bench", "instructions.tsv")

# What a count may exceed that of the table by.
ROOM = 1.05

INPUTS = [
    "data/samples/gpu_single",
    "data/samples/gpu_ddp8",
    "data/samples/serving",
    "../shared/traces/tracelens/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "../shared/traces/tracelens/b200_eager_trace.json.gz",
]

STAGES = ["load", "breakdown", "everything", "full"]


def command(args, stage, path, out):
    """The command of a stage on an input."""
    files = sorted(os.path.join(path, f) for f in os.listdir(path)) if os.path.isdir(path) else [path]
    if stage == "load":
        return [args.load, *(f for f in files if ".json" in f)]
    if stage == "breakdown":
        return [args.hta, "breakdown", path, "--threads", "1"]
    less = ["--no-events", "--no-html"] if stage == "everything" else []
    return [args.hta, "analyze", path, "--threads", "1", "--out", out, *less]


def counted(argv):
    """Instructions of a process and all of its threads."""
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *argv]
    done = subprocess.run(callgrind, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    # hta exits with 1 where an event could not be used
    if done.returncode not in (0, 1) or not found:
        sys.exit(f"cannot count {' '.join(argv)[:200]}: {done.stderr[-800:]}")
    return int(found[1])


def read_table():
    with open(TABLE) as table:
        rows = [line.rstrip("\n").split("\t") for line in table if not line.startswith("#")]
    return {(path, stage): int(count) for path, stage, count in rows[1:]}


def write_table(counts):
    with open(TABLE, "w") as table:
        table.write("# Instructions by input and stage, written by tests/bench/instructions.py --write.\n")
        table.write("input\tstage\tinstructions\n")
        for (path, stage), count in counts.items():
            table.write(f"{path}\t{stage}\t{count}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release")
    parser.add_argument("--hta", default=os.path.join(target, "hta"))
    parser.add_argument("--load", default=os.path.join(target, "examples", "load"))
    parser.add_argument("--write", action="store_true", help="write what is counted to the table")
    parser.add_argument("--only", default="", metavar="TEXT", help="only inputs whose path contains this")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("cannot count instructions: expected valgrind, found none\nhint: apt-get install valgrind")
    known = read_table() if os.path.exists(TABLE) else {}
    counts, too_many = dict(known), []
    print(f"{'million':>9} {'table':>9} {'ratio':>6}  stage       input")
    for path in (p for p in INPUTS if args.only in p):
        full = os.path.normpath(os.path.join(ROOT, path))
        if not os.path.exists(full):
            print(f"{path}: left out, because it is not there")
            continue
        for stage in STAGES:
            with tempfile.TemporaryDirectory() as scratch:
                count = counted(command(args, stage, full, os.path.join(scratch, "out")))
            before = known.get((path, stage))
            ratio = count / before if before else float("nan")
            print(f"{count / 1e6:9.1f} {(before or 0) / 1e6:9.1f} {ratio:6.3f}  {stage:10}  {path}", flush=True)
            counts[path, stage] = count
            if not before or ratio > ROOM:
                too_many.append(f"{path}, {stage}: {count / 1e6:.1f} million, {(before or 0) / 1e6:.1f} in the table")
    if args.write:
        write_table(counts)
    elif too_many:
        sys.exit("more than 5 % above the table:\n" + "\n".join(f"  {line}" for line in too_many))
    return 0


if __name__ == "__main__":
    sys.exit(main())
